"""/agent and /api/setup/agent: the box hands out the server's agent and its key.

The program is public: it contains no secret. The key requires a code that the guide showed, and
TLS. The pasted command pins the certificate, so a man in the middle cannot read the key.
"""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from flask import Blueprint, Response, current_app, request
from naproxy.api.shapes import integer, nullable, obj, string
from naproxy.api.table import ROUTES
from naproxy.core.names import in_url
from naproxy.setup import agent_files

from naproxy_webui.auth import guard
from naproxy_webui.auth.hosts import split
from naproxy_webui.http.access import access
from naproxy_webui.http.api import route
from naproxy_webui.http.control import control
from naproxy_webui.http.errors import ApiError
from naproxy_webui.http.mount import SERVER, mount
from naproxy_webui.i18n.texts import t
from naproxy_webui.pages.setup.api import ADMIN, named

blueprint = Blueprint("agent", __name__)

_PIN: Final = "pin"
"""A file beside the fingerprint: the value for `curl --pinnedpubkey`, without `sha256//`."""
_HTTPS_PORT: Final = 443
_MOST_CODE_BYTES: Final = 64
_TEXT: Final = {"Content-Type": "text/plain; charset=utf-8"}


@blueprint.get("/agent/naproxy-agent.tar.gz")
@access(open=True)
def program() -> Response:
    """Return the agent's program."""
    return Response(agent_files.packed(), mimetype="application/gzip")


@blueprint.post("/agent/key")
@access(open=True)
def key() -> Response:
    """Return a new key to a client with a server's code; refuse in plain text for the installer."""
    try:
        return Response(f"{_new_key()}\n", headers=_TEXT)
    except ApiError as error:
        return Response(f"{error.words}\n", error.status, headers={**_TEXT, **error.headers})


def _new_key() -> str:
    if not request.is_secure:
        raise ApiError(HTTPStatus.FORBIDDEN, t("setup.agent.only_https"))
    # These attempts count separately, so they do not lock out users who log in.
    net = guard.client_network()
    guard.wait_for(guard.keys().by_code, net)
    code = request.get_data(cache=False)[: _MOST_CODE_BYTES + 1].decode("ascii", "replace").strip()
    if not 0 < len(code) <= _MOST_CODE_BYTES:
        raise ApiError(HTTPStatus.FORBIDDEN, t("setup.agent.bad_code"))
    made = control().call("agent.key", {"code": code})
    guard.keys().by_code.refund(net)
    return str(made["key"])


@route(
    blueprint,
    "POST",
    "/api/setup/agent",
    body=obj(SERVER, optional=("server",)),
    answer=obj(
        script=nullable(string(description="null: this page came by HTTP, or has no pin")),
        sha256=string(description="of the program"),
        left_s=integer(description="how long the code is good"),
    ),
    **{**ADMIN, "scope": "session"},
)
def begin(body: dict[str, Any]) -> Any:
    """Make a code for a server's agent, and what to paste on the server.

    The text names the box by its address in the server's network.
    """
    name = named(body.get("server"))
    pin = _pin()
    if pin is None or not request.is_secure:
        return {"script": None, "sha256": agent_files.digest(), "left_s": 0}
    made = control().call("server.agent.code", {}, server=name)
    box = f"https://{_host(made['address'])}:{_port()}"
    text = agent_files.script(box=box, pin=pin, server=name, code=made["code"])
    return {"script": text, "sha256": agent_files.digest(), "left_s": int(made["left_s"])}


mount(
    blueprint,
    "server.agent",
    "/api/setup/agent",
    server=named,
    answer=obj(state=ROUTES["server.agent"].answer["properties"]["state"]),
)
mount(blueprint, "server.agent.key", "/api/setup/agent/key", server=named)


def _pin() -> str | None:
    file: Path = current_app.extensions["naproxy_settings"].fingerprint
    try:
        return file.with_name(_PIN).read_text("ascii").strip() or None
    except (OSError, ValueError):
        return None


def _host(address: str | None) -> str:
    """Return the box's address for a URL; where none is known, the one that this page has."""
    return in_url(address or split(request.host) or "")


def _port() -> int:
    port = request.host.rpartition(":")[2]
    return int(port) if port != request.host and port.isdigit() else _HTTPS_PORT
