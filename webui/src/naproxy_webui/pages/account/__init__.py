"""The page account."""
