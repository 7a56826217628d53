"""The history: power and energy, traffic, transitions, wakes and decisions (docs/history.md)."""
