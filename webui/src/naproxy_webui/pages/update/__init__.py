"""The page update."""
