"""The web interface as an app: installed, and while the box does not answer."""
