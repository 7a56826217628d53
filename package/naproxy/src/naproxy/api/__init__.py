"""What a request to the control API is, and what asks it."""
