"""The page now."""
