"""/history: power and state on one axis, energy by day, decisions, and downloads.

The wakes of a server, and rules against them, are in `wakes.py`.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from http import HTTPStatus
from typing import Any, Final

from flask import Response, current_app, request
from naproxy.api.shapes import (
    ANY_OBJECT,
    array,
    boolean,
    choice,
    integer,
    nullable,
    number,
    obj,
    string,
)
from naproxy.history.days import VIEWS, day_of
from naproxy.history.read import ledger, queries, rows, timeline
from naproxy.history.read.states import HOUR_S
from naproxy.server import stages

from naproxy_webui.http.api import attachment, route
from naproxy_webui.http.errors import ApiError
from naproxy_webui.http.page import Page
from naproxy_webui.i18n.reasons import plain
from naproxy_webui.i18n.texts import t
from naproxy_webui.office.equipment import BOX, equipment
from naproxy_webui.office.history import history, looked_after_until_s, server_names
from naproxy_webui.office.ranges import CALENDAR, RANGE, of_calendar, of_query, zone
from naproxy_webui.office.stages import STAGE
from naproxy_webui.render import render

blueprint = Page("history", __name__, "/history", place=20)

MOST_POINTS: Final = 1000
"""Of all meters together."""

MOST_STRETCHES: Final = 600
"""More changes of state than this are shown as shares of parts of the range."""

PARTS: Final = 240
DAYS_OF_SECONDS: Final = 0.25
DAYS_OF_MINUTES: Final = 62

TABS: Final = ("timeline", "wakes", "decisions")
"""Parts of the page; the browser loads the data of the one that is shown."""

SERVER: Final = string(minLength=1, maxLength=64)
CURSOR: Final = string(maxLength=60, description="`next` of the page before")
LIMIT: Final = integer(minimum=1, maximum=ledger.MOST_ROWS)
WORDS: Final = string(description="The reason in plain words of the user's language")
WAKE: Final = obj(
    {
        "id": integer(),
        "t_s": number(),
        "server": string(),
        "who": string(),
        "host": string(),
        "path": string(),
        "method": string(),
        "agent": string(),
        "class": string(),
        "reason": string(description="The cause of a request's wake, else empty"),
        "words": WORDS,
        "waited_s": nullable(number()),
        "packets": integer(),
        "outcome": string(),
        "stages": array(STAGE),
    },
    optional=("packets", "stages"),
)
TRANSITION: Final = {
    "id": integer(),
    "t_s": number(),
    "server": string(),
    "from": string(),
    "to": string(),
    "words": WORDS,
}


@blueprint.get("/history")
def page() -> str:
    """Return the page; its figures come by the API."""
    asked = request.args.get("tab")
    return render(
        "history.html",
        servers=server_names(),
        views=VIEWS,
        tabs=TABS,
        tab=asked if asked in TABS else TABS[0],
        searches=SEARCHES,
        searched={name: request.args.get(name, "") for name in SEARCH},
    )


@route(
    blueprint,
    "GET",
    "/api/history/range",
    query=CALENDAR,
    answer=obj(
        from_s=number(),
        to_s=number(),
        view=nullable(choice(*VIEWS)),
        day=nullable(string()),
        previous=nullable(string()),
        next=nullable(string()),
        now_s=number(),
    ),
)
def range_(query: dict[str, Any]) -> Any:
    """A day, week, month, year or range of one's own, in epoch seconds."""
    now_s = time.time()
    found = asdict(of_calendar(query, now_s))
    for name in ("day", "previous", "next"):
        found[name] = found[name] and found[name].isoformat()
    return {**found, "now_s": now_s}


@route(
    blueprint,
    "GET",
    "/api/history/power",
    query=RANGE,
    needed=("from_s", "to_s"),
    answer=obj(
        meters=array(
            obj(
                id=string(),
                of=nullable(string()),
                estimated=boolean(),
                tier=choice(*queries.TIERS),
                step_s=integer(),
                points=array(array(number(), minItems=4, maxItems=4)),
                gaps=array(array(number(), minItems=2, maxItems=2)),
            )
        )
    ),
)
def power(query: dict[str, Any]) -> Any:
    """Power of each meter in a range: mean, least and most, and where nothing is known.

    Each meter has points (start, mean, least, most in W) of `step_s` seconds.
    """
    from_s, to_s = of_query(query)
    to_s = max(from_s + 1, min(to_s, time.time()))
    db, known = history(), {meter.id: meter for meter in equipment().meters}
    names = queries.meters(db)
    most = MOST_POINTS // max(1, len(names))
    found = []
    for name in sorted(
        names, key=lambda n: (n not in known, known[n].of == BOX if n in known else 0, n)
    ):
        chart = queries.chart(db, name, from_s, to_s, most)
        if chart.points or name in known:
            found.append(
                {
                    "id": name,
                    "of": known[name].of if name in known else None,
                    "estimated": name in known and known[name].estimated,
                    "tier": chart.tier,
                    "step_s": chart.step_s,
                    "points": [
                        [p.t_s, *(w / 1000 for w in (p.span.mean_mw, p.span.min_mw, p.span.max_mw))]
                        for p in chart.points
                    ],
                    "gaps": chart.gaps,
                }
            )
    return {"meters": found}


@route(
    blueprint,
    "GET",
    "/api/history/states",
    query={**RANGE, "server": SERVER},
    needed=("from_s", "to_s", "server"),
    answer=obj(
        exact=boolean(),
        changes=integer(),
        until_s=number(),
        deleted=nullable(
            obj(
                before_s=number(description="The box has deleted the changes of before"),
                keep_days=integer(),
            )
        ),
        stretches=array(
            obj(
                id=integer(),
                t_s=number(),
                end_s=number(),
                state=string(),
                words=WORDS,
                wake=nullable(WAKE),
            )
        ),
        parts=array(
            obj(
                t_s=number(),
                end_s=number(),
                changes=integer(),
                seconds={"type": "object", "additionalProperties": number()},
            )
        ),
    ),
)
def states(query: dict[str, Any]) -> Any:
    """States of a server in a range: each stretch, or shares if there are too many.

    A stretch has the wake that caused it.
    """
    from_s, to_s = of_query(query)
    db = history()
    until_s = min(to_s, looked_after_until_s(db))
    server = query["server"]
    changes = timeline.changes(db, server, from_s, until_s)
    told: dict[str, Any] = {"exact": changes <= MOST_STRETCHES, "changes": changes}
    told |= {"until_s": until_s, "stretches": [], "parts": []}
    told["deleted"] = _deleted(db, server, from_s)
    if until_s <= from_s:
        return told
    if not told["exact"]:
        found = timeline.walk(db, server, from_s, until_s, reasons=False)
        return told | {"parts": timeline.shares(found, from_s, to_s, PARTS)}
    listed = timeline.stretches(db, server, from_s, until_s)
    led = timeline.wakes_of(db, server, listed)
    return told | {
        "stretches": [_told(asdict(s)) | {"wake": told_wake(led.get(s.id))} for s in listed]
    }


def _deleted(db: sqlite3.Connection, server: str, from_s: float) -> dict[str, Any] | None:
    """Return from when on changes are kept, if the range begins earlier and there were some."""
    before_s = timeline.begun_s(db, server)
    if before_s is None:
        before_s = time.time()
    if from_s >= before_s:
        return None
    first_s = db.execute(
        "SELECT min(t_s) FROM state_hours JOIN servers ON id = server WHERE name = ?", (server,)
    ).fetchone()[0]
    if first_s is None or first_s + HOUR_S > before_s:
        return None
    return {"before_s": before_s, "keep_days": equipment().keep_days}


@route(
    blueprint,
    "GET",
    "/api/history/transitions",
    query={**RANGE, "server": SERVER, "cursor": CURSOR, "limit": LIMIT},
    needed=("from_s", "to_s", "server"),
    answer=obj(rows=array(obj({**TRANSITION, "wake": nullable(WAKE)})), next=nullable(string())),
)
def transitions(query: dict[str, Any]) -> Any:
    """Changes of a server's state with their reasons and wakes, newest first."""
    from_s, to_s = of_query(query)
    db, server = history(), query["server"]
    page = paged(db, "transitions", ledger.Search(from_s, to_s, server), query)
    led: dict[int, Any] = {}
    if page.rows:
        first_s, last_s = page.rows[-1]["t_s"], page.rows[0]["t_s"]
        # Include the stretch before the first, or the first would get that stretch's wake.
        near = timeline.stretches(db, server, first_s - 1, last_s + 1)
        led = timeline.wakes_of(db, server, near)
    found = [_told(row) | {"wake": told_wake(led.get(row["id"]))} for row in page.rows]
    return {"rows": found, "next": page.next}


def _told(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of the journal with its reason in plain words of the user's language."""
    words = plain(row.pop("reason"))
    return row | {"words": words}


def told_wake(wake: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return a wake with its reason in words, unless a request caused it."""
    if wake and "stages" in wake:
        wake = wake | {"stages": stages.plain(stages.load(wake["stages"]))}
    if wake is None or wake["class"]:
        return wake and wake | {"words": ""}
    return wake | {"reason": "", "words": plain(wake["reason"])}


@route(
    blueprint,
    "GET",
    "/api/history/decisions",
    query={**RANGE, "server": SERVER, "cursor": CURSOR, "limit": LIMIT},
    needed=("from_s", "to_s"),
    answer=obj(
        rows=array(obj(id=integer(), t_s=number(), server=string(), sleep=integer(), words=WORDS)),
        next=nullable(string()),
    ),
)
def decisions(query: dict[str, Any]) -> Any:
    """Decisions about a server with their reasons, newest first; kept for 30 days."""
    search = ledger.Search(*of_query(query), query.get("server"))
    page = paged(history(), "decisions", search, query)
    return {"rows": [_told(row) for row in page.rows], "next": page.next}


def paged(
    db: sqlite3.Connection, table: str, search: ledger.Search, query: dict[str, Any]
) -> ledger.Page:
    """Return a page of a table; ApiError for an invalid cursor."""
    cursor, limit = query.get("cursor", ""), query.get("limit", 50)
    try:
        if table == "wakes":
            return ledger.wakes(db, search, cursor, limit)
        return ledger.events(db, table, search, cursor, limit)
    except ledger.CursorError as error:
        raise ApiError(HTTPStatus.BAD_REQUEST, str(error), "cursor") from None


# Downloads

EXPORTS: Final = ("power", "energy", "traffic", "agents", "transitions", "wakes", "decisions")
MEDIA: Final = {"csv": "text/csv", "json": "application/json"}
SEARCHES: Final = {
    "class": ("person", "api", "crawler", "monitor", "feed", "scanner"),
    "cause": ("page", "miss", "pass", "pipe", *ledger.OWN),
    "outcome": ("up", "stayed awake", "trouble", "waiting", "controller ended"),
}
"""Fields by which the ledger can be searched, beside texts."""

SEARCH: Final = {
    **{name: choice(*values) for name, values in SEARCHES.items()},
    "text": string(maxLength=200, description="Part of an agent, path, host or address"),
}


def search_of(query: dict[str, Any]) -> ledger.Search:
    """Return the search of a query that has RANGE, SERVER and SEARCH; ApiError."""
    return ledger.Search(
        *of_query(query),
        server=query.get("server"),
        klass=query.get("class"),
        cause=query.get("cause"),
        outcome=query.get("outcome"),
        text=query.get("text", ""),
    )


@route(
    blueprint,
    "GET",
    "/api/history/export",
    query={
        **RANGE,
        "what": choice(*EXPORTS),
        "format": {**choice(*MEDIA), "default": "csv"},
        "name": string(minLength=1, maxLength=64, description="Only this server or meter"),
        "server": string(
            minLength=1,
            maxLength=64,
            description="Only this server; of power and energy its meters, the box's, and those"
            " that are gone",
        ),
        "tier": choice(*queries.TIERS),
        **SEARCH,
    },
    needed=("from_s", "to_s", "what"),
    media=tuple(MEDIA.values()),
    answer=obj(
        {
            "what": choice(*EXPORTS),
            "from_s": number(),
            "to_s": number(),
            "server": string(),
            **SEARCH,
            "rows": array(ANY_OBJECT),
        },
        optional=("server", *SEARCH),
    ),
    refusals=(HTTPStatus.NOT_FOUND,),
)
def export(query: dict[str, Any]) -> Response:
    """A part of the history as a file: watts, joules and seconds, times with their offset.

    The rows are sent as they are read: a year of minutes never is in memory at once.
    """
    from_s, to_s = of_query(query)
    what, name, where = query["what"], query.get("name"), zone()
    tier = query.get("tier") or (_tier(to_s - from_s) if what == "power" else None)
    if what == "traffic" and tier == "seconds":
        raise ApiError(HTTPStatus.BAD_REQUEST, t("history.error_tier"), "tier")
    if what != "wakes" and (given := next((each for each in SEARCH if each in query), None)):
        raise ApiError(HTTPStatus.BAD_REQUEST, t("history.error_search"), given)
    of_meters = what in ("power", "energy")
    if of_meters and name and name not in queries.meters(history()):
        raise ApiError(HTTPStatus.NOT_FOUND, t("history.error_meter"), "name")
    meters, search = None, None
    if "server" in query and of_meters:
        meters = tuple(shown_meters(query["server"]))
    elif what == "wakes":
        search = search_of(query | {"server": query.get("server", name)})
    elif not of_meters:
        name = query.get("server", name)
    part = rows.Part(from_s, to_s, name, tier, where, meters, search)
    data_dir = current_app.extensions["naproxy_settings"].data_dir
    history()  # refuses now if there is none
    form = query.get("format", "csv")
    said = ("what", "from_s", "to_s", "server", *SEARCH)
    head = {each: query[each] for each in said if each in query}

    def lines() -> Iterator[str]:
        # The request's own connection is closed before this is read.
        with closing(queries.open_history(data_dir)) as db:
            found = rows.rows(db, what, part)
            yield from _in_blocks(
                rows.csv_lines(what, found) if form == "csv" else rows.json_parts(what, found, head)
            )

    day = day_of(from_s, where).isoformat()
    return attachment(lines(), MEDIA[form], f"naproxy-{what}-{day}.{form}")


def shown_meters(server: str) -> list[str]:
    """Return the meters that the page shows with a server: not those of others."""
    others = {m.id for m in equipment().meters if m.of not in (server, BOX, None)}
    return [name for name in queries.meters(history()) if name not in others]


def _tier(length_s: float) -> str:
    if length_s <= DAYS_OF_SECONDS * 86400:
        return "seconds"
    return "minutes" if length_s <= DAYS_OF_MINUTES * 86400 else "hours"


def _in_blocks(lines: Iterator[str], most: int = 200) -> Iterator[str]:
    """Yield lines together: a write to the client for each would be slow."""
    block: list[str] = []
    for line in lines:
        block.append(line)
        if len(block) == most:
            yield "".join(block)
            block.clear()
    yield "".join(block)
