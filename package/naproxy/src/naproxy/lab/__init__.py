"""Estimates from logs, replays and measurements. A box runs without this folder."""
