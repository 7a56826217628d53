"""The page login."""
