"""The controller's process: puts the parts together and serves the control API."""
