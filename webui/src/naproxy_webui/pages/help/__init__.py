"""/help: the pages of docs/, on the box."""
