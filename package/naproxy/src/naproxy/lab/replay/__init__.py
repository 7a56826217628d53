"""`naproxy replay`: an access log played to a box, and what its visitors got."""
