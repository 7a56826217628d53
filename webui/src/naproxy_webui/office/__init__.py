"""What pages say of the office: its servers and meters, times, the history."""
