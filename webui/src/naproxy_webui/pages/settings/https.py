"""/api/certificates, and the content of the HTTPS page. Keys are write-only: no answer has one."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from flask import Blueprint
from naproxy.api import https as controls
from naproxy.api.shapes import array, boolean, integer, nullable, number, obj, string
from naproxy.core.names import ascii_site
from naproxy.core.reason import Reason

from naproxy_webui.http.control import control, job_in_words
from naproxy_webui.http.mount import mount
from naproxy_webui.i18n.reasons import plain
from naproxy_webui.i18n.texts import t, texts_of
from naproxy_webui.office import certificates, https
from naproxy_webui.office.equipment import equipment

blueprint = Blueprint("settings_https", __name__)

_PART: Final = re.compile(r"(?<!\\),")

_ABOUT: Final = {
    "names": array(string()),
    "issuer": nullable(string()),
    "not_after_s": nullable(number()),
    "ends_in_days": nullable(integer(description="null: the clock is not set")),
    "kind": nullable(string()),
    "trusted": boolean(description="by browsers"),
    "in_use_by": array(string(description="a server")),
    "notes": array(string(description="in words")),
}
_ONE: Final = {
    "id": string(),
    "source": nullable(string(description="upload, acme or server; null: not configured")),
    "problem": nullable(string()),
    "next_try_s": nullable(number(description="when the box renews it; null: never")),
    **_ABOUT,
}
_STEP: Final = "settings.https.step_"
_LIMITED: Final = "https.acme_limited"
_DAY_S: Final = 86400.0


def in_words(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return a certificate with its notes in the user's language."""
    notes = [plain(note) for note in said["notes"]]
    told = {**said, "issuer": issuer(said["issuer"]), "notes": notes}
    return {**told, "problem": plain(said["problem"]) or None} if "problem" in said else told


def _job(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return a renewal in words, as sentences."""
    told, error, result = job_in_words(job), job["error"], job["result"]
    if error:
        told["error"] = {**error, "error": plain(error)}
    return {**told, "result": result and in_words(result)}


def issuer(name: str | None) -> str | None:
    """Return the well-known part of an issuer's name by RFC 2253: its O, else its CN."""
    if name is None:
        return None
    parts = dict(part.partition("=")[::2] for part in reversed(_PART.split(name)))
    return re.sub(r"\\(.)", r"\1", parts.get("O") or parts.get("CN") or name)


def _one(said: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in in_words(said).items() if name in _ONE}


def _changed(said: dict[str, Any]) -> dict[str, Any]:
    equipment(fresh=True)
    return said


mount(
    blueprint,
    "certificates",
    "/api/certificates",
    answer=obj(certificates=array(obj(_ONE))),
    then=lambda said: {"certificates": [_one(each) for each in said["certificates"]]},
)
mount(
    blueprint,
    "certificate.check",
    "/api/certificates/check",
    answer=obj(_ABOUT),
    then=in_words,
)
mount(
    blueprint,
    "certificate.put",
    "/api/certificates/<certificate>",
    answer=obj(_ONE),
    then=lambda said: _changed(in_words(said)),
)
mount(
    blueprint,
    "certificate.remove",
    "/api/certificates/<certificate>",
    answer=obj({}),
    then=_changed,
)
for _name in ("certificate.renew.begin", "certificate.renew"):
    mount(blueprint, _name, "/api/certificates/<certificate>/renew", then=_job)
mount(blueprint, "certificate.key", "/api/certificates/<certificate>/key")
mount(blueprint, "server.look", "/api/servers/<server>/look", answer=obj({}))


# The page


def shown(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the page shows beside the settings."""
    told = control().call("certificates")
    issuing = certificates.issuing(config)
    said = {each["id"]: each for each in control().get("/v1/status")["servers"]}
    edge = told["edge"]
    hosts = {ascii_site(host): host for server in config["server"] for host in server["hosts"]}
    cards = {each["id"]: seen(each, said.get(each["id"], {}), edge) for each in config["server"]}
    problem = plain(edge["problem"])
    starts = (edge["problem"] or {}).get("code") == controls.STARTING
    if starts or any(problem in card["words"] for card in cards.values()):
        problem = ""
    return {
        "edge": {**edge, "problem": problem or None},
        "certificates": [
            _row(each, hosts, served=issuing["served"]) for each in told["certificates"]
        ],
        "issuing": issuing,
        "fetching": certificates.fetching(config),
        "way": certificates.way(config),
        "seen": cards,
    }


def _row(each: Mapping[str, Any], hosts: Mapping[str, str], *, served: bool) -> dict[str, Any]:
    """Return a certificate as the table shows it, with names spelled as in the settings.

    `served`: the box serves websites over HTTPS. `comes`: there is none yet, but nothing is wrong.
    `idle`: it is left over. `renewable`: it may be requested now.
    """
    code = (each["problem"] or {}).get("code")
    idle = code == "https.acme_no_names" and not served
    limited = code == _LIMITED and (each["next_try_s"] or 0) > time.time()
    return {
        **in_words(each),
        "names": [hosts.get(name, name) for name in each["names"]],
        "level": _level(each),
        "comes": code in certificates.COMING,
        "idle": idle,
        "renewable": each["source"] in ("acme", "server") and not limited and not idle,
    }


def _level(each: Mapping[str, Any]) -> str:
    """Return how urgent a certificate's end is."""
    days = each["ends_in_days"]
    if days is None:
        return ""
    life_days = (each["not_after_s"] - each["not_before_s"]) / _DAY_S
    # A short-lived one is renewed in its last days: their fractions count.
    if life_days < https.USUAL_DAYS:
        days = (each["not_after_s"] - time.time()) / _DAY_S
    return https.level(days, life_days)


def seen(
    server: Mapping[str, Any], status: Mapping[str, Any], edge: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the state of a server's HTTPS: its kind, its words, and the next step."""
    own = server["https"]
    said = controls.seen(own["mode"], server["hosts"], status, edge, redirect=own["redirect"])
    return {
        "kind": said.kind,
        "words": plain(said.what.plain()),
        "next": _next(said.next, server["hosts"]) if said.next else "",
        "around": controls.around(status),
    }


def _next(what: Reason, hosts: Sequence[str]) -> str:
    """Return the next step, worded for users on this page."""
    if not hosts and what.code in ("https.do_send", "https.do_serve"):
        return t("settings.https.step_names")
    here = texts_of(_STEP).get(_STEP + what.code.removeprefix("https.do_"))
    return here or plain(what.plain())
