"""/api/setup: the questions and changes of the setup guide; also its steps later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from http import HTTPStatus
from typing import Any, Final

from flask import Blueprint, g
from naproxy.api.shapes import (
    Shape,
    array,
    boolean,
    choice,
    integer,
    nullable,
    number,
    obj,
    string,
)
from naproxy.api.table import ROUTES
from naproxy.core.names import is_site_name
from naproxy.core.schema import mac_form
from naproxy.core.words import LANGUAGES

from naproxy_webui.auth import guard
from naproxy_webui.http.api import route
from naproxy_webui.http.control import control, in_words, job_in_words
from naproxy_webui.http.errors import ApiError
from naproxy_webui.http.mount import SERVER, mount
from naproxy_webui.i18n.texts import t
from naproxy_webui.office.equipment import equipment
from naproxy_webui.office.office import forget_office
from naproxy_webui.pages.setup import steps as setting_up
from naproxy_webui.pages.setup.page import state
from naproxy_webui.pages.setup.steps import Changes, put

blueprint = Blueprint("setup_api", __name__)

ADMIN: Final[dict[str, Any]] = {
    "role": "admin",
    "refusals": (HTTPStatus.CONFLICT, HTTPStatus.SERVICE_UNAVAILABLE),
}
SAVED: Final = obj(server=nullable(string()))
WATTS: Final = number(minimum=0, maximum=1000)
Answered = Callable[[dict[str, Any], str, dict[str, Any]], Changes]
"""Gets the configuration, the server's id, and the answers of a step."""


# Where the guide is


@route(blueprint, "GET", "/api/setup", answer=ROUTES["setup"].answer, **ADMIN)
def where() -> Any:
    """Where the first run is."""
    return state()


@route(
    blueprint,
    "PUT",
    "/api/setup",
    body=obj(step=choice(*setting_up.STEPS), done=boolean(), optional=("done", "step")),
    answer=ROUTES["setup"].answer,
    **ADMIN,
)
def go(body: dict[str, Any]) -> Any:
    """Go to a step of the first run, or end it."""
    control().call("setup.go", body)
    return state()


# Looking


def _told(job: dict[str, Any]) -> dict[str, Any]:
    if job["result"] and "meters" in job["result"]:
        meters = [in_words(each, "problem") for each in job["result"]["meters"]]
        job["result"]["meters"] = meters
    return job_in_words(job)


for _path, _name in (("scan", "scan"), ("look", "look"), ("meters", "meter_search")):
    mount(blueprint, f"{_name}.begin", f"/api/setup/{_path}")
    mount(blueprint, _name, f"/api/setup/{_path}", then=_told)
    mount(blueprint, f"{_name}.end", f"/api/setup/{_path}", then=_told)
mount(blueprint, "typical", "/api/setup/typical")


# Changes by the steps


def meant(wanted: str | None) -> str:
    """Return the requested or current server; ApiError if there is none."""
    found = wanted or state()["server"]
    if found is None:
        raise ApiError(HTTPStatus.CONFLICT, t("setup.no_server_yet"))
    return str(found)


def configuration() -> dict[str, Any]:
    """Return the configuration in force."""
    found: dict[str, Any] = control().get("/v1/config")
    return found


def known(config: dict[str, Any], name: str) -> str:
    """Return the name of a server that there is; ApiError for others."""
    if name not in [each["id"] for each in config["server"]]:
        raise ApiError(HTTPStatus.NOT_FOUND, t("setup.unknown_server"), "server")
    return name


def named(server: str | None) -> str:
    """Return the id of the server that is meant."""
    return known(configuration(), meant(server))


def write(config: dict[str, Any], changes: Changes) -> dict[str, Any]:
    """Write changes against the configuration they were made for; without changes write nothing."""
    if not changes:
        return config
    body = {"changes": changes, "version": config["version"]}
    written: dict[str, Any] = control().call("config.change", body)
    forget_office()
    return written


def _step(
    name: str, *, optional: tuple[str, ...] = (), **answers: Shape
) -> Callable[[Answered], Answered]:
    """Declare a step for one server: its function returns what the answers change."""
    body_of = obj({**SERVER, **answers}, optional=("server", *optional))

    def decorate(changes_of: Answered) -> Answered:
        @wraps(changes_of)
        def step(body: dict[str, Any]) -> Any:
            config = configuration()
            server = known(config, meant(body.get("server")))
            write(config, changes_of(config, server, body))
            return {"server": server}

        route(blueprint, "POST", f"/api/setup/{name}", body=body_of, answer=SAVED, **ADMIN)(step)
        return changes_of

    return decorate


def _site_names(typed: Sequence[str], where: str) -> list[str]:
    """Return the host names in the typed texts; ApiError for an invalid one."""
    found = setting_up.host_names(typed)
    if bad := next((each for each in found if is_site_name(each)), None):
        words = t("setup.names.bad", name=bad[:100])
        raise ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, words, where)
    return found


@route(
    blueprint,
    "POST",
    "/api/setup/office",
    body=obj(
        language=choice(*LANGUAGES),
        name=nullable(string(maxLength=64)),
        time_zone=nullable(string(maxLength=64)),
        currency=nullable(string(maxLength=3)),
        price_per_kwh=nullable(number(minimum=0)),
        co2_g_per_kwh=nullable(number(minimum=0)),
    ),
    answer=SAVED,
    **ADMIN,
)
def office(body: dict[str, Any]) -> Any:
    """Language, name, time zone and prices of the office.

    Empty fields are unknown.
    """
    empty: dict[str, Any] = {"currency": "EUR", "price_per_kwh": 0.0, "co2_g_per_kwh": 0.0}
    values = {key: empty.get(key, "") if body[key] is None else body[key] for key in body}
    values |= {key: float(values[key]) for key in ("price_per_kwh", "co2_g_per_kwh")}
    write(configuration(), [put(f"office.{key}", value) for key, value in values.items()])
    guard.keys().users.set_language(g.user, body["language"])
    return {"server": None}


@route(
    blueprint,
    "POST",
    "/api/setup/server",
    body=obj(
        {
            **SERVER,
            "address": string(minLength=1, maxLength=45),
            "mac": string(minLength=1, maxLength=40),
            "port": integer(minimum=1, maximum=65535),
            "interface": string(maxLength=15),
            "name": string(maxLength=100),
            "new": boolean(description="One more, beside those that there are"),
        },
        optional=("server", "interface", "name", "port", "new"),
    ),
    answer=SAVED,
    **ADMIN,
)
def server(body: dict[str, Any]) -> Any:
    """The machine that is to sleep: a new server, or where it is now."""
    now, config = state(), configuration()
    name = None if body.get("new") else body.get("server") or now["server"]
    if name is not None:
        known(config, name)
    chosen = {"port": 80, **body, "mac": mac_form(body["mac"]).lower()}
    # Kept before there is a server: from then on a box without this would count as set up.
    control().call("setup.go", {"done": now["done"], "step": now["step"]})
    written = write(config, setting_up.server(config, chosen, name))
    name = name or written["server"][-1]["id"]
    control().call("setup.go", {"server": name})
    return {"server": name}


@_step("names", hosts=array(string(maxLength=1000), maxItems=50))
def names(_: dict[str, Any], name: str, body: dict[str, Any]) -> Changes:
    """The names of the websites that the server serves."""
    return [put(f"server.{name}.hosts", _site_names(body["hosts"], "hosts"))]


@route(
    blueprint,
    "POST",
    "/api/setup/https/look",
    body=obj(SERVER, optional=("server",)),
    answer=obj(
        known=boolean(description="false: it could not be seen"),
        answers=boolean(description="port 443 of the server"),
        leads=nullable(string(description="where visitors are sent on to by HTTPS")),
        names=array(string(), description="of its certificate that are not served yet"),
    ),
    **ADMIN,
)
def https_look(body: dict[str, Any]) -> Any:
    """Check whether visitors use HTTPS on the server."""
    config = configuration()
    server = setting_up.server_in(config, known(config, meant(body.get("server"))))
    try:
        found = control().call("server.look", {}, server=server["id"])
    except ApiError as error:
        if error.status != HTTPStatus.CONFLICT:
            raise
        # The server is not awake: use the result of the last look, if any.
        found = control().call("server.looked", server=server["id"])
    return setting_up.seen(found, server)


@_step(
    "https",
    mode=choice("box", "through", "later", "unused"),
    names=array(string(maxLength=253), maxItems=64),
    optional=("mode", "names"),
)
def https(config: dict[str, Any], name: str, body: dict[str, Any]) -> Changes:
    """The machine that answers HTTPS visitors, and additional names to serve."""
    server = setting_up.server_in(config, name)
    names = _site_names(body.get("names", ()), "names")
    seen = setting_up.seen(control().call("server.looked", server=name), server)
    silent = seen["known"] and not seen["answers"]
    return setting_up.https(server, body.get("mode"), names, silent=silent)


mount(blueprint, "server.site.begin", "/api/setup/site", server=named)
mount(blueprint, "server.site", "/api/setup/site", server=named, then=job_in_words)


@_step(
    "cache",
    mode=string(maxLength=16),
    pages=string(maxLength=16),
    paths=array(string(minLength=1, maxLength=55), maxItems=8),
    optional=("pages", "paths"),
)
def cache(config: dict[str, Any], name: str, body: dict[str, Any]) -> Changes:
    """The pages that the box may answer while the server sleeps.

    The controller defines the modes.
    """
    chosen: dict[str, str] = {key: body[key] for key in ("mode", "pages") if key in body}
    return setting_up.cache(config, name, chosen, body.get("paths", ()))


@_step(
    "sleep",
    driver=choice(*setting_up.WAYS),
    state=choice("ram", "disk", "off"),
    user=string(minLength=1, maxLength=32),
    command=string(minLength=1, maxLength=200),
    optional=("state", "user", "command"),
)
def sleep(config: dict[str, Any], name: str, body: dict[str, Any]) -> Changes:
    """How the server is put to sleep."""
    return setting_up.sleep(
        config, name, {"state": "ram", "user": "naproxy", "command": "", **body}
    )


@_step(
    "meter",
    kind=choice("found", "estimate", "none"),
    where=string(maxLength=300, description="Of a meter that the search found"),
    on_w=WATTS,
    off_w=WATTS,
    optional=("where", "on_w", "off_w"),
)
def meter(config: dict[str, Any], name: str, body: dict[str, Any]) -> Changes:
    """The source of the server's power: a meter that was found, an estimate, or none.

    The meter's keys come from the search, not from the request.
    """
    chosen = dict(body)
    if body["kind"] == "found":
        chosen |= _found(body.get("where"))
    elif body["kind"] == "estimate" and not {"on_w", "off_w"} <= body.keys():
        raise ApiError(HTTPStatus.BAD_REQUEST, t("setup.meter.watts_missing"), "on_w")
    elif body["kind"] == "estimate" and body["on_w"] <= body["off_w"]:
        raise ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, t("setup.meter.watts_order"), "on_w")
    return setting_up.meter(config, name, chosen)


@route(
    blueprint,
    "POST",
    "/api/setup/box",
    body=obj(proxy_w=WATTS),
    answer=SAVED,
    **ADMIN,
)
def box(body: dict[str, Any]) -> Any:
    """The power of the box itself; 0 on a machine that is on anyway."""
    write(configuration(), [put("box.proxy_w", float(body["proxy_w"]))])
    equipment(fresh=True)
    return {"server": None}


def _found(where: str | None) -> dict[str, Any]:
    result = control().get("/v1/meter-search")["result"] or {"meters": []}
    for each in result["meters"]:
        if each["where"] == where and each["power_w"] is not None:
            return {"driver": each["driver"], "keys": each["keys"]}
    raise ApiError(HTTPStatus.CONFLICT, t("setup.meter.gone"), "where")
