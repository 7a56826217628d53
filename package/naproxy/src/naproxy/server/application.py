"""Whether an application on the server reports that it is busy: pure."""

from __future__ import annotations

import json
from typing import Final

from naproxy.core.bounded import json_value
from naproxy.core.reason import Reason

_BUSY: Final = (409, 423, 503)
_MOST_SHOWN: Final = 60


def busy(path: str, field: str, status: int, body: bytes) -> Reason | None:
    """Return why the server must not sleep, or None: the application has nothing to do.

    With a `field`, its JSON is read there: false, 0, null and empty values mean idle. An invalid
    answer is a reason, too.
    """
    if not field:
        if status in _BUSY:
            return Reason("server.busy", path=path)
        return None if 200 <= status < 300 else _unclear(path, f"HTTP {status}")
    if status != 200:
        return _unclear(path, f"HTTP {status}")
    try:
        value = json_value(body)
        for name in field.split("."):
            value = value[name]
    except (ValueError, TypeError, KeyError):
        return Reason("server.busy_no_field", path=path, field=field)
    if not value:
        return None
    shown = json.dumps(value)
    if len(shown) > _MOST_SHOWN:
        shown = f"{shown[:_MOST_SHOWN]}…"
    return Reason("server.busy_says", path=path, field=field, value=shown)


def _unclear(path: str, what: str) -> Reason:
    return Reason("server.busy_unclear", path=path, what=what)
