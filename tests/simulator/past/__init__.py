"""Weeks of history, made by the real controller in minutes of virtual time: docs/demo.md."""
