"""Meters' drivers against whole public collections of what devices say."""
