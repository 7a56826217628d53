"""/api/settings/waiting: the choices of visitors who may wait, with each one's effect in a year.

The figures come from an uploaded log (the page Traffic), else from the requests that the box has
recorded, even before the server first slept, else from an example.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from http import HTTPStatus
from typing import Any, Final

from flask import Blueprint
from naproxy.api.shapes import array, boolean, choice, integer, nullable, number, obj, string
from naproxy.core.waiting import FRACTIONS, choice_of, delta_s
from naproxy.history.read.recorded import last_block_s

from naproxy_webui.http.api import route
from naproxy_webui.http.child import CANCELLED, DONE, FAILED, NONE, RUNNING, WHY
from naproxy_webui.http.control import control
from naproxy_webui.http.errors import ApiError
from naproxy_webui.office.equipment import equipment
from naproxy_webui.office.history import history
from naproxy_webui.office.money import means_of_year
from naproxy_webui.office.office import forget_office
from naproxy_webui.office.ranges import utc_offset
from naproxy_webui.pages.savings.hindsights import hindsights, key_of
from naproxy_webui.pages.savings.saving import EXPECT_S, believed
from naproxy_webui.pages.traffic.estimates import estimates

blueprint = Blueprint("settings_waiting", __name__)

LOOK_BACK_S: Final = 28 * 86400
FRESH_S: Final = {"watched": 6 * 3600.0, "example": 600.0}
"""Lifetime of an answer; short for an example, as recorded requests soon replace it."""
ALIKE: Final = 0.2
"""A wake or watts that differ by more make a log's figures those of another server."""

SERVER: Final = string(minLength=1, maxLength=64)
CARD: Final = obj(
    name=choice(*FRACTIONS),
    fraction=number(),
    delta_s=number(),
    waits_a_day=number(description="how often a visitor waits, however shortly"),
    mean_s=number(description="of these waits"),
    usual_s=number(description="nearly all of them are no longer"),
    asleep_h_a_day=number(),
    saving_net=number(),
    kwh_a_year=number(description="less what the box draws; negative: it loses"),
    money_a_year=nullable(number()),
    pays=boolean(),
)
_PROMISE: Final = obj(fraction=number(), delta_s=number())
_OF: Final = obj(on_w=number(), off_w=number(), proxy_w=number(), wake_s=number())
_FIGURES: Final = obj(
    source=choice("log", "watched", "example"),
    name=string(description="of a log"),
    days=number(),
    requests=integer(),
    of=_OF,
    old=boolean(description="the server or the box is another by now"),
    cards=array(CARD),
)
WAITING: Final = obj(
    state=choice(NONE, RUNNING, DONE, FAILED, CANCELLED),
    share=number(),
    why=nullable(choice(*WHY)),
    chosen=nullable(choice(*FRACTIONS)),
    promise=_PROMISE,
    promises=obj(dict.fromkeys(FRACTIONS, _PROMISE)),
    wake_s=number(),
    measured=boolean(description="whether a wake was"),
    price_known=boolean(),
    figures=nullable(_FIGURES),
)


@dataclass(frozen=True, slots=True)
class Asked:
    """A server as it is, and the question that its figures answer."""

    server: dict[str, Any]
    wake_s: float
    measured: bool
    question: dict[str, Any]

    @property
    def of(self) -> dict[str, float]:
        """Return what the figures depend on most."""
        power = self.question["power"]
        return {
            **{name: power[name] for name in ("on_w", "off_w", "proxy_w")},
            "wake_s": self.wake_s,
        }

    @property
    def key(self) -> str:
        """Return the name of the answer."""
        asked = {name: self.question[name] for name in ("server", "price", "utc_offset")}
        # Means that are measured move a little all the time.
        power = {name: f"{value:.3g}" for name, value in self.question["power"].items()}
        times = {name: f"{self.question[name]:.2g}" for name in ("wake_s", "sleep_s")}
        return key_of({"waiting": True, **asked, **power, **times})


def asked_of(name: str, now_s: float) -> Asked:
    """Return the question about a server; ApiError if there is none."""
    what = believed(history(), name, now_s)
    server = next(s for s in control().get("/v1/config")["server"] if s["id"] == name)
    status = next(s for s in control().get("/v1/status")["servers"] if s["id"] == name)
    # Not as believed: that may be older than the test that has just measured it.
    measured = status["wake_s"] is not None
    wake_s = float(status["wake_s"] if measured else EXPECT_S)
    question = {
        "choices": True,
        "server": name,
        "from_s": now_s - LOOK_BACK_S,
        "to_s": now_s,
        "power": asdict(what.assumed.power),
        "wake_s": wake_s,
        "sleep_s": what.sleep_s,
        "promise": {"f": what.fraction, "delta_s": what.delta_s},
        "utc_offset": utc_offset(now_s),
        # The mean of a year from now on is another one, by a hair, each time.
        "price": round(means_of_year()["mean_price"] or 0.0, 4) or None,
    }
    return Asked(server, wake_s, measured, question)


def figures_of(asked: Asked) -> dict[str, Any] | None:
    """Return the figures that there are, however old; None without any."""
    from_log = _log(asked)
    if from_log:
        return from_log
    kept = hindsights().kept(asked.key)
    return _of_history(asked, kept) if kept else None


def watched_of(asked: Asked, now_s: float) -> dict[str, Any] | None:
    """Return the figures of the recorded requests, ignoring logs; None without fresh ones."""
    if not _fresh(asked, now_s):
        return None
    kept = hindsights().kept(asked.key)
    return _of_history(asked, kept) if kept else None


def _of_history(asked: Asked, kept: dict[str, Any]) -> dict[str, Any]:
    answer, question = kept["answer"], kept["question"]
    return {
        **{name: answer[name] for name in ("source", "days", "requests")},
        "name": "",
        "of": Asked(asked.server, question["wake_s"], True, question).of,
        "old": False,
        "cards": answer["choices"],
    }


def _log(asked: Asked) -> dict[str, Any] | None:
    """Return the figures of the last log; None without one, or where it may be another server's."""
    made = estimates()
    if made.progress.state != DONE or len(equipment().servers) > 1:
        return None
    try:
        logs = json.loads(made.file("summary.json").read_bytes())
    except (OSError, ValueError):
        return None
    # A result of an earlier version has no choices.
    log = next((each for each in logs if each.get("choices")), None)
    if log is None:
        return None
    server = log["server"]
    of = {name: server["power"][name] for name in ("on_w", "off_w", "proxy_w")}
    of["wake_s"] = server["wake_s"]
    people = log["requests"]
    return {
        "source": "log",
        "name": log["log"],
        "days": log["days"],
        "requests": people["person"] + people["api"],
        "of": of,
        "old": not _alike(of, asked.of),
        "cards": log["choices"],
    }


def _alike(one: Mapping[str, float], other: Mapping[str, float]) -> bool:
    return all(
        abs(one[name] - other[name]) <= ALIKE * max(one[name], other[name], 1.0) for name in other
    )


def _fresh(asked: Asked, now_s: float) -> bool:
    kept = hindsights().kept(asked.key)
    return kept is not None and now_s - kept["made_s"] < FRESH_S[kept["answer"]["source"]]


def _told(asked: Asked, now_s: float) -> dict[str, Any]:
    figures = figures_of(asked)
    progress = hindsights().progress(asked.key)
    if figures and figures["source"] == "log":
        state = DONE
    elif progress.state in (NONE, DONE):
        state = DONE if _fresh(asked, now_s) else NONE
    else:
        state = progress.state
    promise = asked.server["promise"]
    return {
        "state": state,
        "share": progress.share,
        "why": progress.why,
        "chosen": choice_of(promise["fraction"]),
        "promise": {name: promise[name] for name in ("fraction", "delta_s")},
        "promises": {
            name: {"fraction": fraction, "delta_s": delta_s(asked.wake_s)}
            for name, fraction in FRACTIONS.items()
        },
        "wake_s": asked.wake_s,
        "measured": asked.measured,
        "price_known": asked.question["price"] is not None,
        "figures": figures,
    }


@route(
    blueprint,
    "GET",
    "/api/settings/waiting",
    query={"server": SERVER},
    needed=("server",),
    answer=WAITING,
    refusals=(404, 503),
)
def state(query: dict[str, Any]) -> Any:
    """The choices of visitors who may wait, with each one's effect in a year if known yet."""
    now_s = time.time()
    return _told(asked_of(query["server"], now_s), now_s)


@route(
    blueprint,
    "POST",
    "/api/settings/waiting",
    body=obj(server=SERVER),
    answer=WAITING,
    status=HTTPStatus.ACCEPTED,
    refusals=(404, 503),
)
def start(body: dict[str, Any]) -> Any:
    """Work out what each choice brings, if that is not known."""
    now_s = time.time()
    asked = asked_of(body["server"], now_s)
    if not _fresh(asked, now_s):
        newest_s = last_block_s(history(), body["server"], now_s)
        try:
            hindsights().start(asked.key, asked.question, newest_s)
        except ApiError as error:
            if error.status != HTTPStatus.CONFLICT:
                raise
            # Something else is worked out, one at a time: this is asked for again.
            return {**_told(asked, now_s), "state": RUNNING}
    return _told(asked, now_s)


@route(
    blueprint,
    "PUT",
    "/api/settings/waiting",
    body=obj(server=SERVER, choice=choice(*FRACTIONS)),
    answer=WAITING,
    refusals=(404, 409, 503),
)
def choose(body: dict[str, Any]) -> Any:
    """Choose who may wait: how many, and from when on a wait counts."""
    now_s = time.time()
    asked = asked_of(body["server"], now_s)
    set_promise(asked.server, FRACTIONS[body["choice"]], delta_s(asked.wake_s))
    return _told(asked_of(body["server"], now_s), now_s)


def set_promise(server: Mapping[str, Any], fraction: float, delta_s: float) -> None:
    """Change both halves of a server's promise together."""
    config = control().get("/v1/config")
    wanted = {"fraction": fraction, "delta_s": delta_s}
    changes = [
        {"op": "set", "where": f"server.{server['id']}.promise.{key}", "value": value}
        for key, value in wanted.items()
        if server["promise"][key] != value
    ]
    if changes:
        control().call("config.change", {"changes": changes, "version": config["version"]})
        forget_office()
        equipment(fresh=True)
