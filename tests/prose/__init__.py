"""Reads the project's sentences, and counts those that break a rule of docs/contributing.md."""
