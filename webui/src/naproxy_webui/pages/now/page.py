"""/: the current state of each server with its reason, its power, and two buttons."""

from __future__ import annotations

import time
from typing import Any, Final

from flask import current_app
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

from naproxy_webui.http.api import route
from naproxy_webui.http.control import control
from naproxy_webui.http.errors import ApiError
from naproxy_webui.http.mount import mount
from naproxy_webui.http.page import Page
from naproxy_webui.i18n.reasons import plain
from naproxy_webui.office.equipment import commissioned, equipment
from naproxy_webui.office.https import troubles
from naproxy_webui.pages.now import card as now
from naproxy_webui.pages.now import overview
from naproxy_webui.pages.now.rates import Rates
from naproxy_webui.pages.settings.proposing import may_propose
from naproxy_webui.render import render

blueprint = Page("now", __name__, "/", place=10)

TIMEOUT_S: Final = 3.0
"""A page asks again a second later: better told soon that nobody answers."""

WOKEN_S: Final = 2.0
REPORT_S: Final = 300.0

SERVER: Final = obj(
    id=string(),
    state=string(),
    since_s=number(),
    why=array(string()),
    alert=nullable(string()),
    mode=choice("auto", "awake"),
    mode_until_s=nullable(number()),
    held=integer(description="requests that wait for it now"),
    eta_s=nullable(number(description="until it is up, while it wakes")),
    wake_s=nullable(number(description="how long waking took, measured")),
    armed=boolean(),
    waits=boolean(description="for the first visitor through the box: `live` ends that"),
    silent=nullable(string(description="why it stays on: no visitor came for days")),
    tripped=boolean(description="it did not wake once: `arm` lets it sleep again"),
    commissioning=nullable(obj(phase=string(), cycle=integer(), cycles=integer())),
    decision=array(string()),
    would_sleep=boolean(),
    inhibitors=array(string(description="what keeps it awake whatever was decided")),
    appointments=array(obj(t_s=number(), name=string())),
    engines=array(
        obj(
            name=string(),
            refused_since_s=nullable(number()),
            let_in_s=nullable(number(description="when it woke the server to crawl")),
        )
    ),
    moved=nullable(obj(address=string(), mac=string())),
    strangers=nullable(
        obj(
            cost=number(description="what strangers have cost today, in the office's currency"),
            most=number(description="what they may cost in a day"),
        )
    ),
    sleeps_itself=nullable(string(description="`leave` leaves that to it")),
    calendar=nullable(
        obj(
            events=array(obj(t_s=number(), end_s=number(), name=string())),
            problem=nullable(string(description="why it could not be read")),
        )
    ),
    power=nullable(
        obj(
            meter=string(),
            power_w=nullable(number()),
            estimated=boolean(),
            age_s=nullable(number()),
            problem=nullable(string()),
        )
    ),
    always_on=nullable(obj(w=number(), measured=boolean(description="by its commissioning"))),
    past=nullable(string(description="how visitors come past the box: it is not armed")),
    around=integer(description="visits today that did not come through the box"),
    serves=array(
        string(description="what it does that its sleep would end: the office is to choose")
    ),
    requests=obj(window_s=number(), by_class=ANY_OBJECT),
    woken=nullable(ANY_OBJECT),
    seconds=array(array(number(description="time, watts: each second measured"))),
    bands=nullable(array(obj(from_s=number(), to_s=number(), state=string()))),
)
NOW: Final = obj(
    controller=boolean(),
    error=nullable(string()),
    now_s=number(),
    history_error=nullable(string()),
    settings_refused=nullable(string(description="why the file's are not used")),
    https=array(obj(kind=choice("warn", "bad"), words=string())),
    front_door=string(description="why visitors do not reach the box"),
    servers=array(SERVER),
    optional=("front_door",),
)
BOX: Final = obj(
    {
        "controller": boolean(),
        "history_error": nullable(string()),
        "settings_refused": nullable(string(description="why the file's are not used")),
        "front_door": string(description="why visitors do not reach the box"),
        "servers": array(obj(id=string(), state=string(), alert=nullable(string()))),
    },
    optional=("front_door",),
)


@blueprint.get("/")
def show() -> str:
    """Answer with the page including the current state, so that it is never empty."""
    return render(
        "now.html",
        now=_now(time.time() - now.LIVE_S, first=True),
        live_s=now.LIVE_S,
        overview={"lines": overview.lines(), "saved": overview.known_sums()},
        proposals=may_propose([each.id for each in equipment().servers], time.time()),
    )


@route(
    blueprint,
    "GET",
    "/api/now",
    query={"since_s": number(minimum=0, description="seconds after this; none without it")},
    answer=NOW,
)
def what_is_now(query: dict[str, Any]) -> Any:
    """The current state of each server with its reason, and its power since a time.

    It also reports a controller that does not answer.
    """
    return _now(query.get("since_s"))


@route(blueprint, "GET", "/api/box", answer=BOX)
def box() -> Any:
    """Whether all is well: for the line at the top of every page."""
    try:
        said = control().get("/v1/status", timeout_s=TIMEOUT_S)
    except ApiError:
        return {"controller": False, **_told_of_box({}), "servers": []}
    return {
        "controller": True,
        **_told_of_box(said["box"]),
        "servers": [
            {
                "id": each["id"],
                "state": each["state"],
                "alert": plain(each["alert"]) or None,
            }
            for each in said["servers"]
        ],
    }


def _now(since_s: float | None, *, first: bool = False) -> dict[str, Any]:
    wall_s = time.time()
    try:
        said = control().get("/v1/status", timeout_s=TIMEOUT_S)
        power = _power(since_s, wall_s, said["house_s"]) if since_s is not None else ([], 0.0)
        servers = [_server(each, said, power, wall_s, first=first) for each in said["servers"]]
    except ApiError as error:
        silent = {"controller": False, "error": error.words, "https": [], "servers": []}
        return {**silent, "now_s": wall_s, **_told_of_box({})}
    _rates().keep({each["id"] for each in servers})
    return {
        "controller": True,
        "error": None,
        "now_s": wall_s,
        **_told_of_box(said["box"]),
        "https": troubles(said["box"].get("edge")),
        "servers": servers,
    }


def _told_of_box(box: dict[str, Any]) -> dict[str, Any]:
    ports = box.get("front_door", {}).get("ports", ())
    closed = [plain(each["problem"]) for each in ports if each["problem"]]
    return {
        "history_error": box.get("history_error"),
        "settings_refused": plain(box.get("settings_refused")) or None,
        **({"front_door": " ".join(closed)} if closed else {}),
    }


def _power(since_s: float, wall_s: float, house_s: float) -> tuple[list[Any], float]:
    """Return the meters' seconds after `since_s`, and the offset from their clock to ours."""
    shift_s = wall_s - house_s
    asked_s = max(0.0, since_s - shift_s, house_s - now.LIVE_S)
    return control().get("/v1/meters", timeout_s=TIMEOUT_S, since_s=asked_s)["seconds"], shift_s


def _server(
    status: dict[str, Any],
    said: dict[str, Any],
    power: tuple[list[Any], float],
    wall_s: float,
    *,
    first: bool,
) -> dict[str, Any]:
    name, monotonic_s = status["id"], time.monotonic()
    card = now.server(status, said, monotonic_s, _rates())
    configured = equipment().server(name)
    report = _slow("report", REPORT_S).get(
        name, status["armed"], monotonic_s, lambda: commissioned(name, TIMEOUT_S)
    )
    woken = _slow("woken", WOKEN_S).get(
        name, (status["state"], status["since_s"] // 1), monotonic_s, lambda: _woken(name)
    )
    card["always_on"] = now.always_on(report, configured.on_w if configured else None)
    card["woken"] = now.woken(woken)
    card["seconds"] = (
        now.seconds(power[0], card["power"]["meter"], power[1]) if card["power"] else []
    )
    card["bands"] = _bands(name, status, wall_s) if first else None
    return card


def _bands(name: str, status: dict[str, Any], wall_s: float) -> list[dict[str, Any]]:
    from_s = wall_s - now.LIVE_S
    changes = control().get(
        "/v1/transitions", timeout_s=TIMEOUT_S, server=name, since_s=from_s, limit=now.MOST_BANDS
    )["transitions"]
    return now.bands(changes, status["state"], from_s, wall_s)


def _woken(name: str) -> dict[str, Any] | None:
    found = control().get("/v1/wakes", timeout_s=TIMEOUT_S, server=name, limit=1)["wakes"]
    return found[0] if found else None


def _rates() -> Rates:
    made: Rates = current_app.extensions.setdefault("naproxy_rates", Rates())
    return made


def _slow(what: str, most_s: float) -> now.Slow:
    made: now.Slow = current_app.extensions.setdefault(f"naproxy_now_{what}", now.Slow(most_s))
    return made


for _name, _keys in (
    ("wake", {"state": string()}),
    ("mode", {"mode": string(), "mode_until_s": nullable(number())}),
    ("arm", {"armed": boolean()}),
    ("live", {"armed": boolean()}),
    ("leave", {"sleeps_itself": nullable(ANY_OBJECT)}),
    ("adopt", {"state": string()}),
):
    mount(blueprint, f"server.{_name}", f"/api/servers/<server>/{_name}", answer=obj(_keys))
