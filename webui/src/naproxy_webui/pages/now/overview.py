"""/api/now/overview, /checklist, /log: savings, tasks and events of all servers."""

from __future__ import annotations

import re
import threading
import time
from typing import Any, Final

from flask import Blueprint, current_app, g
from naproxy.api.shapes import array, boolean, choice, integer, nullable, number, obj, string
from naproxy.core.page_h import ENDS

from naproxy_webui.http.api import route
from naproxy_webui.http.control import control
from naproxy_webui.http.errors import ApiError
from naproxy_webui.http.mount import mount
from naproxy_webui.i18n.reasons import plain
from naproxy_webui.office.equipment import equipment
from naproxy_webui.office.history import history

blueprint = Blueprint("now_overview", __name__)

FRESH_S: Final = 60.0
"""The sums of a month change slowly."""
TIMEOUT_S: Final = 3.0

LINES: Final = array(
    obj(
        name=string(),
        done=boolean(),
        words=string(),
        server=nullable(string(description="the first that it is to do for")),
        dismissed=boolean(),
    )
)
AMOUNT: Final = obj(net_j=number(), money=nullable(number()))
SAVED: Final = obj(
    from_s=number(),
    kind=choice("none", "measured", "mixed", "modelled", "estimated"),
    net_j=number(),
    money=nullable(number()),
    promises=array(obj(server=string(), requests=integer(), delayed=integer(), allowed=integer())),
    forecast=nullable(obj(days=integer(), month=AMOUNT, year=AMOUNT)),
    no_forecast=nullable(string()),
)
ROW: Final = obj(
    {
        "key": string(),
        "kind": choice("state", "wake", "decision", "system"),
        "t_s": number(),
        "server": nullable(string()),
        "words": string(),
        "state": nullable(string()),
        "sleep": nullable(boolean()),
        "who": nullable(string()),
        "class": nullable(string()),
        "request": nullable(string()),
    }
)
_EMPTY: Final = dict.fromkeys(("server", "state", "sleep", "who", "class", "request"))
_CHANGE: Final = re.compile(r"[a-z0-9-]+: [a-z_]+ -> [a-z_]+: ")
"""How the controller's own log says that a server's state has changed."""
_END_OF: Final = {outcome.name.lower(): end for end, many in ENDS.items() for outcome in many}


@route(blueprint, "GET", "/api/now/overview", answer=SAVED)
def overview() -> Any:
    """This month's savings of all servers, whether promises were kept, and the forecast.

    The sums are at most FRESH_S old, or older while another request computes new ones.
    """
    if (found := known_sums()) is not None:
        return found
    kept = _kept()
    if not kept["lock"].acquire(blocking=kept["sums"] is None):
        return _said(kept["sums"])
    try:
        if known_sums() is None:
            from naproxy_webui.pages.now.sums import saved  # noqa: PLC0415 - only who reads pays

            # Not from the cached settings: a server may have been removed a moment ago.
            servers = control().get("/v1/status", timeout_s=TIMEOUT_S)["servers"]
            names = [server["id"] for server in servers]
            found = saved(history(), names, time.time(), kept["days"])
            kept.update(sums=found, until_s=time.monotonic() + FRESH_S, of=equipment().version)
        return _said(kept["sums"])
    finally:
        kept["lock"].release()


def known_sums() -> dict[str, Any] | None:
    """Return the sums if they need not be read."""
    kept = _kept()
    fresh = time.monotonic() < kept["until_s"] and kept["of"] == equipment().version
    return _said(kept["sums"]) if fresh else None


def _said(sums: dict[str, Any]) -> dict[str, Any]:
    """Return sums in the reader's language."""
    why = sums["no_forecast"]
    return {**sums, "no_forecast": plain(why) if why else None}


def _kept() -> dict[str, Any]:
    kept: dict[str, Any] = current_app.extensions.setdefault(
        "naproxy_now_overview",
        {"lock": threading.Lock(), "days": {}, "sums": None, "until_s": 0.0, "of": ""},
    )
    return kept


def lines() -> list[dict[str, Any]]:
    """Return the checklist; empty while the controller is silent."""
    try:
        said = _told(control().get("/v1/checklist", timeout_s=TIMEOUT_S))
    except ApiError:
        return []
    found: list[dict[str, Any]] = said["lines"]
    return found


def _told(said: dict[str, Any]) -> dict[str, Any]:
    return {
        "lines": [
            {**{key: each[key] for key in each if key != "how"}, "words": plain(each["how"])}
            for each in said["lines"]
        ]
    }


for _name, _path in (
    ("checklist", "/api/now/checklist"),
    ("checklist.dismiss", "/api/now/checklist/<line>"),
):
    mount(blueprint, _name, _path, answer=obj(lines=LINES), then=_told)


@route(
    blueprint,
    "GET",
    "/api/now/log",
    query={"since_s": number(minimum=0)},
    needed=("since_s",),
    answer=obj(
        now_s=number(),
        rows=array(ROW),
        counts=array(
            obj(
                {
                    "server": string(),
                    "class": string(),
                    "end": choice(*ENDS),
                    "count": integer(description="since the controller started"),
                }
            )
        ),
    ),
)
def log(query: dict[str, Any]) -> Any:
    """Events since a time, oldest first, and the counts of all requests until now.

    The controller's own log is only for administrators.
    """
    said = control().get("/v1/log", timeout_s=TIMEOUT_S, since_s=query["since_s"])
    rows = [
        *map(_state, said["transitions"]),
        *map(_wake, said["wakes"]),
        *map(_decision, said["decisions"]),
        *(_system(each) for each in said["system"] if g.user.role == "admin" and _own(each)),
    ]
    servers = control().get("/v1/status", timeout_s=TIMEOUT_S)["servers"]
    counts = [count for each in servers for count in _counts(each)]
    rows.sort(key=lambda row: row["t_s"])
    return {"now_s": time.time(), "rows": rows, "counts": counts}


def _state(row: dict[str, Any]) -> dict[str, Any]:
    return {
        **_EMPTY,
        "key": f"state-{row['id']}",
        "kind": "state",
        "t_s": row["t_s"],
        "server": row["server"],
        "state": row["to"],
        "words": plain(row["reason"]),
    }


def _wake(row: dict[str, Any]) -> dict[str, Any]:
    asked = " ".join(filter(None, (row["method"], row["path"])))
    return {
        **_EMPTY,
        "key": f"wake-{row['id']}",
        "kind": "wake",
        "t_s": row["t_s"],
        "server": row["server"],
        "who": row["who"],
        "class": row["class"] or None,
        "request": asked or None,
        "words": "" if row["class"] else plain(row["reason"]),
    }


def _decision(row: dict[str, Any]) -> dict[str, Any]:
    return {
        **_EMPTY,
        "key": f"decision-{row['id']}",
        "kind": "decision",
        "t_s": row["t_s"],
        "server": row["server"],
        "sleep": bool(row["sleep"]),
        "words": plain(row["reason"]),
    }


def _own(row: dict[str, Any]) -> bool:
    """Return whether a line of the controller's says more than a row of a state does."""
    return not _CHANGE.match(row["line"])


def _system(row: dict[str, Any]) -> dict[str, Any]:
    key = f"system-{row['t_s']:.6f}-{row['line'][:80]}"
    return {**_EMPTY, "key": key, "kind": "system", "t_s": row["t_s"], "words": row["line"]}


def _counts(status: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a server's request counters by class and outcome."""
    found = []
    for klass, outcomes in status["counters"]["requests"].items():
        by_end: dict[str, int] = {}
        for outcome, count in outcomes.items():
            end = _END_OF.get(outcome, "box")
            by_end[end] = by_end.get(end, 0) + count
        found += [
            {"server": status["id"], "class": klass, "end": end, "count": count}
            for end, count in by_end.items()
        ]
    return found
