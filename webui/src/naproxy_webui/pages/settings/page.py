"""/settings: the settings, in groups that an office understands."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from flask import Response, abort, request
from naproxy.core.words import DEFAULT, LANGUAGES
from naproxy.notify import channels

from naproxy_webui.http.access import access
from naproxy_webui.http.control import control
from naproxy_webui.http.headers import SECURITY
from naproxy_webui.http.page import Page
from naproxy_webui.i18n.texts import language
from naproxy_webui.office import places
from naproxy_webui.office.money import means_of_year
from naproxy_webui.pages.settings import https
from naproxy_webui.pages.settings.fields import Form, form
from naproxy_webui.render import render

blueprint = Page("settings", __name__, "/settings", place=50)

SUBPAGES: Final = (
    ("sleep", "moon"),
    ("schedule", "calendar"),
    ("waiting-page", "coffee"),
    ("rules", "filter"),
    ("cache", "hard-drive"),
    ("server", "server"),
    ("meters", "gauge"),
    ("office", "coins"),
    ("notifications", "bell"),
    ("connections", "external-link"),
    ("https", "lock"),
    ("network", "network"),
    ("backup", "save"),
    ("system", "settings"),
    ("all", "list"),
)
"""In the order they are shown, with their icons."""

_PREVIEWS: Final = Path(__file__).parents[2] / "waiting_page"
_PREVIEW_CSP: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'self'; sandbox"
)


@blueprint.get("/settings")
def overview() -> str:
    """Show the groups of settings with their current values."""
    known = form()
    return render("settings.html", subpages=SUBPAGES, current="", config=known.config, form=known)


@blueprint.get("/settings/refused")
@access(role="admin", scope="session")
def refused() -> str:
    """Show the rejected configuration file, so that it can be corrected."""
    known = form()
    return render(
        "settings_refused.html",
        subpages=SUBPAGES,
        current="refused",
        form=known,
        config=known.config,
        refused=control().get("/v1/config/refused"),
    )


@blueprint.get("/settings/<name>")
def show(name: str) -> Response | str:
    """Show one group of settings."""
    if name not in dict(SUBPAGES):
        abort(HTTPStatus.NOT_FOUND)
    known = form()
    page = render(
        f"settings_{name.replace('-', '_')}.html",
        subpages=SUBPAGES,
        current=name,
        form=known,
        config=known.config,
        server=_server(known),
        **(https.shown(known.config) if name == "https" else _MORE.get(name, dict)()),
    )
    if name != "waiting-page":
        return page
    answer = Response(page)
    answer.headers["Content-Security-Policy"] = (
        SECURITY["Content-Security-Policy"] + "; frame-src 'self'"
    )
    return answer


def _server(known: Form) -> dict[str, Any] | None:
    """Return the server that was asked for, else the first; None if there is none."""
    servers = known.config["server"]
    wanted = request.args.get("server")
    if wanted is None:
        return next(iter(servers), None)
    found = next((each for each in servers if each["id"] == wanted), None)
    if found is None:
        abort(HTTPStatus.NOT_FOUND)
    return dict(found)


def _status() -> dict[str, Any]:
    said = control().get("/v1/status")
    status = {each["id"]: each for each in said["servers"]}
    return {"status": status, "meters": said["meters"], **means_of_year()}


def _box() -> dict[str, Any]:
    return {"box": control().get("/v1/box")}


def _notifications() -> dict[str, Any]:
    return {
        "ways": [
            {"name": name, "on": on, "fields": channels.keys(name)}
            for name, on, _, _ in channels.secrets()
        ],
        "known": [key for name in channels.names() for key in channels.keys(name)],
        "secrets": " ".join(
            f"{name}:{to[0]}:{secret}" for name, _, to, secret in channels.secrets() if to
        ),
    }


def _office() -> dict[str, Any]:
    return {"zones": places.zones(), "currencies": places.CURRENCIES, **means_of_year()}


_MORE: Final[dict[str, Any]] = {
    "sleep": _status,
    "meters": _status,
    "office": _office,
    "notifications": _notifications,
    "network": _box,
    "system": _box,
    "backup": _box,
}
"""The additional data of some subpages."""


@blueprint.get("/settings/waiting-page/preview")
@access(role="viewer", scope="session")
def preview() -> Response:
    """Show the waiting page as Varnish would send it, with a notice that is not saved yet."""
    wanted = request.args.get("language", "")
    chosen = wanted if wanted in LANGUAGES else language()
    files = (_PREVIEWS / f"{each}.html" for each in (chosen, DEFAULT))
    page = next(each for each in files if each.exists()).read_text("utf-8")
    notice = request.args.get("notice", "")[:511]
    for mark, text in (("{{notice}}", notice), ("{{seconds}}", _seconds())):
        page = page.replace(mark, _escaped(text))
    answer = Response(page, mimetype="text/html")
    answer.headers["Content-Security-Policy"] = _PREVIEW_CSP
    answer.headers["X-Frame-Options"] = "SAMEORIGIN"
    return answer


def _seconds() -> str:
    text = request.args.get("seconds", "")
    return text if text.isascii() and text.isdigit() and len(text) < 4 else "4"


def _escaped(text: str) -> str:
    """Escape as the VMOD does: the office's notice is shown as text."""
    for raw, safe in (
        ("&", "&amp;"),
        ("<", "&lt;"),
        (">", "&gt;"),
        ('"', "&quot;"),
        ("'", "&#39;"),
    ):
        text = text.replace(raw, safe)
    return text
