"""Reads the history for pages and commands. Nothing here writes."""
