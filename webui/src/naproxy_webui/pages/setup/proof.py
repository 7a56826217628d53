"""/api/setup: letting the box in, checking the way, and the proof that the server wakes."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from flask import Blueprint
from naproxy.api.shapes import ANY_OBJECT, array, boolean, integer, nullable, number, obj, string

from naproxy_webui.http.api import route
from naproxy_webui.http.control import control, in_words, job_in_words
from naproxy_webui.http.errors import ApiError
from naproxy_webui.http.mount import SERVER, mount
from naproxy_webui.i18n.reasons import plain
from naproxy_webui.i18n.texts import t
from naproxy_webui.office.equipment import commissioned
from naproxy_webui.office.stages import STAGE
from naproxy_webui.pages.setup.api import ADMIN, SAVED, configuration, known, meant, named

blueprint = Blueprint("setup_proof", __name__)

# Letting the box in


def _checked(job: dict[str, Any]) -> Any:
    """Return the findings, in the user's language."""
    if job["result"]:
        job["result"]["checks"] = [
            in_words(each, "title", "what", "mend") for each in job["result"]["checks"]
        ]
    return job_in_words(job)


mount(blueprint, "server.key", "/api/setup/key", server=named)
mount(blueprint, "server.host_key.begin", "/api/setup/host-key", server=named)
mount(blueprint, "server.host_key", "/api/setup/host-key", server=named, then=job_in_words)
mount(blueprint, "server.pin", "/api/setup/host-key", server=named)
mount(blueprint, "server.facts_script", "/api/setup/facts-script", server=named)
mount(blueprint, "server.doctor.begin", "/api/setup/check", server=named)
mount(blueprint, "server.doctor", "/api/setup/check", server=named, then=_checked)

# The proof


LIVE: Final = obj(
    first_s=nullable(number(description="when the first visitor came through the box")),
    last_s=nullable(number(description="the last, to a day")),
    confirmed_s=nullable(number(description="when a person confirmed that they do")),
    waits=string(description="what the box waits for, in words; empty: for nothing"),
    past=nullable(integer(description="visits past the box today; null: nobody counts them")),
)
WAKE: Final = obj(
    stages=array(STAGE),
    before=array(STAGE),
    last=nullable(obj(t_s=number(), stages=array(STAGE))),
    advice=array(obj(stage=string(), words=string(), commands=array(string()))),
)
"""Where the seconds of its wakes go: in the last proof, the one before, and the last wake."""
PROOF: Final = obj(
    known=boolean(description="Whether there ever was a commissioning"),
    report=nullable(ANY_OBJECT),
    why=string(description="Why it waits or ended, in words"),
    server=ANY_OBJECT,
    wake=WAKE,
    live=LIVE,
    power=obj(
        measured=nullable(ANY_OBJECT),
        in_force=ANY_OBJECT,
        given={**ANY_OBJECT, "description": "what the configuration names itself"},
    ),
)


@route(blueprint, "GET", "/api/setup/proof", answer=PROOF, query=SERVER, **ADMIN)
def proof(query: dict[str, Any]) -> Any:
    """The progress or the result of the proof that the server wakes."""
    name = named(query.get("server"))
    # Read the report first: a client stops polling at its end, and must then see the server armed.
    report = commissioned(name)
    server = _status(name)
    return {
        "known": report is not None,
        "report": report,
        "why": plain(report["reason"]) if report else "",
        "server": {
            **{key: server[key] for key in ("id", "state", "armed")},
            "alert": plain(server["alert"]),
            "not_armed": plain(server["not_armed"]),
        },
        "wake": _wake((report or {}).get("wake")),
        "live": _live(server),
        "power": control().get(f"/v1/servers/{name}/power"),
    }


def _wake(said: dict[str, Any] | None) -> dict[str, Any]:
    """Return the stages of the wakes, with advice in the user's language."""
    if not said:
        return {"stages": [], "before": [], "last": None, "advice": []}
    advice = [
        {
            "stage": each["stage"],
            "words": plain(each["reason"]),
            "commands": each["commands"],
        }
        for each in said["advice"]
    ]
    return {**said, "advice": advice}


def _status(name: str) -> dict[str, Any]:
    servers = control().get("/v1/status")["servers"]
    found: dict[str, Any] = next(each for each in servers if each["id"] == name)
    return found


def _live(server: dict[str, Any]) -> dict[str, Any]:
    live = {key: server["live"][key] for key in ("first_s", "last_s", "confirmed_s")}
    return {**live, "waits": plain(server["live"]["waits"]), "past": _past(server)}


def _past(server: dict[str, Any]) -> int | None:
    """Return how many visits went past the box today, as far as it is known.

    The agent counts all of them. Over ssh the box sees only those of the moment before a sleep:
    that there were none proves nothing.
    """
    around = server["https"]["around"]
    if around is None or (around["how"] != "agent" and not around["today"]):
        return None
    return int(around["today"])


@route(blueprint, "GET", "/api/setup/live", answer=LIVE, query=SERVER, **ADMIN)
def live(query: dict[str, Any]) -> Any:
    """Whether visitors come through the box, or the reason why not yet."""
    return _live(_status(named(query.get("server"))))


@route(
    blueprint,
    "POST",
    "/api/setup/proof",
    body=obj(
        {
            **SERVER,
            "cycles": integer(minimum=1, maximum=50),
            "pause_s": number(minimum=1, maximum=600),
        },
        optional=("server", "cycles", "pause_s"),
    ),
    answer=ANY_OBJECT,
    status=HTTPStatus.ACCEPTED,
    **ADMIN,
)
def prove(body: dict[str, Any]) -> Any:
    """Begin the proof: the server is put to sleep and woken several times."""
    pause_s = body.get("pause_s", 15.0)
    plan = {"cycles": body.get("cycles", 5), "awake_s": pause_s, "asleep_s": pause_s}
    return control().call("server.commission", plan, server=named(body.get("server")))


mount(blueprint, "server.cancel", "/api/setup/proof", server=named)


@route(
    blueprint,
    "POST",
    "/api/setup/power",
    body=obj({**SERVER, "replace": boolean()}, optional=("server", "replace")),
    answer=SAVED,
    **ADMIN,
)
def power(body: dict[str, Any]) -> Any:
    """Use the powers that the proof measured.

    Configured values are only replaced if `replace` is true.
    """
    config = configuration()
    name = known(config, meant(body.get("server")))
    said = control().call("server.power", server=name)
    if said["measured"] is None:
        raise ApiError(HTTPStatus.CONFLICT, t("setup.proof.no_power"))
    if instead(said) and not body.get("replace", False):
        raise ApiError(HTTPStatus.CONFLICT, t("setup.proof.power_given"), "replace")
    control().call("server.use_power", {"replace": True}, server=name)
    return {"server": name}


def instead(said: dict[str, Any]) -> dict[str, float]:
    """Return what somebody has configured otherwise than it was measured."""
    measured: dict[str, float] = said["measured"]
    return {key: value for key, value in said["given"].items() if value != measured[key]}
