"""`naproxy replay`: an access log played to a box, and the answers that its visitors got."""
