"""Calibrating our meter: its settings from readings without a load, or with a known one.

Pure. docs/meter.md has the settings; SBOS448 (INA219) the steps of 10 uV.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import pstdev
from typing import Final

from naproxy_meter import host
from naproxy_meter.accumulator import CLIPPED

from naproxy.core.reason import WrongError

ZERO_S: Final = 5.0
GAIN_S: Final = 10.0

_MOST_ZERO: Final = 100
"""Steps of the shunt that may be the chip's own error: 1 mV. More is a current."""
_LEAST_GAIN: Final = 100
"""With fewer steps a reading is coarser than one percent, and so is the result."""
_STEADY: Final = 0.02
_SHUNT_UOHM: Final = (100, 10_000_000)
_CLIPPED: Final = host.FLAG_NAMES[CLIPPED]


def zero(about: host.Hello, readings: Sequence[host.Reading]) -> tuple[str, int]:
    """Return the setting that makes what flows now nothing; WrongError if that is a load."""
    offset = round(_steps(about, readings))
    if abs(offset) > _MOST_ZERO:
        raise WrongError("pico.not_at_rest", current_a=round(_amperes(about, offset), 3))
    return "shunt_offset", offset


def gain(about: host.Hello, readings: Sequence[host.Reading], load_w: float) -> tuple[str, int]:
    """Return the setting that makes what flows now `load_w`; WrongError if that cannot be."""
    if any(_CLIPPED in each.flags for each in readings):
        raise WrongError("pico.beyond")
    covered_s = math.fsum(each.covered_s for each in readings)
    power_w = math.fsum(each.energy_j for each in readings) / covered_s
    steps = _steps(about, readings) - about.shunt_offset
    if power_w <= 0 or steps < _LEAST_GAIN:
        raise WrongError("pico.too_little", power_w=max(0.0, power_w))
    seconds = _seconds(readings)
    if pstdev(seconds) > _STEADY * power_w:
        raise WrongError("pico.unsteady", low_w=min(seconds), high_w=max(seconds))
    shunt_uohm = round(about.shunt_uohm * power_w / load_w)
    low, high = _SHUNT_UOHM
    if not low <= shunt_uohm <= high:
        raise WrongError("pico.no_such_shunt", power_w=power_w, load_w=load_w)
    return "shunt_uohm", shunt_uohm


def _steps(about: host.Hello, readings: Sequence[host.Reading]) -> float:
    """Return the mean of the shunt's register, of which the firmware has taken no offset."""
    count = sum(each.readings for each in readings)
    if not count:
        raise WrongError("pico.no_reading")
    total = math.fsum((each.current_a or 0.0) * each.readings for each in readings)
    return total / count * about.shunt_uohm / 1e6 / host.SHUNT_UNIT_V


def _amperes(about: host.Hello, steps: float) -> float:
    return steps * host.SHUNT_UNIT_V / (about.shunt_uohm / 1e6)


def _seconds(readings: Sequence[host.Reading]) -> list[float]:
    """Return the mean powers of pieces of about a second."""
    found, energy_j, covered_s = [], 0.0, 0.0
    for each in readings:
        energy_j += each.energy_j
        covered_s += each.covered_s
        if covered_s >= 1.0:
            found.append(energy_j / covered_s)
            energy_j = covered_s = 0.0
    return found or [energy_j / covered_s]
