"""/api/history/energy: each day's energy, of what it was made, and how much of it was measured."""

from __future__ import annotations

import sqlite3
import time
from datetime import tzinfo
from typing import Any, Final

from flask import Blueprint
from naproxy.history import costs, queries, timeline
from naproxy.history.days import days

from naproxy_webui.api import route
from naproxy_webui.equipment import BOX, Equipment, equipment
from naproxy_webui.history import history
from naproxy_webui.office import office
from naproxy_webui.page import Page
from naproxy_webui.pages.history import SERVER, looked_after_until_s
from naproxy_webui.ranges import RANGE, of_query, zone
from naproxy_webui.shapes import array, boolean, choice, nullable, number, obj, string

PAGE = Page(name="history_energy", path="/api/history/energy")
blueprint = Blueprint("history_energy", __name__)

MOST_DAYS: Final = 100
"""A longer range is shown by months."""

MOST_SPLIT_S: Final = 63 * 86400
"""Longer ranges are not split by states: that reads every minute."""

_J_PER_KWH: Final = 3.6e6
_SUM: Final = {
    "server_j": number(),
    "box_j": nullable(number()),
    "cost": nullable(number()),
    "covered": number(minimum=0, maximum=1),
}


@route(
    blueprint,
    "GET",
    "/api/history/energy",
    summary="Energy of a server and of the box by day (by month in a long range), and its price",
    query={**RANGE, "server": SERVER},
    needed=("from_s", "to_s", "server"),
    answer=obj(
        {
            "unit": choice("day", "month"),
            "measured": boolean(description="Whether the server has a meter at all"),
            "estimated": boolean(description="Whether that meter only estimates"),
            "price_per_kwh": nullable(number()),
            "days": array(
                obj(
                    {
                        "day": string(),
                        "start_s": number(),
                        "end_s": number(),
                        **_SUM,
                        "parts": nullable(obj({part: number() for part in costs.PARTS})),
                    }
                )
            ),
            "total": obj(_SUM),
        }
    ),
)
def energy(query: dict[str, Any]) -> Any:
    """Return whole days; what is still to come of today is not missing."""
    from_s, to_s = of_query(query)
    now_s, known, db, where = time.time(), equipment(), history(), zone()
    to_s = min(to_s, now_s)
    unit = "day" if to_s - from_s <= MOST_DAYS * 86400 else "month"
    begins = list(days(from_s, to_s, where, unit))
    meters = known.meters_of(query["server"])
    price = office().price_per_kwh or None
    made: list[dict[str, Any]] = [
        {"day": day.isoformat(), "start_s": start_s, "end_s": end_s, "parts": None}
        for day, start_s, end_s in begins
    ]
    of_server = [_by_day(db, meter, (from_s, to_s), where, unit) for meter in meters]
    of_box = [_by_day(db, meter, (from_s, to_s), where, unit) for meter in known.meters_of(BOX)]
    for day in made:
        length_s = min(day["end_s"], now_s) - day["start_s"]
        day.update(_figures(day["day"], length_s, of_server, of_box, price))
    if made and meters and to_s - from_s <= MOST_SPLIT_S:
        ends = [(start_s, end_s) for _, start_s, end_s in begins]
        for day, parts in zip(made, _parts(db, query["server"], meters, ends), strict=True):
            day["parts"] = parts
    return {
        "unit": unit,
        "measured": bool(meters),
        "estimated": _estimated(known, meters),
        "price_per_kwh": price,
        "days": made,
        "total": _total(made, now_s),
    }


def _estimated(known: Equipment, meters: list[str]) -> bool:
    return any(meter.estimated for meter in known.meters if meter.id in meters)


Days = dict[str, tuple[float, float]]
"""Day -> energy in J and seconds covered."""


def _by_day(
    db: sqlite3.Connection,
    meter: str,
    within: tuple[float, float],
    where: tzinfo | None,
    unit: str,
) -> Days:
    return {
        day["day"]: (day["energy_mj"] / 1000, day["covered_ms"] / 1000)
        for day in queries.energy_by_day(db, meter, *within, where, unit=unit)
    }


def _figures(
    day: str, length_s: float, of_server: list[Days], of_box: list[Days], price: float | None
) -> dict[str, Any]:
    server = [each.get(day, (0.0, 0.0)) for each in of_server]
    box = [each.get(day, (0.0, 0.0)) for each in of_box]
    server_j = sum(energy_j for energy_j, _ in server)
    box_j = sum(energy_j for energy_j, _ in box) if box else None
    covered_s = min((seconds for _, seconds in server or box), default=0.0)
    return {
        "server_j": server_j,
        "box_j": box_j,
        "cost": price and (server_j + (box_j or 0.0)) / _J_PER_KWH * price,
        "covered": min(1.0, covered_s / length_s) if length_s > 0 else 0.0,
    }


def _parts(
    db: sqlite3.Connection, server: str, meters: list[str], ends: list[tuple[int, int]]
) -> list[dict[str, float]]:
    from_s, to_s = ends[0][0], ends[-1][1]
    until_s = min(to_s, looked_after_until_s(db))
    states = timeline.stretches(db, server, from_s, until_s) if until_s > from_s else []
    found = [costs.split(costs.curve(db, m, from_s, to_s), states, ends) for m in meters]
    return [
        {part: sum(day[part] for day in each) for part in costs.PARTS}
        for each in zip(*found, strict=True)
    ]


def _total(made: list[dict[str, Any]], now_s: float) -> dict[str, Any]:
    length_s = sum(min(day["end_s"], now_s) - day["start_s"] for day in made)
    covered_s = sum(day["covered"] * (min(day["end_s"], now_s) - day["start_s"]) for day in made)
    boxes = [day["box_j"] for day in made if day["box_j"] is not None]
    money = [day["cost"] for day in made if day["cost"] is not None]
    return {
        "server_j": sum(day["server_j"] for day in made),
        "box_j": sum(boxes) if boxes else None,
        "cost": sum(money) if money else None,
        "covered": covered_s / length_s if length_s > 0 else 0.0,
    }
