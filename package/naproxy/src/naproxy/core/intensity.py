"""The grid's carbon intensity in an answer of JSON: its place, and whether the number is plausible.

Pure. A JSON Pointer (RFC 6901) names its place. The answer comes from outside and may say anything.
A unit or a time beside the number, or around it, counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

from naproxy.core.bounded import json_value
from naproxy.core.rates import MOST_CO2
from naproxy.core.reason import Reason, WrongError

MOST_BYTES: Final = 1 << 16
"""Of an answer."""
_POINTER: Final = re.compile(r"(?:/(?:[^~/]|~[01])*)*")
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,8}")
_NUMBER: Final = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,12})?")
"""As Home Assistant has it, whose states are texts."""
STALE_S: Final = 6 * 3600.0
"""The intensity differs between night and noon, and the slowest APIs are two hours late."""
_LEAST_G: Final = 2.0
"""Less than that and more than 0 has no grid in grams; coal has 1 in kilograms."""
_UNITS: Final = ("unit", "units", "unit_of_measurement")
_UNIT: Final = re.compile(
    r"(?P<mass>mg|kg|g|t|lbs?)(?:co2e?q?)?(?:/|per)(?P<energy>kwh|mwh|wh)", re.IGNORECASE
)
_GRAMS: Final = {"mg": 1e-3, "g": 1.0, "kg": 1e3, "t": 1e6, "lb": 453.59237, "lbs": 453.59237}
_KWH: Final = {"wh": 1e-3, "kwh": 1.0, "mwh": 1e3}
_TIMES: Final = ("datetime", "to", "timestamp", "time", "last_reported", "updatedAt")
"""The time that a value is for, else when it was told. Home Assistant's last_updated is neither."""
_EPOCH: Final = 1e9
_MILLISECONDS: Final = 1e11


def is_pointer(text: str) -> Reason | None:
    """Check a JSON Pointer; the empty one is the whole answer."""
    return None if _POINTER.fullmatch(text) else Reason("config.json_pointer")


def grams(data: bytes, pointer: str, now_s: float | None = None) -> float:
    """Return the grams a kilowatt-hour that an answer says; WrongError.

    With `now_s` a value of another time is refused.
    """
    if len(data) > MOST_BYTES:
        raise WrongError("co2.large", high=MOST_BYTES)
    try:
        found = json_value(data.decode("utf-8-sig"))
    except ValueError:
        raise WrongError("co2.no_json") from None
    around = []
    for part in pointer.split("/")[1:]:
        around.append(found)
        found = _below(found, part.replace("~1", "/").replace("~0", "~"), pointer)
    if isinstance(found, str) and _NUMBER.fullmatch(found):
        found = float(found)
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise WrongError("co2.no_number", pointer=pointer or "/")
    if not 0 <= found <= MOST_CO2:
        raise WrongError("co2.out_of_range", high=int(MOST_CO2))
    factor = next(_factors(around), None)
    if factor is None and 0 < found < _LEAST_G:
        raise WrongError("co2.kilograms", value=f"{found:g}")
    found_g = found * (factor or 1.0)
    if found_g > MOST_CO2:
        raise WrongError("co2.out_of_range", high=int(MOST_CO2))
    for_s = next(_moments(around), None)
    if now_s is not None and for_s is not None and abs(now_s - for_s) > STALE_S:
        raise WrongError("co2.other_time", for_at_s=for_s)
    return float(found_g)


def _values(around: list[Any], names: tuple[str, ...]) -> Iterator[Any]:
    """Yield what the objects around the number say under these names, the nearest first."""
    for each in reversed(around):
        if isinstance(each, dict):
            inner = each.get("attributes")  # Home Assistant's, beside the state
            for place in (each, inner if isinstance(inner, dict) else {}):
                yield from (place[name] for name in names if name in place)


def _factors(around: list[Any]) -> Iterator[float]:
    for text in _values(around, _UNITS):
        compact = re.sub(r"[\s·._-]|\(.*?\)", "", str(text).replace("₂", "2"))
        if unit := _UNIT.fullmatch(compact):
            yield _GRAMS[unit["mass"].lower()] / _KWH[unit["energy"].lower()]


def _moments(around: list[Any]) -> Iterator[float]:
    """Yield epoch seconds."""
    for value in _values(around, _TIMES):
        if isinstance(value, str):
            try:
                when = datetime.fromisoformat(value)
                yield (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
            except (ValueError, OverflowError):
                continue
        elif isinstance(value, int | float) and value > _EPOCH:
            yield value / 1000 if value > _MILLISECONDS else float(value)


def _below(found: Any, name: str, pointer: str) -> Any:
    if isinstance(found, dict) and name in found:
        return found[name]
    if isinstance(found, list) and _INDEX.fullmatch(name) and int(name) < len(found):
        return found[int(name)]
    raise WrongError("co2.nothing_there", pointer=pointer)
