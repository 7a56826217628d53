"""The page savings."""
