"""A Raspberry Pi Pico on the box's USB: real MicroPython and the real firmware."""
