"""/api/savings/hindsight: the possible savings, also with another server or promise.

`naproxy.lab.estimate.hindsight` computes them in a process of its own. This module has the
question, the progress, and the answer beside the actual savings of the same time.
"""

from __future__ import annotations

import math
import sqlite3
import time
from dataclasses import asdict
from http import HTTPStatus
from typing import Any, Final

from flask import Blueprint
from naproxy.api.shapes import ANY_OBJECT, choice, nullable, number, obj
from naproxy.history.read.recorded import last_block_s
from naproxy.history.read.waits import paid

from naproxy_webui.http.api import route
from naproxy_webui.http.child import CANCELLED, DONE, FAILED, NONE, RUNNING, WHY
from naproxy_webui.http.errors import ApiError
from naproxy_webui.i18n.texts import t
from naproxy_webui.office.history import history
from naproxy_webui.office.office import office, rates_said
from naproxy_webui.office.ranges import utc_offset
from naproxy_webui.pages.savings.hindsights import hindsights, key_of
from naproxy_webui.pages.savings.saving import Believed, believed, shown, sums
from naproxy_webui.pages.savings.scope import SCOPE, Scope, scope_of

blueprint = Blueprint("savings_hindsight", __name__)

LEAST_DAYS: Final = 30
"""A shorter range is too little for a rule that learns: the time before it is taken too."""

OTHERS: Final = {
    "fraction": number(minimum=0, maximum=1, description="Share of requests that may wait"),
    "delta_s": number(minimum=0, maximum=60, description="Longer than this is a wait"),
    "on_w": number(minimum=0, maximum=100_000),
    "off_w": number(minimum=0, maximum=100_000),
    "proxy_w": number(minimum=0, maximum=10_000),
    "wake_s": number(minimum=0, maximum=600),
    "sleep_s": number(minimum=0, maximum=600),
}
"""Parameters of another server or another promise; the others keep their current values."""

STATE: Final = obj(
    state=choice(NONE, RUNNING, DONE, FAILED, CANCELLED),
    share=number(),
    why=nullable(choice(*WHY)),
    busy={"type": "boolean"},
    fresh={"type": "boolean"},
    question=ANY_OBJECT,
    found=nullable(ANY_OBJECT),
)


def _question(scope: Scope, what: Believed, other: dict[str, Any]) -> dict[str, Any]:
    """Return the question; ApiError for a server that makes no sense."""
    power = asdict(what.assumed.power)
    changed: dict[str, float] = {
        name: other[name] for name in ("on_w", "off_w", "proxy_w") if name in other
    }
    sleep_s = other.get("sleep_s", what.sleep_s)
    if changed.keys() & {"on_w", "off_w"} or "sleep_s" in other:
        power = _other_power({**power, **changed}, what, sleep_s)
    return {
        "server": scope.server,
        "from_s": min(scope.from_s, scope.to_s - LEAST_DAYS * 86400),
        "to_s": scope.to_s,
        "power": {**power, **changed},
        "wake_s": other.get("wake_s", what.wake_s),
        "sleep_s": sleep_s,
        "promise": {
            "f": other.get("fraction", what.fraction),
            "delta_s": other.get("delta_s", what.delta_s),
        },
        "utc_offset": utc_offset(scope.to_s),
        "time_zone": office().time_zone or "",
        "rates": rates_said(),
    }


def _other_power(power: dict[str, float], what: Believed, sleep_s: float) -> dict[str, float]:
    """Return the powers with a cost of switching that goes with them.

    As `naproxy estimate` does: nearly all of it is that falling asleep takes the power of awake.
    """
    if power["off_w"] >= power["on_w"]:
        raise ApiError(HTTPStatus.BAD_REQUEST, t("savings.error_power"), "off_w")
    known = what.assumed.power
    other_s = max(0.0, known.break_even_s + sleep_s - what.sleep_s)
    return {**power, "switch_j": other_s * (power["on_w"] - power["off_w"])}


def _key(scope: Scope, question: dict[str, Any]) -> str:
    """Return the key of the answer: the same for a calendar range at any time of the day."""
    asked = {name: value for name, value in question.items() if name not in ("from_s", "to_s")}
    # Measured means change a little all the time.
    asked["power"] = {name: f"{value:.3g}" for name, value in question["power"].items()}
    asked |= {name: f"{question[name]:.2g}" for name in ("wake_s", "sleep_s")}
    day = None if scope.day is None else scope.day.isoformat()
    return key_of({"view": scope.view, "day": day, **asked})


@route(
    blueprint,
    "GET",
    "/api/savings/hindsight",
    query={**SCOPE, **OTHERS},
    needed=("server",),
    answer=STATE,
)
def state(query: dict[str, Any]) -> Any:
    """The possible savings: the progress of their computation, and the newest answer."""
    db = history()
    scope = scope_of(db, query)
    what = believed(db, scope.server, time.time())
    question = _question(scope, what, query)
    return _state(db, scope, what, question)


def _state(
    db: sqlite3.Connection, scope: Scope, what: Believed, question: dict[str, Any]
) -> dict[str, Any]:
    jobs, key = hindsights(), _key(scope, question)
    progress, kept = jobs.progress(key), jobs.kept(key)
    newest_s = last_block_s(db, scope.server, scope.to_s)
    fresh = kept is not None and kept["newest_s"] >= newest_s
    ended = DONE if kept and progress.state in (NONE, DONE) else progress.state
    return {
        "state": ended,
        "share": progress.share,
        "why": progress.why,
        "busy": jobs.busy and progress.state != RUNNING,
        "fresh": fresh,
        "question": question,
        "found": _found(db, what, kept) if kept else None,
    }


def _found(db: sqlite3.Connection, what: Believed, kept: dict[str, Any]) -> dict[str, Any]:
    """Return a kept answer with the actual savings and waits of the same time."""
    answer = kept["answer"]
    if "span" in answer:
        span, server = answer["span"], kept["question"]["server"]
        from_s, to_s = math.ceil(span["from_s"] / 60) * 60, int(span["to_s"]) // 60 * 60
        counts = paid(db, server, from_s, to_s)
        found = sums(db, what, from_s, to_s)
        actual = {
            "sums": shown(found.sums),
            "used": {"energy_j": found.sums.used_j, **asdict(found.used)},
            "box": {"energy_j": found.sums.box_j, **asdict(found.box)},
            "requests": counts.requests,
            "delayed": counts.delayed,
        }
        answer = {**answer, "actual": actual}
    return {"made_s": kept["made_s"], "question": kept["question"], **answer}


def newest_answer(db: sqlite3.Connection, scope: Scope, what: Believed) -> dict[str, Any] | None:
    """Return the answer that is kept for a range as it is, for the export."""
    kept = hindsights().kept(_key(scope, _question(scope, what, {})))
    return _found(db, what, kept) if kept else None


@route(
    blueprint,
    "POST",
    "/api/savings/hindsight",
    body=obj({**SCOPE, **OTHERS}, optional=("view", "day", *OTHERS)),
    answer=STATE,
    status=HTTPStatus.ACCEPTED,
    refusals=(HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND),
)
def start(body: dict[str, Any]) -> Any:
    """Work out what could have been saved; one at a time.

    An answer that is as new as the history is kept.
    """
    db = history()
    scope = scope_of(db, body)
    what = believed(db, scope.server, time.time())
    question = _question(scope, what, body)
    now = _state(db, scope, what, question)
    if not now["fresh"]:
        newest_s = last_block_s(db, scope.server, scope.to_s)
        hindsights().start(_key(scope, question), question, newest_s)
    return _state(db, scope, what, question)


@route(blueprint, "DELETE", "/api/savings/hindsight", answer=ANY_OBJECT)
def cancel() -> Any:
    """Do not work it out any further."""
    hindsights().cancel()
    return {}
