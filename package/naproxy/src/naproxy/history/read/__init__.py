"""What the history says, for pages and commands. Nothing here writes."""
