"""The first run: finding the server, letting the box in, finding a meter.

Everything here looks and suggests; what is decided is written by `PATCH /v1/config`.
"""
