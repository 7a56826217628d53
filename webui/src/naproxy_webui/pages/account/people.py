"""/api/users: the users of the web interface, for administrators; shown on /account."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from flask import Blueprint, g
from naproxy.api.shapes import array, boolean, choice, integer, number, obj, string

from naproxy_webui.auth import guard
from naproxy_webui.auth.passwords import MOST
from naproxy_webui.auth.users import ROLES, User
from naproxy_webui.http.api import route
from naproxy_webui.http.errors import ApiError
from naproxy_webui.i18n.texts import t

blueprint = Blueprint("people", __name__)

USER: Final = obj(
    id=integer(),
    name=string(),
    role=choice(*ROLES),
    created_s=number(description="Epoch seconds"),
    second=boolean(description="Whether a second factor is on"),
    this=boolean(description="Whether it is the one who asks"),
)
PASSWORD: Final = string(minLength=1, maxLength=MOST)
OK: Final = obj(ok=boolean())


@route(
    blueprint,
    "GET",
    "/api/users",
    answer=obj(users=array(USER)),
    role="admin",
    scope="session",
)
def users() -> Any:
    """The users of the web interface."""
    return {"users": [_said(each) for each in guard.keys().users.all()]}


@route(
    blueprint,
    "POST",
    "/api/users",
    body=obj(name=string(minLength=1, maxLength=40), password=PASSWORD, role=choice(*ROLES)),
    answer=USER,
    status=HTTPStatus.CREATED,
    scope="session",
)
def add(body: dict[str, Any]) -> Any:
    """Add a user."""
    return _said(guard.keys().users.add(body["name"], body["password"], body["role"]))


@route(
    blueprint,
    "PATCH",
    "/api/users/<int(max=2147483647):number>",
    body=obj(
        role=choice(*ROLES),
        password=PASSWORD,
        second=choice("off"),
        optional=("role", "password", "second"),
    ),
    answer=USER,
    refusals=(409,),
    scope="session",
)
def change(number: int, body: dict[str, Any]) -> Any:
    """Change a user's role, set a new password or turn the second factor off.

    With either of the latter two the user's sessions end.
    """
    keys, user = guard.keys(), _find(number)
    if "second" in body:
        if user.id == g.user.id:  # that needs the password and a code
            raise ApiError(HTTPStatus.CONFLICT, t("account.second_own"), "second")
        keys.seconds.turn_off(user)
        keys.sessions.end_all(user.id)
    if "password" in body:
        keys.users.set_password(user, body["password"])
        keys.sessions.end_all(user.id, but=g.session.id)
    if "role" in body:
        keys.users.set_role(user, body["role"])
    return _said(_find(number))


@route(blueprint, "DELETE", "/api/users/<int(max=2147483647):number>", answer=OK, scope="session")
def remove(number: int) -> Any:
    """Remove a user, with sessions and tokens.

    The last administrator stays.
    """
    keys, user = guard.keys(), _find(number)
    keys.users.remove(user)
    keys.sessions.end_all(user.id)
    return {"ok": True}


def _find(number: int) -> User:
    user = guard.keys().users.get(number)
    if user is None:
        raise ApiError(HTTPStatus.NOT_FOUND, t("account.no_user"))
    return user


def _said(user: User) -> dict[str, Any]:
    return {
        "id": user.id,
        "name": user.name,
        "role": user.role,
        "created_s": user.created_s,
        "second": guard.keys().seconds.of(user) is not None,
        "this": user.id == g.user.id,
    }
