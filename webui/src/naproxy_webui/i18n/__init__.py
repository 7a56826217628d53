"""The interface's texts, and the controller's reasons, in the user's language."""
