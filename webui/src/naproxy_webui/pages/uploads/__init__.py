"""The page uploads."""
