"""The guard checks every request before any view runs.

It checks the name in `Host` first, then the session cookie or the token. Changes must then come
from our own pages. At last it checks the rights of the user or token. A refusal has a text.
"""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from flask import Flask, Response, current_app, g, redirect, request, url_for
from naproxy.api.routes import READS, Access

from naproxy_webui.auth import passwords, second, tokens, users
from naproxy_webui.auth.attempts import Attempts, network
from naproxy_webui.auth.database import Database
from naproxy_webui.auth.hosts import Hosts, split
from naproxy_webui.auth.second import Seconds, Waiting
from naproxy_webui.auth.sessions import SCHEMA as SESSIONS_SCHEMA
from naproxy_webui.auth.sessions import Session, Sessions
from naproxy_webui.auth.tokens import Token, Tokens
from naproxy_webui.auth.users import User, Users, key
from naproxy_webui.http.access import access_of
from naproxy_webui.http.errors import ApiError
from naproxy_webui.i18n.texts import t
from naproxy_webui.office.office import ui_names
from naproxy_webui.options import Settings

COOKIE: Final = "naproxy"
MOST_SEEN: Final = 1000
DAY_S: Final = 86400.0
MOST_BODY_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Keys:
    """Users, tokens and sessions of a box, and the limits on guessing."""

    users: Users
    tokens: Tokens
    sessions: Sessions
    seconds: Seconds
    waiting: Waiting
    """Logins with a right password, until their code comes."""
    hosts: Hosts
    by_address: Attempts
    """Of logins and claims."""
    by_name: Attempts
    """Of logins with a name, from addresses that nobody has logged in from."""
    by_code: Attempts
    """Of codes for an agent's key."""
    by_second: Attempts
    """Of codes of a user's second factor. A person who guesses them has the password already."""
    seen: set[str]
    """Addresses and names that logged in from them since the start."""

    def forget_all(self) -> None:
        """Remove all users, with their tokens and sessions: the box can be claimed again."""
        self.users.forget_all()
        self.sessions.forget_all()


def keys() -> Keys:
    """Return those of this box."""
    found: Keys = current_app.extensions["naproxy_keys"]
    return found


def install(
    app: Flask,
    settings: Settings,
    *,
    clock: Callable[[], float] = time.monotonic,
    now: Callable[[], float] = time.time,
    cost: Callable[[], passwords.Cost] = passwords.measured,
) -> None:
    """Open what is kept and put the guard before every view."""
    kept = Database(settings.state_dir / "webui.db", users.SCHEMA + tokens.SCHEMA + second.SCHEMA)
    volatile = Database(settings.run_dir / "sessions.db", SESSIONS_SCHEMA)
    made = Keys(
        users=Users(kept, cost),
        tokens=Tokens(kept),
        sessions=Sessions(volatile, clock),
        seconds=Seconds(kept, now),
        waiting=Waiting(clock),
        hosts=Hosts(lambda: (*settings.names, *ui_names()), clock=clock),
        by_address=Attempts(free=5, most_s=900.0, clock=clock),
        by_name=Attempts(free=20, most_s=60.0, clock=clock),
        by_code=Attempts(free=5, most_s=900.0, clock=clock),
        by_second=Attempts(free=5, most_s=3600.0, clock=clock, forget_s=DAY_S),
        seen=set(),
    )
    if not made.users.exist():
        made.sessions.forget_all()
    app.extensions["naproxy_keys"] = made
    app.before_request(_before)


def _before() -> Response | None:
    g.user = g.session = g.token = None
    _check_host()
    if (request.content_length or 0) > MOST_BODY_BYTES:
        raise ApiError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, t("base.status.413"))
    declared = access_of(current_app.view_functions.get(request.endpoint or ""))
    _identify()
    if request.endpoint is None:
        return None  # no such page: Flask answers with its 404 or 405
    if request.method not in READS and g.token is None:
        _check_origin()
        if g.session is not None:
            _check_csrf(g.session)
    if declared.open:
        return None
    if g.user is None:
        return _unknown()
    _check_rights(g.user, g.token, declared)
    return None


def _check_host() -> None:
    host = split(request.headers.get("Host", ""))
    if host is None or not keys().hosts.knows(host):
        raise ApiError(
            HTTPStatus.MISDIRECTED_REQUEST, t("guard.host", host=(host or "?")[:100]), "Host"
        )


def _identify() -> None:
    """Find out who it is; a token that is wrong is said, a cookie that is wrong is nobody's."""
    kind, _, secret = request.headers.get("Authorization", "").partition(" ")
    if kind:
        if kind.lower() != "bearer":
            raise _bad_token()
        g.token, g.user = _token(secret.strip())
        return
    cookie = request.cookies.get(cookie_name())
    session = keys().sessions.find(cookie) if cookie else None
    user = keys().users.get(session.user) if session else None
    if session and user:
        g.session, g.user, g.csrf_token = session, user, session.csrf


def _token(secret: str) -> tuple[Token, User]:
    found = keys().tokens.find(secret)
    user = keys().users.get(found.user) if found else None
    if found and user:
        return found, user
    # Not slowed down as logins are: nobody guesses 256 bits.
    raise _bad_token()


def _bad_token() -> ApiError:
    return ApiError(
        HTTPStatus.UNAUTHORIZED, t("guard.token"), headers={"WWW-Authenticate": "Bearer"}
    )


def _check_origin() -> None:
    """Refuse a change that a page of somebody else asks for, or that does not say whose."""
    site = request.headers.get("Sec-Fetch-Site")
    origin = request.headers.get("Origin")
    foreign = site not in (None, "same-origin", "none")
    if origin is not None:
        foreign = foreign or origin.lower() != f"{request.scheme}://{request.host}".lower()
    if foreign or (origin is None and site is None):
        raise ApiError(HTTPStatus.FORBIDDEN, t("guard.origin"), "Origin")


def _check_csrf(session: Session) -> None:
    given = request.headers.get("X-CSRF-Token")
    if given is None and request.mimetype == "application/x-www-form-urlencoded":
        given = request.form.get("csrf_token")
    if not hmac.compare_digest((given or "").encode(), session.csrf.encode()):
        raise ApiError(HTTPStatus.FORBIDDEN, t("guard.csrf"), "X-CSRF-Token")


def _unknown() -> Response:
    """Answer who is nobody: words for programs, the login for people."""
    claimed = keys().users.exist()
    if request.method in READS and not request.path.startswith(("/api/", "/metrics")):
        if not claimed:
            return redirect_to(url_for("claim.page"))
        return redirect_to(url_for("login.page", next=request.path))
    raise ApiError(
        HTTPStatus.UNAUTHORIZED,
        t("guard.login" if claimed else "guard.unclaimed"),
        headers={"WWW-Authenticate": "Bearer"},
    )


def redirect_to(path: str) -> Response:
    """Return a redirection (303) to one of our pages."""
    made = redirect(path, HTTPStatus.SEE_OTHER)
    assert isinstance(made, Response)
    return made


def _check_rights(user: User, token: Token | None, declared: Access) -> None:
    if token is not None and not token.may(declared.needs_scope(request.method)):
        needed = declared.needs_scope(request.method)
        raise ApiError(HTTPStatus.FORBIDDEN, t("guard.scope", needed=needed, scope=token.scope))
    if user.role != "admin" and declared.needs_admin(request.method):
        raise ApiError(HTTPStatus.FORBIDDEN, t("guard.role"))


def client_network() -> str:
    """Return whose attempts are counted together."""
    return network(request.remote_addr or "")


def wait_for(attempts: Attempts, who: str, where: str | None = None) -> None:
    """Count an attempt; ApiError 429 if it is one too many."""
    wait_s = attempts.begin(who)
    if wait_s > 0:
        seconds = int(wait_s) + 1
        raise ApiError(
            HTTPStatus.TOO_MANY_REQUESTS,
            t("guard.wait", count=seconds),
            where,
            headers={"Retry-After": str(seconds)},
        )


def check_password(name: str, password: str) -> User:
    """Return who logs in; ApiError 429 if it was tried too often, 403 if it is wrong."""
    found, address, user_key = keys(), request.remote_addr or "", key(name)[:80]
    familiar = f"{address} {user_key}"
    known = familiar in found.seen
    # An office shares one /64: a user known at this address does not wait for others' failures.
    net = address if known else client_network()
    wait_for(found.by_address, net)
    if not known:
        wait_for(found.by_name, user_key)
    user = found.users.check(name, password)
    if user is None:
        raise ApiError(HTTPStatus.FORBIDDEN, t("login.wrong"))
    found.by_address.refund(net)
    if not known:
        found.by_name.refund(user_key)
    if found.seconds.of(user) is None:
        _now_familiar(user)
    return user


def check_code(user: User, typed: str) -> None:
    """Take a code of a user's second factor; ApiError 429 or 403 as for a password.

    Guesses are counted for the user, however many addresses they come from. A thief of the
    password locks the user out of no address that has logged in before. The address's own count
    is left alone: after wrong passwords it would have the right one wait twice.
    """
    found, familiar = keys(), _familiar(user)
    who = familiar if familiar in found.seen else str(user.id)
    wait_for(found.by_second, who, "code")
    if not found.seconds.take(user, typed):
        raise ApiError(HTTPStatus.FORBIDDEN, t("login.code_wrong"), "code")
    found.by_second.refund(who)
    _now_familiar(user)


def _familiar(user: User) -> str:
    return f"{request.remote_addr or ''} {key(user.name)[:80]}"


def _now_familiar(user: User) -> None:
    if len(keys().seen) < MOST_SEEN:
        keys().seen.add(_familiar(user))


def cookie_name() -> str:
    """Return the cookie's name: with https the browser itself then insists on it."""
    return f"__Host-{COOKIE}" if request.is_secure else COOKIE


def begin(user: User) -> tuple[Session, str]:
    """Begin a session in this browser, with a new id; one it had before ends.

    The text is for `with_cookie`.
    """
    if g.session is not None:
        keys().sessions.end(g.session.id, g.session.user)
    return keys().sessions.begin(
        user.id, request.remote_addr or "", request.headers.get("User-Agent", "")
    )


def with_cookie(response: Response, secret: str) -> Response:
    """Have the browser keep its session's secret."""
    response.set_cookie(cookie_name(), secret, **_cookie())
    return response


def log_in(user: User, response: Response) -> Response:
    """Begin a session, and return the response with its cookie."""
    return with_cookie(response, begin(user)[1])


def log_out(response: Response) -> Response:
    """End this browser's session."""
    if g.session is not None:
        keys().sessions.end(g.session.id, g.session.user)
    response.delete_cookie(cookie_name(), **_cookie())
    response.headers["Clear-Site-Data"] = '"cache", "storage"'
    return response


def _cookie() -> dict[str, Any]:
    return {"path": "/", "secure": request.is_secure, "httponly": True, "samesite": "Strict"}
