"""What the tests run in: the virtual office, and the past, the demo and the five made of it."""
