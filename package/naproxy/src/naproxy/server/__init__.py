"""One server, pure: its state machine, wake ladder, inhibitors and commissioning."""
