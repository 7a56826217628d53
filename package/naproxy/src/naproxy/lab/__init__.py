"""What is not needed to run a box: estimates from logs, replays, measurements."""
