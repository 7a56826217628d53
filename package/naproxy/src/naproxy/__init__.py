"""Naproxy: puts a web server to sleep when nobody needs it, and wakes it when somebody does."""

__version__ = "0.1.0"
