"""The real firmware loop on standard input and output, with a fake chip: 1 A, 12 V, 0.1 ohm.

Under MicroPython it is the Pico's, under CPython the box's.
"""

import sys

if sys.implementation.name == "micropython":
    from naproxy_meter import pico

    pico.main()
else:
    from chip import Chip

    from naproxy_meter import box
    from naproxy_meter.ina219 import INA219

    chip = Chip(box.uptime())
    chip.shunt, chip.bus = 10000, 3000
    box.measure(INA219(lambda: chip), "meter.settings", "i2c1-40", box.Pipe(0, 1))
