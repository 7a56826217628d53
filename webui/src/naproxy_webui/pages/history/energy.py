"""/api/history/energy: each day's energy, its parts, and how much of the day was measured.

A range of at most two days is shown by hours, a very long one by months.
"""

from __future__ import annotations

import sqlite3
import time
from datetime import tzinfo
from typing import Any, Final

from flask import Blueprint
from naproxy.api.shapes import array, boolean, choice, nullable, number, obj, string
from naproxy.core.rates import J_PER_KWH, Rate
from naproxy.history.days import days
from naproxy.history.read import costs, queries, timeline

from naproxy_webui.http.api import route
from naproxy_webui.office.equipment import BOX, Equipment, equipment
from naproxy_webui.office.history import history, looked_after_until_s
from naproxy_webui.office.money import office_rates
from naproxy_webui.office.ranges import RANGE, of_query, zone
from naproxy_webui.pages.history.page import SERVER

blueprint = Blueprint("history_energy", __name__)

MOST_HOURS: Final = 50
MOST_DAYS: Final = 100
"""A range of more hours or days is shown in the next larger unit."""

MOST_SPLIT_S: Final = 32 * 86400
"""Longer ranges are not split by states: that reads every minute."""

LATE_S: Final = 120
"""Measurements of the last so many seconds may not be written yet."""

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
    query={**RANGE, "server": SERVER},
    needed=("from_s", "to_s", "server"),
    answer=obj(
        unit=choice("hour", "day", "month"),
        measured=boolean(description="Whether the server has a meter at all"),
        estimated=boolean(description="Whether that meter only estimates"),
        price_per_kwh=nullable(number()),
        days=array(
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
        total=obj(_SUM),
    ),
)
def energy(query: dict[str, Any]) -> Any:
    """Energy of a server and of the box by day (hour, month), and its price.

    Whole days, hours or months; the future part of the last one does not count as missing.
    """
    from_s, to_s = of_query(query)
    now_s, known, db = time.time(), equipment(), history()
    unit, begins = _steps(from_s, min(to_s, now_s), zone())
    meters, boxes = known.meters_of(query["server"]), known.meters_of(BOX)
    price = office_rates().price
    made: list[dict[str, Any]] = [
        {
            "day": day,
            "start_s": start_s,
            "end_s": end_s,
            "parts": None,
            **_figures(db, (meters, boxes), (start_s, end_s), now_s, price),
        }
        for day, start_s, end_s in begins
    ]
    if made and meters and made[-1]["end_s"] - made[0]["start_s"] <= MOST_SPLIT_S:
        ends = [(start_s, end_s) for _, start_s, end_s in begins]
        for day, parts in zip(made, _parts(db, query["server"], meters, ends), strict=True):
            day["parts"] = parts
    return {
        "unit": unit,
        "measured": bool(meters),
        "estimated": _estimated(known, meters),
        "price_per_kwh": price.mean(from_s, to_s),
        "days": made,
        "total": _total(made, now_s),
    }


def _steps(
    from_s: float, to_s: float, where: tzinfo | None
) -> tuple[str, list[tuple[str, int, int]]]:
    """Return the unit, and of each step its day, start and end."""
    unit = "day" if to_s - from_s <= MOST_DAYS * 86400 else "month"
    found = [
        (day.isoformat(), start_s, end_s) for day, start_s, end_s in days(from_s, to_s, where, unit)
    ]
    if to_s - from_s > MOST_HOURS * 3600:
        return unit, found
    # Hours of a day are counted from its midnight, as the office's clock does.
    return "hour", [
        (day, hour_s, min(hour_s + 3600, end_s))
        for day, start_s, end_s in found
        for hour_s in range(start_s, end_s, 3600)
        if hour_s + 3600 > from_s and hour_s < to_s
    ]


def _estimated(known: Equipment, meters: list[str]) -> bool:
    return any(meter.estimated for meter in known.meters if meter.id in meters)


def _figures(
    db: sqlite3.Connection,
    meters: tuple[list[str], list[str]],
    step: tuple[int, int],
    now_s: float,
    price: Rate,
) -> dict[str, Any]:
    """Return energy of the server and of the box, its price, and how much was measured."""
    server, box = ([queries.energy(db, each, *step) for each in names] for names in meters)
    server_j = sum(energy_mj for energy_mj, _ in server) / 1000
    box_j = sum(energy_mj for energy_mj, _ in box) / 1000 if box else None
    covered_s = min((covered_ms for _, covered_ms in server or box), default=0) / 1000
    length_s = max(60.0, min(step[1], now_s - LATE_S) - step[0])
    return {
        "server_j": server_j,
        "box_j": box_j,
        "cost": _cost(db, [*meters[0], *meters[1]], step, server_j + (box_j or 0.0), price),
        "covered": min(1.0, covered_s / length_s),
    }


def _cost(
    db: sqlite3.Connection, meters: list[str], step: tuple[int, int], energy_j: float, price: Rate
) -> float | None:
    """Return the price of the energy measured in a step; None without a known price."""
    if not price.changes(*step):
        each = price.at(step[0])
        return None if each is None else energy_j / J_PER_KWH * each
    total = None
    for meter in meters:
        for from_s, to_s, part_j in queries.energy_by_time(db, meter, *step, price.changes):
            cost = price.cost(from_s, to_s, part_j)
            if cost is not None:
                total = (total or 0.0) + cost
    return total


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
