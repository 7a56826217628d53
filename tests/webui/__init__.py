"""The web interface in a real browser, before a real controller."""
