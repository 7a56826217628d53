"""Which of two versions is the newer one: pure."""

from __future__ import annotations

import re
from typing import Final, Literal

Order = Literal["newer", "same", "older", "unknown"]

_VERSION: Final = re.compile(
    r"v?(\d+(?:\.\d+)*)(?:[-~.]?(a|alpha|b|beta|rc|dev)[-.]?(\d*))?(?:\+.*)?",
    re.ASCII,
)
_STAGES: Final = {"dev": 0, "a": 1, "alpha": 1, "b": 2, "beta": 2, "rc": 3, None: 4}


def order(offered: str, running: str) -> Order:
    """Return what `offered` is beside `running`; unknown if one is not of the form 1.2.3[-rc1]."""
    if offered == running:
        return "same"
    keys = _key(offered), _key(running)
    if keys[0] is None or keys[1] is None:
        return "unknown"
    if keys[0] == keys[1]:
        return "same"
    return "newer" if keys[0] > keys[1] else "older"


def _key(version: str) -> tuple[tuple[int, ...], int, int] | None:
    found = _VERSION.fullmatch(version.strip().lower()) if len(version) <= 100 else None
    if found is None:
        return None
    numbers = [int(n) for n in found[1].split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers), _STAGES[found[2]], int(found[3] or 0)
