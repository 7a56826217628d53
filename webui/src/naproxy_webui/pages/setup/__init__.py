"""The page setup."""
