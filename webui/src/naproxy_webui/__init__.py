"""Naproxy's web interface (docs/webui.md)."""
