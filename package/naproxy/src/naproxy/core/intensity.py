"""The grid's carbon intensity in an answer of JSON: which number it is, and whether it can be one.

Pure. A JSON Pointer (RFC 6901) says where it stands. What answers is not ours: it may say anything.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from naproxy.core.rates import MOST_CO2
from naproxy.core.reason import Reason, WrongError

MOST_BYTES: Final = 1 << 16
"""Of an answer."""
_POINTER: Final = re.compile(r"(?:/(?:[^~/]|~[01])*)*")
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,8}")
_NUMBER: Final = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,12})?")
"""As Home Assistant has it, whose states are texts."""


def is_pointer(text: str) -> Reason | None:
    """Check a JSON Pointer; the empty one is the whole answer."""
    return None if _POINTER.fullmatch(text) else Reason("config.json_pointer")


def grams(data: bytes, pointer: str) -> float:
    """Return the grams a kilowatt-hour that an answer says; WrongError."""
    if len(data) > MOST_BYTES:
        raise WrongError("co2.large", high=MOST_BYTES)
    try:
        found = json.loads(data.decode("utf-8-sig"), parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise WrongError("co2.no_json") from None
    for part in pointer.split("/")[1:]:
        found = _below(found, part.replace("~1", "/").replace("~0", "~"), pointer)
    if isinstance(found, str) and _NUMBER.fullmatch(found):
        found = float(found)
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise WrongError("co2.no_number", pointer=pointer or "/")
    if not 0 <= found <= MOST_CO2:
        raise WrongError("co2.out_of_range", high=int(MOST_CO2))
    return float(found)


def _refuse(_: str) -> None:
    raise ValueError


def _below(found: Any, name: str, pointer: str) -> Any:
    if isinstance(found, dict) and name in found:
        return found[name]
    if isinstance(found, list) and _INDEX.fullmatch(name) and int(name) < len(found):
        return found[int(name)]
    raise WrongError("co2.nothing_there", pointer=pointer)
