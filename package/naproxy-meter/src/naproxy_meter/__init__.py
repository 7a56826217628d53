"""Firmware of the INA219 energy meter, and what its host needs to talk to it.

Runs under MicroPython on a Raspberry Pi Pico and under CPython on the box:
`ina219`, `accumulator`, `frame`, `settings`, `outbox`, `meter`. Only on the
Pico: `pico`. Only under CPython: `box`, `host`, `console`.
The protocol and the wiring are in docs/meter.md.
"""
