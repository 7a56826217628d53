"""The inputs of a server's savings: its powers and times, and the source of each.

Each is measured if a meter of the server has enough readings, else fitted by its commissioning,
else as configured. `naproxy.history.read.savings` computes the sums.
"""

from __future__ import annotations

import sqlite3
import time
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from flask import current_app
from naproxy.history.read.cells import Source, cells
from naproxy.history.read.gone import gone
from naproxy.history.read.powers import powers
from naproxy.history.read.savings import MEASURED, Assumptions, Saved, Valued, valued
from naproxy.server.fit import measured

from naproxy_webui.http.control import control
from naproxy_webui.http.errors import ApiError
from naproxy_webui.i18n.texts import t
from naproxy_webui.office.equipment import BOX, Equipment, commissioned, equipment
from naproxy_webui.office.money import office_rates

FRESH_S: Final = 1800.0
"""Means over weeks change slowly, and to take them is work."""

EXPECT_S: Final = 5.0
"""How long waking, or falling asleep, takes until it was measured: as the box's own."""

EXPECTED: Final = "expected"
"""Of a time that was not measured yet."""


@dataclass(frozen=True, slots=True)
class Believed:
    """The assumed figures of a server; `sources` has the source of each."""

    source: Source
    assumed: Assumptions
    wake_s: float
    sleep_s: float
    fraction: float
    delta_s: float
    policy: str
    meter_estimated: bool
    sources: dict[str, str]


def believed(db: sqlite3.Connection, name: str, now_s: float) -> Believed:
    """Return it, at most FRESH_S old; ApiError if there is no such server or no answer."""
    kept: dict[tuple[str, str], tuple[float, Believed]]
    kept = current_app.extensions.setdefault("naproxy_believed", {})
    known = equipment()
    key = (name, known.version)
    until_s, found = kept.get(key, (0.0, None))
    if found is None or time.monotonic() >= until_s:
        found = _ask(db, name, known, now_s)
        for old in [each for each in kept if each[1] != known.version]:
            del kept[old]
        kept[key] = (time.monotonic() + FRESH_S, found)
    return found


def _ask(db: sqlite3.Connection, name: str, known: Equipment, now_s: float) -> Believed:
    said = control().get("/v1/config")
    server = next((s for s in said["server"] if s["id"] == name), None)
    if server is None:
        return _of_removed(db, name, known, [each["id"] for each in said["server"]])
    source = Source(name, _meter(known, name), _meter(known, BOX))
    power, sources = powers(
        db, source, server["power"], _fit(name), proxy_w=said["box"]["proxy_w"], now_s=now_s
    )
    status = next(s for s in control().get("/v1/status")["servers"] if s["id"] == name)
    times, where = _times(status)
    return Believed(
        source=source,
        assumed=Assumptions(power, sources),
        fraction=server["promise"]["fraction"],
        delta_s=server["promise"]["delta_s"],
        policy=server["policy"]["name"],
        meter_estimated=any(m.id == source.meter and m.estimated for m in known.meters),
        sources={**sources, **where},
        **times,
    )


def _of_removed(
    db: sqlite3.Connection, name: str, known: Equipment, configured: list[str]
) -> Believed:
    """Return what is kept of a server that was removed or renamed; ApiError if nothing is."""
    found = next((each for each in gone(db, configured) if each.id == name), None)
    if found is None:
        raise ApiError(HTTPStatus.NOT_FOUND, t("savings.error_server"), "server")
    return Believed(
        source=found.source(_meter(known, BOX)),
        assumed=found.assumed(),
        wake_s=found.about["wake_s"],
        sleep_s=found.about["sleep_s"],
        fraction=found.about["fraction"],
        delta_s=found.about["delta_s"],
        policy=found.about["policy"],
        meter_estimated=False,
        sources={**found.sources, "wake_s": EXPECTED, "sleep_s": EXPECTED},
    )


def _meter(known: Equipment, of: str) -> str | None:
    """Return the meter to believe: one that measures before one that estimates."""
    found = sorted((m for m in known.meters if m.of == of), key=lambda m: m.estimated)
    return found[0].id if found else None


def _times(status: dict[str, Any]) -> tuple[dict[str, float], dict[str, str]]:
    times, sources = {}, {}
    for name in ("wake_s", "sleep_s"):
        measured = status[name]
        times[name] = float(EXPECT_S if measured is None else measured)
        sources[name] = EXPECTED if measured is None else MEASURED
    return times, sources


def _fit(name: str) -> dict[str, float]:
    """Return what its commissioning measured; empty where that is too uncertain to use."""
    try:
        return measured((commissioned(name) or {}).get("fit")) or {}
    except (ApiError, KeyError, TypeError, ValueError):
        return {}


def sums(db: sqlite3.Connection, what: Believed, from_s: int, to_s: int) -> Valued:
    """Return the sums of a range that ends now or earlier, and their worth."""
    known = office_rates()
    return valued(cells(db, what.source, from_s, to_s, known.changes), what.assumed, known)


def shown(found: Saved) -> dict[str, float | int]:
    """Return the sums as the API has them."""
    return {
        "length_s": found.length_s,
        "measured_s": found.measured_s,
        "modelled_s": found.modelled_s,
        "asleep_s": found.asleep_s,
        "switches": found.switches,
        "always_j": found.always_j,
        "measured_j": found.measured_j,
        "modelled_j": found.modelled_j,
        "used_j": found.used_j,
        "box_j": found.box_j,
        "box_measured_j": found.box_measured_j,
        "box_modelled_j": found.box_modelled_j,
        "gross_j": found.gross_j,
        "net_j": found.net_j,
    }
