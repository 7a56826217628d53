"""A box with TLS in front, and a server that runs what the guide shows: for tests of the agent."""

from __future__ import annotations

import http.client
import json
import os
import re
import ssl
import subprocess
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlencode

from box import Box
from server import PASSWORD, Lighttpd, WebUi

__all__ = ["PASSWORD", "Front", "by_agent", "call", "paste"]


def call(box: Box, method: str, path: str, body: Any = None) -> Any:
    status, answer = box.call(method, path, json.dumps(body).encode() if body is not None else b"")
    assert status < 300, answer
    return answer


def by_agent(box: Box, **more: Any) -> None:
    value = {"driver": "agent", **more}
    changes = [{"op": "set", "where": "server.web.sleep", "value": value}]
    version = call(box, "GET", "/v1/config")["version"]
    call(box, "PATCH", "/v1/config", {"version": version, "changes": changes})


class Front:
    """The box as a server in the office reaches it: lighttpd with TLS before the web interface."""

    def __init__(self, folder: Path, box: Box) -> None:
        self.webui = WebUi(folder, box.run_dir / "control.sock", unix=True)
        self.lighttpd = Lighttpd(self.webui)
        self.url = f"https://127.0.0.1:{self.lighttpd.port}"
        self._headers = {"Origin": self.url}

    def claim(self) -> Self:
        """Make the first user, and go on as his browser."""
        form = {"code": self.webui.claim_code(), "name": "anna", "password": PASSWORD}
        form["password_again"] = PASSWORD
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        claimed, _ = self.ask("POST", "/claim", urlencode(form), kind)
        self._headers["Cookie"] = (claimed.headers["Set-Cookie"] or "").partition(";")[0]
        _, page = self.ask("GET", "/account")
        token = re.search(r'name="csrf-token" content="([^"]+)"', page)
        assert token
        self._headers["X-CSRF-Token"] = token[1]
        return self

    def ask(
        self, method: str, path: str, body: str | None = None, headers: Any = None
    ) -> tuple[http.client.HTTPResponse, str]:
        """Send a request as the browser does; return the answer and its text."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        place = ("127.0.0.1", self.lighttpd.port)
        connection = http.client.HTTPSConnection(*place, timeout=60, context=context)
        connection.request(method, path, body, {**self._headers, **(headers or {})})
        answer = connection.getresponse()
        return answer, answer.read().decode()

    def script(self) -> str:
        """Return what the guide shows to paste on the server."""
        answer, text = self.ask(
            "POST", "/api/setup/agent", "{}", {"Content-Type": "application/json"}
        )
        assert answer.status == 200, text
        made: str = json.loads(text)["script"]
        return made

    def close(self) -> None:
        """End both."""
        self.lighttpd.close()
        self.webui.close()


def paste(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    """Run it as on a server whose systemd and whose folders are below `folder`."""
    programs = folder / "bin"
    for each in (programs, folder / "run/systemd/system", folder / "etc/systemd/system"):
        each.mkdir(parents=True, exist_ok=True)
    places = "/usr/local/ /etc/naproxy-agent /etc/systemd/ /run/systemd/system"
    moved = " ".join(f"-e 's,{each},{folder}{each},g'" for each in places.split())
    doubles = {"systemctl": "", "tar": f'/usr/bin/tar "$@" && sed -i {moved} naproxy-agent/install'}
    for name, body in doubles.items():
        (programs / name).write_text(f"#!/bin/sh\n{body}\n")
        (programs / name).chmod(0o755)
    env = {"PATH": f"{programs}:{os.environ['PATH']}", "https_proxy": "http://192.0.2.1:1"}
    return subprocess.run(
        ["sh"], input=text, env=env, capture_output=True, text=True, check=False, timeout=120
    )
