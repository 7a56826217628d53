"""Letting the box in: its key, what to paste on the server, the server's own key.

The work is that of `naproxy key`; here it is for the API, in threads: ssh's programs may
take seconds, and the loop must not wait.
"""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from naproxy.api.jobs import JobError, Progress
from naproxy.config.document import DEFAULT_FILE, Certificate, Server
from naproxy.config.paths import inside
from naproxy.core.reason import WrongError
from naproxy.drivers.openssh import SshSettings
from naproxy.drivers.sleep import ssh
from naproxy.drivers.sleep.agent import STATES
from naproxy.edge import fetching
from naproxy.setup import agent_files, keys

_SCRIPT: Final = Path(__file__).with_name("prepare-server.sh")
_CERTIFICATE_SCRIPT: Final = Path(__file__).with_name("prepare-certificate.sh")
_PLAIN_FOLDER: Final = re.compile(r"(/[A-Za-z0-9_.+-]+)+/?")
"""A folder that means no more than itself in a shell."""
_PLAIN_USER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
"""A name that means no more than itself in a shell, and in sudo's file."""


def login(server: Server) -> tuple[str, SshSettings]:
    """Return where the box logs in for a server, and how; JobError if it does not."""
    for host, settings in keys.logins(server):
        return host, settings
    raise JobError("setup.no_ssh", name=server.id)


def _own(file: str, folder: Path) -> Path:
    """Return a file that a request may have written; JobError for any but the box's own keys.

    The writer is root: a line in another file could give an attacker access.
    """
    path = Path(file)
    if not any(inside(path, each) for each in (folder, Path(DEFAULT_FILE).parent)):
        raise JobError("setup.file_elsewhere", file=file, folder=str(folder))
    return path


async def key(server: Server, folder: Path) -> dict[str, Any]:
    """Make the box's key if there is none; return what to paste on the server.

    `folder` is the configuration's; JobError if the key is not in it.
    """
    _, settings = login(server)
    public = await _made(settings, folder)
    line = keys.line(settings, public)
    return {
        "user": settings.user,
        "public_key": public,
        "fingerprint": keys.HostKey(*public.split()).fingerprint,
        "line": line,
        "script": _script(server, settings, line),
    }


async def _made(settings: SshSettings, folder: Path) -> str:
    """Make a key if there is none; return the public one."""
    _own(settings.key_file, folder)
    try:
        return await asyncio.to_thread(keys.make, settings)
    except WrongError as error:
        raise JobError("setup.no_key", said=error.reason) from None
    except OSError as error:
        raise JobError("setup.no_key", said=str(error)) from None


def _script(server: Server, settings: SshSettings, line: str) -> str:
    """Return what prepares a Linux server with systemd; empty where it would not fit."""
    fits = settings.user != "root" and _PLAIN_USER.fullmatch(settings.user)
    ours = isinstance(server.sleep, ssh.Settings) and server.sleep.is_ours
    if not ours or not fits:
        return ""
    packed = base64.encodebytes(agent_files.packed()).decode().rstrip("\n")
    values = {"@USER@": settings.user, "@LINE@": line, "@STATE@": STATES[server.sleep.state]}
    values |= {"@SERVER@": server.id, "@SHA256@": agent_files.digest(), "@AGENT@": packed}
    return _filled(_SCRIPT, values)


def _filled(script: Path, values: Mapping[str, str]) -> str:
    text = script.read_text()
    for mark, value in values.items():
        text = text.replace(mark, value)
    return text


async def certificate_key(
    certificate: Certificate, server: Server, there: str, folder: Path
) -> dict[str, Any]:
    """Make the key that the box fetches a certificate with; return what to paste on the server.

    `there` is the folder on the server that has the certificate and its key; JobError.
    """
    if not _PLAIN_FOLDER.fullmatch(there):
        raise JobError("setup.folder")
    settings = fetching.login(certificate, server)
    public = await _made(settings, folder)
    name = f"naproxy-certificate-{certificate.id}"
    command = f"/usr/local/bin/{name}"
    line = f'restrict,command="sudo -n {command}" {public} {name}'
    values = {"@USER@": settings.user, "@LINE@": line, "@FOLDER@": there.rstrip("/")}
    values |= {"@COMMAND@": command, "@NAME@": name}
    fits = settings.user != "root" and _PLAIN_USER.fullmatch(settings.user)
    return {
        "user": settings.user,
        "public_key": public,
        "fingerprint": keys.HostKey(*public.split()).fingerprint,
        "line": line,
        "script": _filled(_CERTIFICATE_SCRIPT, values) if fits else "",
    }


async def host_key(server: Server, progress: Progress) -> dict[str, Any]:
    """Return the host key that the server shows now, and those that are pinned."""
    progress.part = "host_key"
    host, settings = login(server)
    shown = await asyncio.to_thread(_shown, host, settings)
    before = pinned(server)
    return {
        "host": host,
        "port": settings.port,
        "shown": {"kind": shown.kind, "fingerprint": shown.fingerprint},
        "pinned": before["pinned"],
        "same": shown in _pinned(host, settings),
    }


def pinned(server: Server) -> dict[str, Any]:
    """Return the host keys that are pinned for a server."""
    host, settings = login(server)
    found = _pinned(host, settings)
    return {"pinned": [{"kind": key.kind, "fingerprint": key.fingerprint} for key in found]}


async def pin(server: Server, fingerprint: str, folder: Path, *, replace: bool) -> dict[str, Any]:
    """Pin the key that the server shows if it has this fingerprint, which a person compared.

    JobError if it shows another, or if one is pinned already and `replace` is not said, or if
    the file is not in `folder`, the configuration's.
    """
    host, settings = login(server)
    file = _own(settings.known_hosts, folder)
    shown = await asyncio.to_thread(_shown, host, settings)
    if not keys.same(fingerprint, shown.fingerprint):
        raise JobError("setup.other_key")
    before = _pinned(host, settings)
    if before and shown not in before and not replace:
        raise JobError("setup.pinned_already")
    try:
        await asyncio.to_thread(keys.pin, file, keys.place(host, settings.port), shown)
    except WrongError as error:
        raise JobError(error.reason.code, **error.reason.params) from None
    except OSError as error:
        raise _unreadable(settings, error) from None
    return pinned(server)


def _pinned(host: str, settings: SshSettings) -> list[keys.HostKey]:
    try:
        return keys.pinned(settings, host)
    except OSError as error:
        raise _unreadable(settings, error) from None


def _unreadable(settings: SshSettings, error: OSError) -> JobError:
    file, why = settings.known_hosts, error.strerror or str(error)
    return JobError("driver.unreadable", file=file, why=why)


def _shown(host: str, settings: SshSettings) -> keys.HostKey:
    try:
        return keys.scan(host, settings.port)
    except WrongError as error:
        port, said = settings.port, error.reason
        raise JobError("setup.no_host_key", host=host, port=port, said=said) from None
