"""/api/setup: letting the box in, checking the way, and the proof that the server wakes."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from flask import Blueprint
from naproxy.api.shapes import ANY_OBJECT, boolean, integer, nullable, number, obj, string

from naproxy_webui.http.api import route
from naproxy_webui.http.control import control, in_words, job_in_words
from naproxy_webui.http.errors import ApiError
from naproxy_webui.http.page import Page
from naproxy_webui.i18n.reasons import plain
from naproxy_webui.i18n.texts import t
from naproxy_webui.office.equipment import commissioned
from naproxy_webui.pages.setup.api import (
    ADMIN,
    BEGIN,
    BEGUN,
    JOB,
    SAVED,
    SERVER,
    configuration,
    known,
    meant,
)

PAGE = Page(name="setup_proof", path="/api/setup/proof")
blueprint = Blueprint("setup_proof", __name__)

_SCRIPT_S: Final = 30.0

# Letting the box in

OF: Final[dict[str, Any]] = {"query": SERVER}


@route(
    blueprint,
    "POST",
    "/api/setup/key",
    summary="Make the box's key if there is none; what to paste on the server",
    body=obj(SERVER, optional=("server",)),
    answer=ANY_OBJECT,
    **ADMIN,
)
def key(body: dict[str, Any]) -> Any:
    """Make it."""
    return control().post(f"/v1/servers/{_path(body)}/key")


def _path(values: dict[str, Any]) -> str:
    """Return the server's id as it goes into a path."""
    return known(configuration(), meant(values.get("server")))


@route(
    blueprint,
    "POST",
    "/api/setup/host-key",
    summary="Ask the server for its host key",
    body=obj(SERVER, optional=("server",)),
    answer=JOB,
    status=BEGUN,
    **BEGIN,
)
def host_key(body: dict[str, Any]) -> Any:
    """Begin."""
    return control().post(f"/v1/servers/{_path(body)}/host-key")


@route(
    blueprint,
    "GET",
    "/api/setup/host-key",
    summary="The host key that the server shows",
    answer=JOB,
    **OF,
    **ADMIN,
)
def shown_key(query: dict[str, Any]) -> Any:
    """Return it."""
    return job_in_words(control().get(f"/v1/servers/{_path(query)}/host-key"))


@route(
    blueprint,
    "PUT",
    "/api/setup/host-key",
    summary="Pin the server's host key, its fingerprint compared",
    body=obj(
        {**SERVER, "fingerprint": string(minLength=10, maxLength=100), "replace": boolean()},
        optional=("server", "replace"),
    ),
    answer=ANY_OBJECT,
    **ADMIN,
)
def pin(body: dict[str, Any]) -> Any:
    """Pin it."""
    said = {"fingerprint": body["fingerprint"], "replace": body.get("replace", False)}
    return control().put(f"/v1/servers/{_path(body)}/host-key", said)


@route(
    blueprint,
    "GET",
    "/api/setup/facts-script",
    summary="A script that looks at the server itself; what it prints belongs into the check",
    answer=obj({"script": string()}),
    **OF,
    **ADMIN,
)
def facts_script(query: dict[str, Any]) -> Any:
    """Return it."""
    path = f"/v1/servers/{_path(query)}/facts-script"
    return control().get(path, timeout_s=_SCRIPT_S)


@route(
    blueprint,
    "POST",
    "/api/setup/check",
    summary="Look at the way from the box to the server",
    body=obj({**SERVER, "facts": string(maxLength=65536)}, optional=("server", "facts")),
    answer=JOB,
    status=BEGUN,
    **BEGIN,
)
def check(body: dict[str, Any]) -> Any:
    """Begin."""
    said = {"facts": body["facts"]} if "facts" in body else {}
    return control().post(f"/v1/servers/{_path(body)}/doctor", said)


@route(
    blueprint,
    "GET",
    "/api/setup/check",
    summary="What is wrong with the way to the server",
    answer=JOB,
    **OF,
    **ADMIN,
)
def checked(query: dict[str, Any]) -> Any:
    """Return the findings, in the user's language."""
    job = control().get(f"/v1/servers/{_path(query)}/doctor")
    if job["result"]:
        job["result"]["checks"] = [
            in_words(each, "title", "what", "mend") for each in job["result"]["checks"]
        ]
    return job_in_words(job)


# The proof


PROOF: Final = obj(
    {
        "known": boolean(description="Whether there ever was a commissioning"),
        "report": nullable(ANY_OBJECT),
        "why": string(description="Why it waits or ended, in words"),
        "server": ANY_OBJECT,
        "power": obj(
            {
                "measured": nullable(ANY_OBJECT),
                "in_force": ANY_OBJECT,
                "given": {**ANY_OBJECT, "description": "what the configuration names itself"},
            }
        ),
    }
)


@route(
    blueprint,
    "GET",
    "/api/setup/proof",
    summary="How the proof that the server wakes is getting on, or what came of it",
    answer=PROOF,
    **OF,
    **ADMIN,
)
def proof(query: dict[str, Any]) -> Any:
    """Say it."""
    name = _path(query)
    servers = control().get("/v1/status")["servers"]
    server = next(each for each in servers if each["id"] == name)
    report = commissioned(name)
    return {
        "known": report is not None,
        "report": report,
        "why": plain(report["reason"]) if report else "",
        "server": {
            **{key: server[key] for key in ("id", "state", "armed")},
            "alert": plain(server["alert"]),
        },
        "power": control().get(f"/v1/servers/{name}/power"),
    }


@route(
    blueprint,
    "POST",
    "/api/setup/proof",
    summary="Begin the proof: the server is put to sleep and woken several times",
    body=obj(
        {
            **SERVER,
            "cycles": integer(minimum=1, maximum=50),
            "pause_s": number(minimum=1, maximum=600),
        },
        optional=("server", "cycles", "pause_s"),
    ),
    answer=ANY_OBJECT,
    status=BEGUN,
    **ADMIN,
)
def prove(body: dict[str, Any]) -> Any:
    """Begin."""
    pause_s = body.get("pause_s", 15.0)
    plan = {"cycles": body.get("cycles", 5), "awake_s": pause_s, "asleep_s": pause_s}
    return control().post(f"/v1/servers/{_path(body)}/commission", plan)


@route(
    blueprint,
    "DELETE",
    "/api/setup/proof",
    summary="End the proof; the server ends awake",
    answer=ANY_OBJECT,
    **OF,
    **ADMIN,
)
def end_proof(query: dict[str, Any]) -> Any:
    """End it."""
    return control().delete(f"/v1/servers/{_path(query)}/commission")


@route(
    blueprint,
    "POST",
    "/api/setup/power",
    summary="Reckon with the powers that the proof measured",
    body=obj({**SERVER, "replace": boolean()}, optional=("server", "replace")),
    answer=SAVED,
    **ADMIN,
)
def power(body: dict[str, Any]) -> Any:
    """Have them written; what somebody has configured only if `replace` says so."""
    config = configuration()
    name = known(config, meant(body.get("server")))
    path = f"/v1/servers/{name}/power"
    said = control().get(path)
    if said["measured"] is None:
        raise ApiError(HTTPStatus.CONFLICT, t("setup.proof.no_power"))
    if instead(said) and not body.get("replace", False):
        raise ApiError(HTTPStatus.CONFLICT, t("setup.proof.power_given"), "replace")
    control().post(path, {"replace": True})
    return {"server": name}


def instead(said: dict[str, Any]) -> dict[str, float]:
    """Return what somebody has configured otherwise than it was measured."""
    measured: dict[str, float] = said["measured"]
    return {key: value for key, value in said["given"].items() if value != measured[key]}
