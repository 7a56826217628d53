"""/account: one's own password, language, sessions and tokens; for administrators, the users."""

from __future__ import annotations

import time
from dataclasses import asdict
from http import HTTPStatus
from typing import Any, Final

from flask import current_app, g
from naproxy.api.shapes import array, boolean, choice, integer, nullable, number, obj, string
from naproxy.core.words import LANGUAGES

from naproxy_webui.auth import guard
from naproxy_webui.auth.passwords import LEAST, MOST
from naproxy_webui.auth.second import MOST_CODE
from naproxy_webui.auth.sessions import Session
from naproxy_webui.auth.tokens import SCOPES, Token
from naproxy_webui.auth.users import ROLES, User
from naproxy_webui.http.api import route
from naproxy_webui.http.errors import ApiError
from naproxy_webui.http.page import Page
from naproxy_webui.i18n.texts import t
from naproxy_webui.office.office import office
from naproxy_webui.render import render

blueprint = Page("account", __name__, "/account")

PASSWORD: Final = string(minLength=1, maxLength=MOST)
TOKEN_NAME: Final = string(
    minLength=1,
    maxLength=60,
    pattern="^[^\\x00-\\x1f\\x7f-\\x9f]+$",
    description="Letters, digits and signs that can be printed",
)
OK: Final = obj(ok=boolean())
SESSION: Final = obj(
    id=integer(),
    address=string(),
    agent=string(),
    since_s=number(description="Epoch seconds"),
    seen_s=number(description="Epoch seconds"),
    this=boolean(description="Whether it is the one that asks"),
)
TOKEN: Final = obj(
    id=integer(),
    name=string(),
    scope=choice(*SCOPES),
    created_s=number(description="Epoch seconds"),
    used_s=nullable(number(description="Epoch seconds, to a day")),
)
CODE: Final = string(minLength=1, maxLength=MOST_CODE)
RECOVERY: Final = obj(recovery=array(string()))
ACCOUNT: Final = obj(
    name=string(),
    role=choice(*ROLES),
    language=nullable(choice(*LANGUAGES)),
    second=nullable(obj(on_since_s=number(description="Epoch seconds"), recovery_codes=integer())),
    sessions=array(SESSION),
    tokens=array(TOKEN),
)


@blueprint.get("/account")
def page() -> str:
    """Show the page; its lists come from the API."""
    return render("account.html", least=LEAST, fingerprint=_fingerprint(), scopes=SCOPES)


def _fingerprint() -> str | None:
    """Return the certificate's SHA-256, as browsers show it, if the box has one."""
    try:
        text: str = current_app.extensions["naproxy_settings"].fingerprint.read_text().strip()
    except OSError:
        return None
    return text


@route(blueprint, "GET", "/api/account", answer=ACCOUNT, scope="session")
def account() -> Any:
    """The logged-in user, with sessions and tokens."""
    user, keys = _user(), guard.keys()
    second = keys.seconds.of(user)
    return {
        "name": user.name,
        "role": user.role,
        "language": user.language,
        "second": asdict(second) if second else None,
        "sessions": [_session(each) for each in keys.sessions.of(user.id)],
        "tokens": [_token(each) for each in keys.tokens.of(user)],
    }


@route(
    blueprint,
    "PUT",
    "/api/account/password",
    body=obj(current=PASSWORD, password=PASSWORD),
    answer=OK,
    role="viewer",
    scope="session",
)
def change_password(body: dict[str, Any]) -> Any:
    """Change one's own password; all other sessions end."""
    user, keys = _user(), guard.keys()
    _check_password(user, body["current"], "current")
    keys.users.set_password(user, body["password"])
    keys.sessions.end_all(user.id, but=g.session.id)
    return {"ok": True}


@route(
    blueprint,
    "POST",
    "/api/account/second",
    body=obj(password=PASSWORD),
    answer=obj(secret=string(), link=string(description="otpauth:// for an authenticator app")),
    refusals=(409,),
    role="viewer",
    scope="session",
)
def begin_second(body: dict[str, Any]) -> Any:
    """Make a secret for one's own second factor; it is on once a code has come back."""
    user, keys = _user(), guard.keys()
    if keys.seconds.of(user):
        raise ApiError(HTTPStatus.CONFLICT, t("account.second_is_on"))
    _check_password(user, body["password"], "password")
    issuer = f"Naproxy {office().name}".replace(":", " ").strip()
    secret, link = keys.seconds.begin(user, issuer)
    return {"secret": secret, "link": link}


@route(
    blueprint,
    "PUT",
    "/api/account/second",
    body=obj(code=CODE),
    answer=RECOVERY,
    role="viewer",
    scope="session",
)
def turn_second_on(body: dict[str, Any]) -> Any:
    """Turn the second factor on with a code of the app; all other sessions end.

    The recovery codes are shown this once.
    """
    user, keys = _user(), guard.keys()
    recovery = keys.seconds.turn_on(user, body["code"])
    if recovery is None:
        raise _wrong_code()
    keys.sessions.end_all(user.id, but=g.session.id)
    return {"recovery": recovery}


@route(
    blueprint,
    "POST",
    "/api/account/second/recovery",
    body=obj(password=PASSWORD, code=CODE),
    answer=RECOVERY,
    refusals=(409,),
    role="viewer",
    scope="session",
)
def new_recovery_codes(body: dict[str, Any]) -> Any:
    """Make new recovery codes; those before them are void."""
    user = _with_code(body)
    return {"recovery": guard.keys().seconds.new_recovery_codes(user)}


@route(
    blueprint,
    "POST",
    "/api/account/second/off",
    body=obj(password=PASSWORD, code=CODE),
    answer=OK,
    refusals=(409,),
    role="viewer",
    scope="session",
)
def turn_second_off(body: dict[str, Any]) -> Any:
    """Turn one's own second factor off, with password and a code: a session is not enough."""
    guard.keys().seconds.turn_off(_with_code(body))
    return {"ok": True}


def _with_code(body: dict[str, Any]) -> User:
    user = _user()
    if guard.keys().seconds.of(user) is None:
        raise ApiError(HTTPStatus.CONFLICT, t("account.second_is_off"))
    _check_password(user, body["password"], "password")
    try:
        guard.check_code(user, body["code"])
    except ApiError as error:
        raise _wrong_code() if error.status is HTTPStatus.FORBIDDEN else error from None
    return user


def _check_password(user: User, password: str, where: str) -> None:
    try:
        guard.check_password(user.name, password)
    except ApiError as error:
        if error.status is HTTPStatus.FORBIDDEN:
            words = t("account.password_wrong")
            raise ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, words, where) from None
        raise


def _wrong_code() -> ApiError:
    return ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, t("login.code_wrong"), "code")


@route(
    blueprint,
    "PUT",
    "/api/account/language",
    body=obj(language=nullable(choice(*LANGUAGES))),
    answer=OK,
    role="viewer",
    scope="session",
)
def change_language(body: dict[str, Any]) -> Any:
    """Choose the language of one's own pages; null: the office's."""
    guard.keys().users.set_language(_user(), body["language"])
    return {"ok": True}


@route(
    blueprint,
    "DELETE",
    "/api/account/sessions/<int(max=2147483647):number>",
    answer=OK,
    role="viewer",
    scope="session",
)
def end_session(number: int) -> Any:
    """End one of one's own sessions."""
    if not guard.keys().sessions.end(number, _user().id):
        raise ApiError(HTTPStatus.NOT_FOUND, t("account.no_session"))
    return {"ok": True}


@route(
    blueprint,
    "DELETE",
    "/api/account/sessions",
    query={"others": boolean(description="All but the one that asks")},
    answer=OK,
    role="viewer",
    scope="session",
)
def end_sessions(query: dict[str, Any]) -> Any:
    """Log out everywhere, here too unless only the others are to end."""
    but = g.session.id if query.get("others") else None
    guard.keys().sessions.end_all(_user().id, but=but)
    return {"ok": True}


@route(
    blueprint,
    "POST",
    "/api/account/tokens",
    body=obj(name=TOKEN_NAME, scope=choice(*SCOPES)),
    answer=obj(token=TOKEN, secret=string()),
    status=HTTPStatus.CREATED,
    role="viewer",
    scope="session",
)
def make_token(body: dict[str, Any]) -> Any:
    """Make a token; its secret is shown this once."""
    token, secret = guard.keys().tokens.make(_user(), body["name"], body["scope"])
    return {"token": _token(token), "secret": secret}


@route(
    blueprint,
    "DELETE",
    "/api/account/tokens/<int(max=2147483647):number>",
    answer=OK,
    role="viewer",
    scope="session",
)
def delete_token(number: int) -> Any:
    """Delete one of one's own tokens."""
    guard.keys().tokens.remove(_user(), number)
    return {"ok": True}


def _user() -> User:
    user: User = g.user
    return user


def _session(session: Session) -> dict[str, Any]:
    epoch_s = time.time() - guard.keys().sessions.clock()
    return {
        "id": session.id,
        "address": session.address,
        "agent": session.agent,
        "since_s": round(epoch_s + session.created_s),
        "seen_s": round(epoch_s + session.seen_s),
        "this": g.session is not None and session.id == g.session.id,
    }


def _token(token: Token) -> dict[str, Any]:
    return {
        "id": token.id,
        "name": token.name,
        "scope": token.scope,
        "created_s": token.created_s,
        "used_s": token.used_s,
    }
