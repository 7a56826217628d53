"""/api/setup/services: other services of a server, and the office's choice for each."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from flask import Blueprint
from naproxy.api.shapes import array, boolean, choice, nullable, obj, string
from naproxy.core.reason import stored_reason
from naproxy.core.words import words

from naproxy_webui.http.api import route
from naproxy_webui.http.control import control
from naproxy_webui.http.errors import ApiError
from naproxy_webui.http.mount import SERVER
from naproxy_webui.i18n.texts import language, t
from naproxy_webui.pages.setup.api import ADMIN, configuration, known, meant, write
from naproxy_webui.pages.setup.steps import put, server_in

blueprint = Blueprint("setup_services", __name__)

CHOICES: Final = ("never", "used", "ignore")
SERVICES: Final = obj(
    told=boolean(description="by the server itself, not only seen from the network"),
    looks=boolean(description="its way to sleep can look who is connected"),
    flows=boolean(description="and who uses UDP"),
    services=array(
        obj(
            key=string(),
            name=string(),
            ports=array(string()),
            programs=array(string()),
            proposal=choice(*CHOICES),
            choice=nullable(choice(*CHOICES)),
        )
    ),
)


@route(blueprint, "GET", "/api/setup/services", query=SERVER, answer=SERVICES)
def services(query: dict[str, Any]) -> Any:
    """Other services of a server, and the office's choice for each."""
    name = meant(query.get("server"))
    servers = control().get("/v1/status")["servers"]
    found = next((each["services"] for each in servers if each["id"] == name), None)
    if found is None:
        raise ApiError(HTTPStatus.NOT_FOUND, t("setup.unknown_server"), "server")
    told = {key: found[key] for key in ("told", "looks", "flows")}
    return {**told, "services": [_in_words(each) for each in found["list"]]}


def _in_words(service: dict[str, Any]) -> dict[str, Any]:
    name = words(stored_reason(service["name"]), language())
    return {**service, "name": name[:1].upper() + name[1:]}


@route(
    blueprint,
    "POST",
    "/api/setup/services",
    body=obj(
        {
            **SERVER,
            "choices": array(
                obj(key=string(minLength=1, maxLength=20), choice=choice(*CHOICES)),
                minItems=1,
                maxItems=64,
            ),
        },
        optional=("server",),
    ),
    answer=obj(server=string(), version=string(description="of the settings now")),
    **ADMIN,
)
def choose(body: dict[str, Any]) -> Any:
    """Set the choices for other services of a server.

    The choices for services that are not listed stay.
    """
    config = configuration()
    name = known(config, meant(body.get("server")))
    chosen = {each["key"]: f"{each['key']} {each['choice']}" for each in body["choices"]}
    before = server_in(config, name)["awake"]["services"]
    kept = [each for each in before if each.partition(" ")[0] not in chosen]
    value = [*kept, *chosen.values()]
    written = write(config, [put(f"server.{name}.awake.services", value)])
    return {"server": name, "version": written["version"]}
