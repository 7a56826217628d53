"""/api/settings: the configuration, read and changed key by key."""

from __future__ import annotations

from typing import Any

from flask import Blueprint
from naproxy.api.shapes import ANY_OBJECT, array, choice, obj, string

from naproxy_webui.http.api import route
from naproxy_webui.http.control import control
from naproxy_webui.http.page import Page
from naproxy_webui.office.equipment import equipment
from naproxy_webui.office.office import forget_office

PAGE = Page(name="settings_api", path="/api/settings")
blueprint = Blueprint("settings_api", __name__)

_CHANGE = obj(
    {
        "op": choice("set", "add", "remove"),
        "where": string(minLength=1, maxLength=200, description="as server.web.port or rule.3"),
        "value": {"description": "not for remove"},
    },
    optional=("value",),
)


@route(
    blueprint,
    "GET",
    "/api/settings",
    summary="The configuration in force, without secrets; `version` is for changing it",
)
def settings() -> Any:
    """Return it as the controller has it."""
    return control().get("/v1/config")


@route(
    blueprint,
    "PATCH",
    "/api/settings",
    summary="Change single settings: all of the changes, or none",
    body=obj({"changes": array(_CHANGE, maxItems=200), "version": string(maxLength=64)}),
    answer=ANY_OBJECT,
    refusals=(409, 422),
)
def change(body: dict[str, Any]) -> Any:
    """Pass it on to the controller."""
    done = control().patch("/v1/config", body)
    forget_office()
    equipment(fresh=True)
    return done


@route(
    blueprint,
    "GET",
    "/api/settings/keys",
    summary="All keys of the configuration: types, ranges, choices, what they mean",
)
def keys() -> Any:
    """Return them as the controller lists them."""
    return control().get("/v1/config/keys")


@route(
    blueprint,
    "POST",
    "/api/settings/reload",
    summary="Use the file as it is now, after it was changed by hand",
    body=obj({}),
    refusals=(422,),
)
def reload(body: dict[str, Any]) -> Any:
    """Pass it on."""
    return control().post("/v1/config/reload", body)
