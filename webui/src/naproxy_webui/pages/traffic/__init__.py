"""The page traffic."""
