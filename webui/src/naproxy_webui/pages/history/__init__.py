"""The page history."""
