"""Writes the history: batches of readings, requests, changes and decisions."""
