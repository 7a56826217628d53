"""The office, for pages: its servers and meters, times, the history."""
