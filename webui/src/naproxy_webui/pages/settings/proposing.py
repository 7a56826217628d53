"""/api/settings/waiting/proposal: proposes another choice of the visitors who may wait, with undo.

After two weeks the box knows its visitors. Proposals and their answers are kept beside the users,
so that each is made only once.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from flask import Blueprint, current_app
from naproxy.api.shapes import boolean, choice, nullable, number, obj
from naproxy.core.waiting import FRACTIONS, choice_of, delta_s
from naproxy.history.read import patterns

from naproxy_webui.http.api import route
from naproxy_webui.http.errors import ApiError
from naproxy_webui.i18n.texts import t
from naproxy_webui.office.history import history
from naproxy_webui.options import Settings
from naproxy_webui.pages.settings.better import better
from naproxy_webui.pages.settings.waiting import (
    CARD,
    SERVER,
    Asked,
    asked_of,
    set_promise,
    watched_of,
)

blueprint = Blueprint("settings_proposing", __name__)

AFTER_S: Final = 14 * 86400
LEAST_DAYS: Final = 7.0
"""Of the requests that the figures are from: without a weekend they say little."""
OPEN, TAKEN, DECLINED = "open", "taken", "declined"

PROPOSAL: Final = obj(
    due=boolean(description="the figures are to be worked out first"),
    state=nullable(choice(OPEN, TAKEN)),
    now=nullable(CARD),
    better=nullable(CARD),
    at_s=nullable(number(description="when it was taken")),
)


def _file() -> Path:
    settings: Settings = current_app.extensions["naproxy_settings"]
    return settings.state_dir / "proposed.json"


def _answers() -> dict[str, Any]:
    try:
        found = json.loads(_file().read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _keep(server: str, answer: dict[str, Any]) -> None:
    file = _file()
    fresh = file.with_suffix(".new")
    fresh.write_text(json.dumps({**_answers(), server: answer}), "utf-8")
    fresh.replace(file)


def may_propose(servers: Sequence[str], now_s: float) -> list[str]:
    """Return the servers for which there may be a proposal, or one to undo: cheap to ask."""
    try:
        begins_s = patterns.begins_s(history())
    except (ApiError, sqlite3.Error):
        return []
    known = begins_s is not None and now_s - begins_s >= AFTER_S
    states = {name: each["state"] for name, each in _answers().items()}
    return [name for name in servers if states.get(name, OPEN if known else DECLINED) != DECLINED]


_NOTHING: Final = {"due": False, "state": None, "now": None, "better": None, "at_s": None}


def _told(asked: Asked, now_s: float) -> dict[str, Any]:
    answer = _answers().get(asked.server["id"])
    if answer is None:
        return _proposed(asked, now_s)
    if answer["state"] != TAKEN or asked.server["promise"] != answer["after"]:
        return _NOTHING
    return {**_NOTHING, "state": TAKEN, **answer["cards"], "at_s": answer["at_s"]}


def _proposed(asked: Asked, now_s: float) -> dict[str, Any]:
    """Return what is proposed that nobody has answered yet."""
    begins_s = patterns.begins_s(history())
    known = begins_s is not None and now_s - begins_s >= AFTER_S
    now = choice_of(asked.server["promise"]["fraction"])
    # The figures are those of the box's own rule.
    if not known or now is None or asked.server["policy"]["name"] != "teacher":
        return _NOTHING
    figures = watched_of(asked, now_s)
    if figures is None:
        return {**_NOTHING, "due": True}
    enough = figures["source"] == "watched" and figures["days"] >= LEAST_DAYS
    found = better(figures["cards"], now) if enough else None
    if found is None:
        return _NOTHING
    cards = {each["name"]: each for each in figures["cards"]}
    return {**_NOTHING, "state": OPEN, "now": cards[now], "better": cards[found]}


@route(
    blueprint,
    "GET",
    "/api/settings/waiting/proposal",
    query={"server": SERVER},
    needed=("server",),
    answer=PROPOSAL,
    refusals=(404, 503),
)
def proposal(query: dict[str, Any]) -> Any:
    """The box's proposal of another choice, if any, or the proposal that was accepted."""
    now_s = time.time()
    return _told(asked_of(query["server"], now_s), now_s)


@route(
    blueprint,
    "PUT",
    "/api/settings/waiting/proposal",
    body=obj(server=SERVER, answer=choice("take", "decline", "undo")),
    answer=PROPOSAL,
    refusals=(404, 409, 503),
)
def answer(body: dict[str, Any]) -> Any:
    """Take the proposed choice, decline it, or undo that it was taken."""
    now_s = time.time()
    asked = asked_of(body["server"], now_s)
    said, name = _told(asked, now_s), body["server"]
    if said["state"] != (TAKEN if body["answer"] == "undo" else OPEN):
        raise ApiError(HTTPStatus.CONFLICT, t("waiting.no_proposal"))
    before = asked.server["promise"]
    if body["answer"] == "take":
        after = {
            "fraction": FRACTIONS[said["better"]["name"]],
            "delta_s": delta_s(asked.wake_s),
        }
        set_promise(asked.server, **after)
        cards = {"now": said["now"], "better": said["better"]}
        kept = {"before": dict(before), "after": after, "cards": cards, "at_s": now_s}
        _keep(name, {"state": TAKEN, **kept})
    else:
        if body["answer"] == "undo":
            set_promise(asked.server, **_answers()[name]["before"])
        _keep(name, {"state": DECLINED})
    return _told(asked_of(name, now_s), now_s)
