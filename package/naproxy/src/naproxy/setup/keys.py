"""`naproxy key`: the box's own ssh key, and the host keys of those it logs in to.

The key is made on the box and never leaves it. A host key is pinned once, by a person who
compares its fingerprint; one that changes is never taken without a word.
"""

from __future__ import annotations

import argparse
import base64
import binascii
import hashlib
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from naproxy.api.command import CommandError, add_config_option
from naproxy.config import document as config
from naproxy.config.document import Server
from naproxy.core.files import NotAFileError, peek, sync, write
from naproxy.core.processes import words
from naproxy.core.reason import Reason, WrongError, own_words
from naproxy.core.schema import ConfigError
from naproxy.drivers.openssh import SshSettings

_KINDS: Final = ("ssh-ed25519", "ecdsa-sha2-nistp256", "rsa-sha2-512", "ssh-rsa")
_SCAN_S: Final = 5
_MOST_BYTES: Final = 1 << 20
_LEAST_WORDS: Final = 3
"""Of a line with a key: hosts, kind and key."""


@dataclass(frozen=True, slots=True)
class HostKey:
    """One host key: its kind, as ssh-ed25519, and its bytes in base64."""

    kind: str
    data: str

    @property
    def fingerprint(self) -> str:
        """Return it as ssh-keygen -l prints it."""
        digest = hashlib.sha256(base64.b64decode(self.data)).digest()
        return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def place(host: str, port: int) -> str:
    """Return a host as known_hosts names it (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT)."""
    return host if port == 22 else f"[{host}]:{port}"


def host_keys(text: str, host: str) -> list[HostKey]:
    """Return the keys of `host` in the text of a known_hosts file; the best kind first."""
    found = []
    for line in text.splitlines():
        parts = line.split()
        if len(parts) >= 3 and host in parts[0].split(",") and parts[1] in _KINDS:
            try:
                base64.b64decode(parts[2], validate=True)
            except binascii.Error:
                continue
            found.append(HostKey(parts[1], parts[2]))
    return sorted(found, key=lambda key: _KINDS.index(key.kind))


def without(text: str, host: str) -> str:
    """Return the text of a known_hosts file without the lines of `host` alone."""
    lines = [line for line in text.splitlines() if line.split()[:1] != [host]]
    return "".join(f"{line}\n" for line in lines)


def logins(server: Server) -> Iterator[tuple[str, SshSettings]]:
    """Yield where the box logs in for a server, each place once."""
    seen = set()
    for settings in (server.sleep, *server.wake):
        if isinstance(settings, SshSettings):
            host = settings.host or server.address
            what = (host, settings.port, settings.known_hosts)
            if what not in seen:
                seen.add(what)
                yield host, settings


def scan(host: str, port: int) -> HostKey:
    """Return the key that the host shows, the best kind it has; WrongError if none."""
    command = ["ssh-keyscan", "-T", str(_SCAN_S), "-p", str(port), "-t", "ed25519,ecdsa,rsa"]
    try:
        done = subprocess.run(
            [*command, "--", host], capture_output=True, check=False, timeout=10 * _SCAN_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        why = str(error)
        raise WrongError("driver.cannot_run", program="ssh-keyscan", why=why) from None
    shown = host_keys(done.stdout.decode(errors="replace"), place(host, port))
    if not shown:
        said = words(done.stderr)
        answer = own_words(said) if said else Reason("ssh.silent")
        raise WrongError("keys.none_shown", host=host, port=port, words=answer)
    return shown[0]


def pin(file: Path, host: str, key: HostKey) -> None:
    """Put the key in the place of those of `host`; other hosts' stay. WrongError, OSError."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    before = _text(file)
    if len(before) >= _MOST_BYTES or not all(map(_is_known_host, before.splitlines())):
        raise WrongError("keys.not_known_hosts", file=str(file))
    write(file, f"{without(before, host)}{host} {key.kind} {key.data}\n")


def _text(file: Path) -> str:
    """Return what is in a known_hosts file, nothing if there is none; OSError."""
    try:
        return peek(file, _MOST_BYTES)[0].decode(errors="replace")
    except FileNotFoundError:
        return ""


def _is_known_host(line: str) -> bool:
    """Is it one of sshd(8)'s: a key, a comment, or nothing? A private key's lines are not."""
    return line.lstrip()[:1] in ("", "#") or len(line.split()) >= _LEAST_WORDS


def add_parser(subparsers: Any) -> None:
    """Declare `naproxy key`."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "key",
        help="make the box's ssh key, pin a server's host key",
        description="Make the box's own ssh key, and pin the host keys of servers.",
    )
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("id", metavar="ID", help="the server")
    add_config_option(common)
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    actions.add_parser(
        "make",
        parents=[common],
        help="make the key if there is none, and say how to use it on the server",
    )
    pinning = actions.add_parser(
        "pin", parents=[common], help="fetch the server's host key and pin it"
    )
    pinning.add_argument(
        "--fingerprint",
        metavar="SHA256:...",
        help="the key's expected fingerprint, instead of asking; on the server's own console:"
        " ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub",
    )
    pinning.add_argument(
        "--replace", action="store_true", help="the server was replaced: accept another key"
    )


def run(args: argparse.Namespace) -> int:
    """Run one of the actions."""
    try:
        for host, settings in _places(args.config, args.id):
            if args.action == "make":
                _make(settings)
            else:
                _pin(args, host, settings)
    except (WrongError, OSError) as error:
        raise CommandError(str(error)) from None
    except ConfigError as error:
        print(f"{args.config}:\n{error}", file=sys.stderr)
        return 2
    return 0


def _server(file: Path, name: str) -> Server:
    servers = {server.id: server for server in config.read(file).server}
    if name not in servers:
        raise WrongError("keys.no_server", name=name, names=list(servers))
    return servers[name]


def _places(file: Path, name: str) -> list[tuple[str, SshSettings]]:
    places = list(logins(_server(file, name)))
    if not places:
        raise WrongError("keys.no_login", name=name)
    return places


def make(settings: SshSettings) -> str:
    """Make the box's key if there is none; return the public one: kind and base64."""
    file = Path(settings.key_file)
    if not _is_there(file):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "naproxy", "-f", str(file)]
        done = subprocess.run(command, capture_output=True, check=False)
        if done.returncode:
            said = words(done.stdout + done.stderr)
            raise WrongError("driver.program", program="ssh-keygen", words=said)
        sync(file)
        sync(file.parent)
    # From the key itself: the file beside it may be another's.
    shown = subprocess.run(
        ["ssh-keygen", "-y", "-P", "", "-f", str(file)], capture_output=True, check=False
    )
    if shown.returncode:
        raise WrongError("keys.unusable", file=str(file), words=words(shown.stderr))
    return " ".join(shown.stdout.decode().split()[:2])


def _is_there(file: Path) -> bool:
    """Is there a file? WrongError for a pipe or a device, which ssh-keygen would wait for."""
    try:
        peek(file, 1)
    except NotAFileError:
        raise WrongError("driver.no_file", file=str(file)) from None
    except FileNotFoundError:
        return False
    return True


def line(settings: SshSettings, public: str) -> str:
    """Return the line for the server's authorized_keys: this key may do one thing."""
    command = settings.opens.replace('"', '\\"')
    return f'restrict,command="{command}" {public} naproxy'


def pinned(settings: SshSettings, host: str) -> list[HostKey]:
    """Return the host keys that are pinned for a host."""
    return host_keys(_text(Path(settings.known_hosts)), place(host, settings.port))


def _make(settings: SshSettings) -> None:
    new = not Path(settings.key_file).exists()
    public = make(settings)
    if new:
        print(f"made {settings.key_file}", file=sys.stderr)
    print(f"Add this line on the server to ~{settings.user}/.ssh/authorized_keys:", file=sys.stderr)
    print(line(settings, public))


def _pin(args: argparse.Namespace, host: str, settings: SshSettings) -> None:
    file, name = Path(settings.known_hosts), place(host, settings.port)
    before = pinned(settings, host)
    shown = scan(host, settings.port)
    if shown in before:
        print(f"{name}: pinned already, {shown.kind} {shown.fingerprint}")
        return
    if before and not args.replace:
        raise WrongError(
            "keys.other_key",
            name=name,
            pinned=f"{before[0].kind} {before[0].fingerprint}",
            shown=f"{shown.kind} {shown.fingerprint}",
        )
    print(f"{name} shows {shown.kind} {shown.fingerprint}")
    if args.fingerprint:
        if not same(args.fingerprint, shown.fingerprint):
            raise WrongError("keys.other_fingerprint")
    elif not sys.stdin.isatty():
        raise WrongError("keys.nobody_asked")
    elif input("Is that what its own console says? Type yes: ").strip() != "yes":
        raise WrongError("keys.not_pinned")
    pin(file, name, shown)
    print(f"pinned in {file}")


def same(given: str, shown: str) -> bool:
    """Whether a text that a person gave has this fingerprint in it."""
    found = re.search(r"SHA256:[A-Za-z0-9+/]{43}", given)
    return bool(found and found[0] == shown)
