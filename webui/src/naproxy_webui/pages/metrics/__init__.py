"""The page metrics."""
