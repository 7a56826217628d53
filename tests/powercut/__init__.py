"""What a kill and a power cut cost the history: never more than docs/history.md says."""
