"""The page description."""
