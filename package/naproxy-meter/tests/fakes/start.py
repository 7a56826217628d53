"""What a Pico does at its start, in CPython: its main.py, with a fake chip (1 A, 12 V, 0.1 ohm).

    python start.py FLASH

Ends with 3 when it is to restart, with 5 when main.py has ended: then there is the REPL. WATTS=n
lets the chip measure another load.
"""

import os
import sys
import time
import types
from pathlib import Path

import machine

FLASH = Path(sys.argv[1])


class Line:
    """Standard input or output as MicroPython has it: nothing is read ahead."""

    def __init__(self, number, mode):
        self.buffer = open(number, mode, buffering=0)  # noqa: SIM115 - open until it ends
        self.fileno = self.buffer.fileno


def ticks_diff(late, early):
    return late - early


def started():
    os.chdir(FLASH)
    sys.stdin, sys.stdout = Line(0, "rb"), Line(1, "wb")
    sys.modules["micropython"] = types.SimpleNamespace(kbd_intr=lambda _: None)
    time.ticks_us = lambda: time.monotonic_ns() // 1000
    time.ticks_diff = ticks_diff
    time.sleep_us = lambda us: time.sleep(us / 1e6)
    time.sleep_ms = lambda ms: time.sleep(ms / 1e3)
    machine.State.chip.shunt = round(10000 * float(os.environ.get("WATTS", "12")) / 12)
    source = Path("main.py").read_text().replace('(0, "/', f'(0, "{FLASH}/')
    try:
        exec(compile(source, "main.py", "exec"), {"__name__": "__main__"})
    except machine.Reset:
        os._exit(3)
    os._exit(5)


started()
