"""Readings and checks: obstacles to a server's sleep and wake, and their remedies."""
