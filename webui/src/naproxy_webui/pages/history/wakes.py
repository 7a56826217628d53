"""/api/history/wakes: the wakes of a server, its most frequent wakers, and rules against them."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final

from flask import Blueprint
from naproxy.api.shapes import array, boolean, choice, integer, nullable, number, obj, string
from naproxy.core.request import CRAWLER_RETRY_S
from naproxy.history.read import costs, ledger, queries, timeline
from naproxy.history.tables import rule_key

from naproxy_webui.http.api import route
from naproxy_webui.http.control import control
from naproxy_webui.http.errors import ApiError
from naproxy_webui.i18n.texts import t
from naproxy_webui.office.equipment import Equipment, Server, equipment
from naproxy_webui.office.history import history, looked_after_until_s
from naproxy_webui.office.money import office_rates
from naproxy_webui.office.ranges import RANGE, of_query, zone
from naproxy_webui.pages.history import wakerules
from naproxy_webui.pages.history.page import (
    CURSOR,
    LIMIT,
    SEARCH,
    SEARCHES,
    SERVER,
    WAKE,
    paged,
    search_of,
    told_wake,
)

blueprint = Blueprint("history_wakes", __name__)

PREVIEW_S: Final = 30 * 86400
MOST_RANGE_S: Final = 31 * 86400
"""The cost of wakes is computed for no longer range, as it reads every minute."""

KIND: Final = choice(*ledger.KINDS)
COUNTS: Final = obj(distinct=integer(), most=array(obj(key=string(), wakes=integer())))
RULE: Final = {
    "kind": KIND,
    "text": string(minLength=1, maxLength=wakerules.MOST_BYTES),
    "treat_as": string(),
    "server": string(maxLength=64),
}
BY: Final = choice(*ledger.KEYS)
CLASSES: Final = obj({name: integer() for name in SEARCHES["class"]})
RULED: Final = nullable(integer(description="Number in /api/history/rules of what decides now"))
DID: Final = obj(
    since_s=number(description="When counting began"),
    last_s=nullable(number(description="The last refusal")),
    refused=integer(description="Requests, while a server slept"),
    sleeps=integer(description="In how many sleeps: at most so many wakes were prevented"),
)
TALLY: Final = {
    "wakes": integer(),
    "awake_s": number(),
    "extra_j": nullable(number()),
    "cost": nullable(number()),
    "persons": integer(),
    "paths": COUNTS,
    "addresses": COUNTS,
    "agents": COUNTS,
}


# The ledger


@route(
    blueprint,
    "GET",
    "/api/history/wakes",
    query={
        **RANGE,
        "server": SERVER,
        **SEARCH,
        "cursor": CURSOR,
        "limit": LIMIT,
    },
    needed=("from_s", "to_s"),
    answer=obj(
        rows=array(obj({**WAKE["properties"], "ruled": RULED}, optional=("packets", "stages"))),
        next=nullable(string()),
    ),
)
def wakes(query: dict[str, Any]) -> Any:
    """The wake ledger, newest first: all that is given must hold."""
    search = search_of(query)
    page = paged(history(), "wakes", search, query)
    decides = wakerules.decider(equipment().rules)
    for row in page.rows:
        row["ruled"] = decides(row) if row["class"] else None
    return {"rows": [told_wake(row) for row in page.rows], "next": page.next}


# The most frequent wakers


@route(
    blueprint,
    "GET",
    "/api/history/wakers",
    query={**RANGE, "server": SERVER, "by": BY},
    needed=("from_s", "to_s", "server", "by"),
    answer=obj(
        wakes=integer(),
        measured=boolean(),
        groups=array(
            obj(
                {
                    "kind": BY,
                    "key": string(),
                    "last_s": number(),
                    "every_s": nullable(number()),
                    **TALLY,
                    "classes": CLASSES,
                    "rule": nullable(string()),
                    "why_not": nullable(string()),
                    "ruled": RULED,
                }
            )
        ),
    ),
)
def wakers(query: dict[str, Any]) -> Any:
    """The most frequent wakers of a server by path, address, agent or class, with their cost.

    `rule` is the text of the rule to suggest.
    """
    from_s, to_s = of_query(query)
    from_s = max(from_s, to_s - MOST_RANGE_S)
    known = equipment()
    found, measured = charged(history(), known, query["server"], from_s, to_s)
    decides = wakerules.decider(known.rules)
    return {
        "wakes": len(found),
        "measured": measured,
        "groups": [_group(each, found, decides) for each in ledger.groups(found, query["by"])],
    }


def _group(
    group: ledger.Group,
    found: Sequence[dict[str, Any]],
    decides: Callable[[dict[str, Any]], int | None],
) -> dict[str, Any]:
    suggestion = wakerules.suggest(group.kind, group.key)
    its = [wake for wake in found if ledger.KEYS[group.kind](wake) == group.key]
    times_s = [wake["t_s"] for wake in its]
    why_not = suggestion.why_not
    decided = {decides(wake) for wake in its}
    return {
        "kind": group.kind,
        "key": group.key,
        "last_s": group.last_s,
        "every_s": wakerules.regular(times_s),
        **_told(group),
        "classes": {name: group.classes[name] for name in SEARCHES["class"]},
        "rule": suggestion.text or None,
        "why_not": t(f"history.why_not_{why_not}") if why_not else None,
        "ruled": decided.pop() if len(decided) == 1 else None,
    }


@route(
    blueprint,
    "GET",
    "/api/history/hours",
    query={**RANGE, "server": SERVER},
    needed=("from_s", "to_s", "server"),
    answer=obj(wakes=integer(), hours=array(CLASSES, minItems=24, maxItems=24)),
)
def hours(query: dict[str, Any]) -> Any:
    """At which hours of the office's day requests woke a server, by class.

    They begin at midnight; an hour that clocks show twice is one.
    """
    found = ledger.requests(history(), query["server"], *of_query(query))
    where = zone()
    counted = Counter(
        (datetime.fromtimestamp(wake["t_s"], UTC).astimezone(where).hour, wake["class"])
        for wake in found
    )
    classes = SEARCHES["class"]
    return {
        "wakes": len(found),
        "hours": [{name: counted[hour, name] for name in classes} for hour in range(24)],
    }


def charged(
    db: sqlite3.Connection, known: Equipment, server: str, from_s: float, to_s: float
) -> tuple[list[dict[str, Any]], bool]:
    """Return a server's wakes by requests with their cost, and whether that is measured."""
    found = ledger.requests(db, server, from_s, to_s)
    until_s = min(to_s, looked_after_until_s(db))
    if not found or until_s <= from_s:
        return found, False
    states = timeline.stretches(db, server, from_s, until_s)
    curves = [costs.curve(db, meter, from_s, until_s) for meter in known.meters_of(server)]
    configured = known.server(server)
    off_w = 0.0
    for one in curves:
        asleep_w = costs.asleep_w(one, states)
        off_w += asleep_w if asleep_w is not None else configured.off_w if configured else 0.0
    costs.charge(found, states, curves, off_w, until_s)
    price = office_rates().price
    for wake in found:
        if wake["extra_j"] is not None:
            end_s = wake["t_s"] + wake["awake_s"]
            wake["cost"] = price.cost(wake["t_s"], end_s, wake["extra_j"])
    return found, any(wake["extra_j"] is not None for wake in found)


def _told(tally: ledger.Tally) -> dict[str, Any]:
    """Return a group of wakes as the API shows it, with its cost."""
    return {
        "wakes": tally.wakes,
        "awake_s": tally.awake_s,
        "extra_j": tally.extra_j,
        "cost": tally.cost,
        "persons": tally.classes["person"],
        "paths": _counts(tally.paths),
        "addresses": _counts(tally.addresses),
        "agents": _counts(tally.agents),
    }


def _counts(counter: Counter[str]) -> dict[str, Any]:
    most = counter.most_common(wakerules.MOST_EXAMPLES)
    return {
        "distinct": len(counter),
        "most": [{"key": key, "wakes": wakes} for key, wakes in most],
    }


# Rules


@route(
    blueprint,
    "GET",
    "/api/history/suggestions",
    query={name: string(maxLength=400) for name in ledger.KINDS},
    needed=ledger.KINDS,
    answer=obj(
        suggestions=array(obj(kind=KIND, text=nullable(string()), why_not=nullable(string())))
    ),
)
def suggestions(query: dict[str, Any]) -> Any:
    """The rules that one wake suggests: for its path, its address and its agent.

    Each kind has the text of a rule, or the reason why there is none.
    """
    found = [wakerules.suggest(kind, query[kind]) for kind in ledger.KINDS]
    return {
        "suggestions": [
            {
                "kind": each.kind,
                "text": each.text or None,
                "why_not": t(f"history.why_not_{each.why_not}") if each.why_not else None,
            }
            for each in found
        ]
    }


@route(
    blueprint,
    "GET",
    "/api/history/rule",
    query={"server": SERVER, "kind": KIND, "text": RULE["text"]},
    needed=("server", "kind", "text"),
    answer=obj(
        {
            "kind": KIND,
            "text": string(),
            "treat_as": string(),
            "retry_s": integer(),
            "since_s": number(),
            "all": integer(),
            "shadowed": integer(),
            **TALLY,
            "room": integer(description="How many more rules there may be"),
        }
    ),
    refusals=(HTTPStatus.NOT_FOUND, HTTPStatus.UNPROCESSABLE_ENTITY),
)
def preview(query: dict[str, Any]) -> Any:
    """The wakes that a rule would have prevented in the last 30 days, and the class it assigns."""
    known, server = _known(query["server"])
    kind, text, now_s = query["kind"], query["text"], time.time()
    db = history()
    found, _ = charged(db, known, server.id, now_s - PREVIEW_S, now_s)
    rules = wakerules.for_server(known.rules, server.id)
    made, matched = _effect(kind, text, found, rules)
    return {
        "kind": kind,
        "text": text,
        "treat_as": _treat_as(server, kind, text, matched),
        "retry_s": CRAWLER_RETRY_S,
        "since_s": max(now_s - PREVIEW_S, found[0]["t_s"] if found else now_s),
        "all": len(found),
        "shadowed": made.shadowed,
        **_told(made),
        "room": max(0, wakerules.MOST_RULES - len(known.rules)),
    }


def _answered() -> Equipment:
    known = equipment(fresh=True)
    if not known.answered:
        raise ApiError(HTTPStatus.SERVICE_UNAVAILABLE, t("history.error_controller"))
    return known


def _known(name: str) -> tuple[Equipment, Server]:
    known = _answered()
    server = known.server(name)
    if server is None:
        raise ApiError(HTTPStatus.NOT_FOUND, t("history.error_server"), "server")
    if not server.defer_crawlers:
        raise ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, t("history.error_robots"), "server")
    return known, server


def _effect(
    kind: str, text: str, found: list[dict[str, Any]], rules: list[dict[str, Any]]
) -> tuple[wakerules.Effect, list[dict[str, Any]]]:
    if kind == "path" and (not text.startswith("/") or text == "/"):
        raise ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, t("history.error_path"), "text")
    if not text.isascii() or not text.isprintable():
        raise ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, t("history.error_ascii"), "text")
    try:
        return wakerules.effect(kind, text, found, rules)
    except ValueError:
        raise ApiError(
            HTTPStatus.UNPROCESSABLE_ENTITY, t("history.error_address"), "text"
        ) from None


def _treat_as(server: Server, kind: str, text: str, matched: Sequence[dict[str, Any]]) -> str:
    chosen = wakerules.treat_as(server, kind, text, matched)
    if chosen is None:
        raise ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, t("history.error_all_wake"), "server")
    return chosen


@route(
    blueprint,
    "GET",
    "/api/history/rules",
    answer=obj(rules=array(obj(RULE)), did=array(nullable(DID)), most=integer()),
)
def rules() -> Any:
    """The rules there are, in their order: the first that matches decides."""
    known = _answered()
    return {
        "rules": list(known.rules),
        "did": _did(known),
        "most": wakerules.MOST_RULES,
    }


def _did(known: Equipment) -> list[dict[str, Any] | None]:
    """Return what the history has counted of each rule; None where it has nothing."""
    if not known.rules:
        return []
    try:
        counted = queries.rules(history())
    except ApiError:
        counted = {}
    found = (counted.get(rule_key(**rule)) for rule in known.rules)
    return [did and {name: did[name] for name in DID["properties"]} for did in found]


@route(
    blueprint,
    "POST",
    "/api/history/rules",
    body=obj(server=SERVER, kind=KIND, text=RULE["text"]),
    answer=obj(rule=obj(RULE)),
    status=HTTPStatus.CREATED,
    refusals=(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY),
)
def make(body: dict[str, Any]) -> Any:
    """Add a rule: requests that match it no longer wake the server."""
    known, server = _known(body["server"])
    kind, text, now_s = body["kind"], body["text"], time.time()
    found = ledger.requests(history(), server.id, now_s - PREVIEW_S, now_s)
    _, matched = _effect(kind, text, found, [])
    rule = {
        "kind": kind,
        "text": text,
        "treat_as": _treat_as(server, kind, text, matched),
        "server": server.id,
    }
    if rule in known.rules:
        raise ApiError(HTTPStatus.CONFLICT, t("history.error_twice"), "text")
    _change(known, [{"op": "add", "where": "rule", "value": rule}])
    return {"rule": rule}


@route(
    blueprint,
    "DELETE",
    "/api/history/rules",
    body=obj(RULE),
    answer=obj(rules=array(obj(RULE)), did=array(nullable(DID))),
    refusals=(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
)
def remove(body: dict[str, Any]) -> Any:
    """Remove a rule, identified by its content.

    Its number would change if another user removed a rule meanwhile.
    """
    known = _answered()
    number = wakerules.number(known.rules, body)
    if number is None:
        raise ApiError(HTTPStatus.NOT_FOUND, t("history.error_gone"))
    _change(known, [{"op": "remove", "where": f"rule.{number}"}])
    known = equipment(fresh=True)
    return {"rules": list(known.rules), "did": _did(known)}


def _change(known: Equipment, changes: list[dict[str, Any]]) -> None:
    control().call("config.change", {"changes": changes, "version": known.version})
    equipment(fresh=True)
