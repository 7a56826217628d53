"""The page claim."""
