"""The first run: finding the server, letting the box in, finding a meter.

Everything here only reads and suggests; decisions are written by `PATCH /v1/config`.
"""
