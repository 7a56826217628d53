"""The powers for computing savings, and the source of each."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from naproxy.core.energy import Power
from naproxy.history.read.cells import Source, mean_w
from naproxy.history.read.savings import CONFIGURED, FITTED, MEASURED


def powers(
    db: sqlite3.Connection,
    source: Source,
    configured: Mapping[str, float],
    fitted: Mapping[str, float],
    *,
    proxy_w: float,
    now_s: float,
) -> tuple[Power, dict[str, str]]:
    """Return them and their sources: measured, else fitted by the commissioning, else configured.

    As configured where they make no sense together.
    """
    ways: dict[str, list[tuple[str, float | None]]] = {
        "on_w": [(MEASURED, mean_w(db, source, "awake", now_s)), (FITTED, fitted.get("on_w"))],
        "off_w": [(MEASURED, mean_w(db, source, "asleep", now_s)), (FITTED, fitted.get("off_w"))],
        "switch_j": [(FITTED, fitted.get("switch_j"))],
    }
    values, sources = {}, {}
    for name, found in ways.items():
        tried = [*found, (CONFIGURED, configured[name])]
        sources[name], values[name] = next((w, max(0.0, v)) for w, v in tried if v is not None)
    sources["proxy_w"] = MEASURED if source.box_meter else CONFIGURED
    if values["off_w"] < values["on_w"]:
        return Power(**values, proxy_w=proxy_w), sources
    plain = dict.fromkeys(values, CONFIGURED)
    return Power(**configured, proxy_w=proxy_w), {**sources, **plain}
