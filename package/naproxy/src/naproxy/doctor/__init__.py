"""What keeps a server from sleeping and waking, and how to mend it: readings and checks."""
