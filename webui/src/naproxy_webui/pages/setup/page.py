"""/setup: the first run, step by step; /setup/again: one of its steps later.

Where it was left is the controller's to know, so it goes on after a reload, in another
browser, and after a restart of the box.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from flask import Response, abort, after_this_request, current_app, g, redirect, request

from naproxy_webui.auth.hosts import split
from naproxy_webui.http.access import access
from naproxy_webui.http.control import control
from naproxy_webui.http.errors import ApiError
from naproxy_webui.http.page import Page
from naproxy_webui.office import certificates, places
from naproxy_webui.pages.settings.fields import Field, form
from naproxy_webui.pages.setup import routers
from naproxy_webui.pages.setup.steps import AGAIN, STEPS, WAYS, way_now
from naproxy_webui.render import render

blueprint = Page("setup", __name__, "/setup")

_DONE: Final = "naproxy_setup_done"
_TIMEOUT_S: Final = 3.0
_AGAIN_S: Final = 5
"""Until a browser asks a silent controller again."""


def state() -> dict[str, Any]:
    """Return `done`, `step` and `server`, as the controller knows them."""
    found: dict[str, Any] = control().get("/v1/setup", timeout_s=_TIMEOUT_S)
    current_app.extensions[_DONE] = bool(found["done"])
    return found


@blueprint.before_app_request
def lead_there() -> Response | None:
    """Lead who comes to a box that is not set up to the guide; nothing is asked once it is."""
    user = g.get("user")
    if request.path != "/" or user is None or user.role != "admin":
        return None
    if current_app.extensions.get(_DONE):
        return None
    try:
        if state()["done"]:
            return None
    except ApiError:
        after_this_request(_ask_again)
        return None
    return _to("/setup")


def _ask_again(answer: Response) -> Response:
    """Have the browser load the page again: a new owner would stay on a page without a server."""
    answer.headers["Refresh"] = str(_AGAIN_S)
    return answer


def _to(place: str) -> Response:
    answer = redirect(place, HTTPStatus.SEE_OTHER)
    assert isinstance(answer, Response)
    return answer


@blueprint.get("/setup")
@access(role="admin", scope="session")
def begin() -> Response:
    """Lead to where it was left."""
    now = state()
    if now["done"]:
        abort(HTTPStatus.NOT_FOUND)
    return _to(f"/setup/{now['step']}")


@blueprint.get("/setup/<step>")
@access(role="admin", scope="session")
def show(step: str) -> str:
    """Show one step of the first run."""
    now = state()
    if now["done"] or step not in STEPS:
        abort(HTTPStatus.NOT_FOUND)
    return _page(step, now["server"], again=False)


@blueprint.get("/setup/again")
@access(role="admin", scope="session")
def choose() -> str:
    """List the steps that can be done again."""
    return render("setup_again.html", steps=AGAIN, servers=_servers())


@blueprint.get("/setup/again/<step>")
@access(role="admin", scope="session")
def again(step: str) -> str:
    """Show one step later, for a server that is named or the first."""
    if step not in AGAIN:
        abort(HTTPStatus.NOT_FOUND)
    servers = _servers()
    wanted = request.args.get("server")
    if wanted is not None and wanted not in servers:
        abort(HTTPStatus.NOT_FOUND)
    new = step == "server" and "new" in request.args
    return _page(step, None if new else wanted or next(iter(servers), None), again=True)


def _servers() -> list[str]:
    return [each["id"] for each in control().get("/v1/config", timeout_s=_TIMEOUT_S)["server"]]


def _page(step: str, server: str | None, *, again: bool) -> str:
    config = control().get("/v1/config", timeout_s=_TIMEOUT_S)
    mine = next((each for each in config["server"] if each["id"] == server), None)
    place = STEPS.index(step)
    return render(
        f"setup_{step}.html",
        step=step,
        steps=STEPS[1:-1],
        place=place,
        before=None if again or place == 0 else STEPS[place - 1],
        after=None if again or step == STEPS[-1] else STEPS[place + 1],
        again=again,
        skipped=skipped(config, mine),
        routers=_rules(mine) if step == "live" and mine else {},
        router_words=routers.WORDS,
        ways=WAYS,
        sleeps=way_now(mine["sleep"]) if mine else "none",
        server=mine,
        config=config,
        zones=places.zones() if step == "office" else (),
        currencies=places.CURRENCIES,
        issuing=certificates.issuing(config),
        way=_way(config, mine) if step == "https" else None,
        cache=_cache(mine) if step == "cache" and mine else None,
        meters=[each for each in config["meter"] if mine and each["of"] == mine["id"]],
    )


def skipped(config: Mapping[str, Any], server: Mapping[str, Any] | None) -> set[str]:
    """Return the steps that an owner may leave out, and did: nothing is set by them."""
    if server is None:
        return set(AGAIN) - {"office"}
    lacking = {
        "names": not (server["hosts"] or server["default"]),
        "sleep": server["sleep"]["driver"] == "none",
        "meter": all(each["of"] != server["id"] for each in config["meter"]),
        **_unproved(server),
    }
    return {step for step, lacks in lacking.items() if lacks}


def _unproved(server: Mapping[str, Any]) -> dict[str, bool]:
    try:
        servers = control().get("/v1/status", timeout_s=_TIMEOUT_S)["servers"]
    except ApiError:
        return {}
    found = next((each for each in servers if each["id"] == server["id"]), None)
    if found is None:
        return {}
    armed, waits = found["armed"], found["live"]["waits"]
    proved = armed or (waits is not None and found["not_armed"] == waits)
    return {"live": waits is not None, "proof": not proved}


def _rules(server: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of each router with their values, one rule for each port."""
    box = control().get("/v1/status", timeout_s=_TIMEOUT_S)["box"]["front_door"]["address"]
    box = box or split(request.host) or ""
    return {
        name: {
            "ports": routers.ports(server),
            "fields": [
                (
                    field,
                    [routers.values(box, port).get(value, value) for port in routers.ports(server)],
                )
                for field, value in fields.items()
            ],
        }
        for name, fields in routers.ROUTERS.items()
    }


def _cache(server: dict[str, Any]) -> dict[str, Field]:
    """Return the fields of the cache that the step has."""
    fields = form()
    return {key: fields.field(f"server.{server['id']}.cache.{key}") for key in ("mode", "pages")}


def _way(config: dict[str, Any], server: dict[str, Any] | None) -> str:
    """Return which way to a certificate is proposed."""
    there = control().call("certificates")["certificates"]
    if server and certificates.cared_for(config, server, there):
        return "keep"
    return "upload" if certificates.way(config) == "upload" else "acme"
