"""Ranges of time as a page shows them: days, weeks, months and years of the office's zone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, tzinfo
from http import HTTPStatus
from typing import Final

from naproxy.api.shapes import Shape, choice, number, string
from naproxy.core import hours
from naproxy.core.reason import WrongError
from naproxy.history.days import VIEWS, begin, day_of, start_s, step

from naproxy_webui.http.errors import ApiError
from naproxy_webui.i18n.texts import t
from naproxy_webui.office.office import office

LONGEST_S: Final = 3700 * 86400
EARLIEST: Final = date(2000, 1, 1)
LATEST: Final = date(2200, 1, 1)

RANGE: Final[dict[str, Shape]] = {
    "from_s": number(minimum=0, maximum=2e10, description="Begin, epoch seconds"),
    "to_s": number(minimum=0, maximum=2e10, description="End (not included), epoch seconds"),
}
"""The query of routes about a range."""

CALENDAR: Final[dict[str, Shape]] = {
    "view": choice(*VIEWS),
    "day": string(maxLength=10, description="A day of it, as 2026-03-01; else today"),
    "from": string(
        maxLength=25,
        description="Begin by the office's clock, as 2026-03-01T08:00; with an offset, as +01:00,"
        " where clocks show it twice",
    ),
    "to": string(maxLength=25, description="End by the office's clock"),
}


@dataclass(frozen=True, slots=True)
class Range:
    """From (included) to (excluded) in epoch seconds, and the ranges before and after it.

    A free range has no `view`, `day`, `previous` and `next`.
    """

    from_s: float
    to_s: float
    view: str | None = None
    day: date | None = None
    previous: date | None = None
    next: date | None = None


def zone() -> tzinfo:
    """Return the office's time zone; the box's own where it has none."""
    try:
        return hours.zone(office().time_zone or "")
    except WrongError:  # it is not known here
        return hours.zone("")


def utc_offset(t_s: float) -> str:
    """Return how far the office's clocks are ahead of UTC at a time, as +01:00."""
    text = datetime.fromtimestamp(t_s, UTC).astimezone(zone()).strftime("%z")
    return f"{text[:3]}:{text[3:5]}"


def of_query(query: dict[str, float]) -> tuple[float, float]:
    """Return from and to of a route that has RANGE; ApiError."""
    from_s, to_s = query["from_s"], query["to_s"]
    if not from_s < to_s:
        raise ApiError(HTTPStatus.BAD_REQUEST, t("history.error_order"), "to_s")
    if to_s - from_s > LONGEST_S:
        raise ApiError(HTTPStatus.BAD_REQUEST, t("history.error_long"), "to_s")
    return from_s, to_s


def of_calendar(query: dict[str, str], now_s: float) -> Range:
    """Return the range that CALENDAR's values name; ApiError."""
    where = zone()
    if "from" in query or "to" in query:
        return _free(query, where)
    unit = query.get("view", "day")
    day = _day(query["day"]) if "day" in query else day_of(now_s, where)
    first = begin(day, unit)
    following, before = step(first, unit, 1), step(first, unit, -1)
    from_s, to_s = start_s(first, where), start_s(following, where)
    return Range(from_s, to_s, unit, first, before, following if to_s < now_s else None)


def _free(query: dict[str, str], where: tzinfo | None) -> Range:
    from_s, to_s = _moment(query, "from", where), _moment(query, "to", where)
    of_query({"from_s": from_s, "to_s": to_s})
    return Range(from_s, to_s)


def _day(text: str) -> date:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise ApiError(HTTPStatus.BAD_REQUEST, t("history.error_day"), "day") from None
    return _possible(day, "day")


def _moment(query: dict[str, str], name: str, where: tzinfo | None) -> float:
    try:
        moment = datetime.fromisoformat(query[name])
    except (KeyError, ValueError):
        raise ApiError(HTTPStatus.BAD_REQUEST, t("history.error_moment"), name) from None
    _possible(moment.date(), name)
    if moment.tzinfo is not None:
        return moment.timestamp()
    return moment.replace(tzinfo=where).timestamp()


def _possible(day: date, name: str) -> date:
    if not EARLIEST <= day <= LATEST:
        raise ApiError(HTTPStatus.BAD_REQUEST, t("history.error_day"), name)
    return day
