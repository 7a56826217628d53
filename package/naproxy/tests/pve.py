"""A Proxmox VE with one machine: what of its published API the drivers use, over TLS.

https://pve.proxmox.com/pve-docs/api-viewer/; status lines and words are those of its sources.
"""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote

TOKEN = "naproxy@pve!box=aaaaaaaa-bbb-cccc-dddd-ef0123456789"
ALLOWED = {
    ("qemu", "suspend"): {"todisk", "statestorage", "skiplock"},
    ("qemu", "shutdown"): {"timeout", "forceStop", "keepActive", "skiplock"},
    ("qemu", "resume"): {"nocheck", "skiplock"},
    ("qemu", "start"): {"timeout", "skiplock"},
    ("lxc", "suspend"): set(),
    ("lxc", "shutdown"): {"timeout", "forceStop"},
    ("lxc", "resume"): set(),
    ("lxc", "start"): {"debug", "skiplock"},
}
UPID = "UPID:pve:0003D2A1:01F8A3B2:66A0F1C2:{}:100:naproxy@pve!box:"


class RefusedError(Exception):
    """The status line, and which parameters are wrong."""

    def __init__(self, status: int, reason: str, **errors: str) -> None:
        super().__init__(status, reason)
        self.status, self.reason, self.errors = status, reason, errors


class Pve:
    """What it is, and what was asked of it."""

    def __init__(self, kind: str = "qemu") -> None:
        self.kind = kind
        self.state = "running"
        self.lock = ""
        self.rights = {"VM.Audit", "VM.PowerMgmt", "VM.Config.Disk", "Datastore.AllocateSpace"}
        self.exitstatus = "OK"
        self.busy = 1
        """How often a task is still running when it is asked for."""
        self.raw: dict[str, bytes] = {}
        """Answers given as they stand, by the end of the path that is asked for."""
        self.orders: list[tuple[str, dict[str, str]]] = []
        self.tokens: set[str | None] = set()
        self.port = 0
        self.fingerprint = ""

    def answer(self, method: str, path: str, token: str | None, form: dict[str, str]) -> Any:
        self.tokens.add(token)
        if token != f"PVEAPIToken={TOKEN}":
            raise RefusedError(401, "invalid token value!")
        parts = path.split("/")
        if parts[:4] != ["", "api2", "json", "nodes"]:
            raise RefusedError(501, f"Method '{method} {path}' not implemented")
        if parts[4] != "pve":
            raise RefusedError(500, f"hostname lookup '{parts[4]}' failed")
        match method, parts[5:]:
            case "GET", ["tasks", task, "status"]:
                return self._task(unquote(task))
            case "GET", [self.kind, vmid, "status", "current"]:
                self._must(vmid, "VM.Audit")
                return self._current()
            case "POST", [self.kind, vmid, "status", verb] if (self.kind, verb) in ALLOWED:
                self._must(vmid, "VM.PowerMgmt")
                return self._begin(verb, form)
        raise RefusedError(501, f"Method '{method} {path}' not implemented")

    def _must(self, vmid: str, *rights: str) -> None:
        if missing := sorted(set(rights) - self.rights):
            raise RefusedError(403, f"Permission check failed (/vms/{vmid}, {missing[0]})")
        if vmid != "100":
            file = f"nodes/pve/{self.kind}-server/{vmid}.conf"
            raise RefusedError(500, f"Configuration file '{file}' does not exist")

    def _current(self) -> dict[str, Any]:
        status = "stopped" if self.state == "stopped" else "running"
        said: dict[str, Any] = {"vmid": 100, "name": "web", "status": status, "ha": {"managed": 0}}
        if self.kind == "qemu":
            said["qmpstatus"] = self.state
        return said | ({"lock": self.lock} if self.lock else {})

    def _begin(self, verb: str, form: dict[str, str]) -> str:
        if unknown := set(form) - ALLOWED[self.kind, verb]:
            errors = {unknown.pop(): "property is not defined in schema"}
            raise RefusedError(400, "Parameter verification failed.", **errors)
        if verb in ("suspend", "shutdown") and self.state == "stopped":
            raise RefusedError(500, f"{'CT' if self.kind == 'lxc' else 'VM'} 100 not running")
        if verb == "shutdown" and self.state == "paused":
            raise RefusedError(500, "VM is paused - cannot shutdown")
        if form.get("todisk") == "1":
            self._must("100", "VM.Config.Disk", "Datastore.AllocateSpace")
        self.orders.append((verb, form))
        return UPID.format(verb)

    def _task(self, upid: str) -> dict[str, Any]:
        if not self.orders or upid != UPID.format(self.orders[-1][0]):
            raise RefusedError(400, "Parameter verification failed.", upid="no such task")
        task = {"upid": upid, "status": "running", "type": "qmsuspend", "node": "pve"}
        if self.busy:
            self.busy -= 1
            return task
        if self.exitstatus == "OK" or self.exitstatus.startswith("WARNINGS: "):
            verb, form = self.orders[-1]
            paused = verb == "suspend" and "todisk" not in form
            self.lock = "suspended" if form.get("todisk") else ""
            asleep = "paused" if paused else "stopped"
            self.state = asleep if verb in ("suspend", "shutdown") else "running"
        return task | {"status": "stopped", "exitstatus": self.exitstatus}


@contextmanager
def proxmox(made: Pve, directory: Path, fingerprint: str) -> Iterator[Pve]:
    """Serve it with the certificate `pve.pem` in the folder."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            form = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            for end, raw in made.raw.items():
                if self.path.endswith(end):
                    self.wfile.write(raw)
                    self.close_connection = True
                    return
            said: dict[str, Any] = {"data": None}
            try:
                token = self.headers.get("Authorization")
                given = dict(parse_qsl(form.decode()))
                said["data"] = made.answer(self.command, self.path, token, given)
                self.send_response(200)
            except RefusedError as why:
                self.send_response(why.status, why.reason)
                said |= {"errors": why.errors} if why.errors else {"message": f"{why.reason}\n"}
            body = json.dumps(said).encode()
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Content-Type", "application/json;charset=UTF-8")
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815 - the library's name

        def log_message(self, *_: Any) -> None:
            pass

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "pve.pem", directory / "pve.key")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
        server.socket = context.wrap_socket(server.socket, server_side=True)
        made.port, made.fingerprint = server.server_port, fingerprint
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield made
        finally:
            server.shutdown()
