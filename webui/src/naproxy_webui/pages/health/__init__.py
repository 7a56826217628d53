"""The page health."""
