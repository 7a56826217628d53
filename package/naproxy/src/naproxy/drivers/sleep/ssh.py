"""Putting a server to sleep by a command over OpenSSH.

The server decides: a forced command in authorized_keys says no by its exit status and in
its own words. The host key is pinned beforehand: nothing is asked and nothing is learned.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from naproxy.drivers import Target
from naproxy.drivers.sleep import SleepResult, SleepSettings
from naproxy.machine import Answer
from naproxy.schema import is_absolute, option

_CONNECTION_ENDED: Final = 255
_CANNOT_RUN: Final = (126, 127)
_MOST_WORDS: Final = 300


def _is_user(text: str) -> str | None:
    ok = not text.startswith("-") and not set(text) & set(" @/:")
    return None if ok else "must be a user's name"


def _is_place(text: str) -> str | None:
    ok = not text.startswith("-") and not set(text) & set(" @/")
    return None if ok else "must be a host name or an address"


@dataclass(frozen=True, kw_only=True)
class Settings(SleepSettings):
    """Where to log in, and how."""

    driver: str = option("ssh: a command by OpenSSH", "ssh")
    host: str = option("Host name or address; empty: the server's", "", check=_is_place)
    port: int = option("Port of the ssh server", 22, low=1, high=65535)
    user: str = option("User to log in as", "naproxy", low=1, high=32, check=_is_user)
    key_file: str = option("Private key", "/etc/naproxy/ssh/id_ed25519", check=is_absolute)
    known_hosts_file: str = option(
        "The server's pinned host key, in the form of known_hosts",
        "/etc/naproxy/ssh/known_hosts",
        check=is_absolute,
    )
    command: str = option("Command; a forced command on the server overrides it", "naproxy-sleep")
    connect_timeout_s: int = option("Longest wait for a connection", 5, low=1, high=60)


class Driver:
    """Runs `ssh` once for each try."""

    def __init__(self, settings: Settings, target: Target) -> None:
        """Log in to the settings' host, or else the target's address."""
        self._settings = settings
        self._host = settings.host or target.address

    def _command(self, log: str) -> list[str]:
        settings = self._settings
        options = {
            "BatchMode": "yes",
            "StrictHostKeyChecking": "yes",
            "UserKnownHostsFile": f'"{settings.known_hosts_file}"',
            "GlobalKnownHostsFile": "/dev/null",
            "UpdateHostKeys": "no",
            "IdentitiesOnly": "yes",
            "IdentityAgent": "none",
            "PreferredAuthentications": "publickey",
            "ConnectTimeout": str(settings.connect_timeout_s),
            "ServerAliveInterval": "1",
            "ServerAliveCountMax": "3",
            "ControlPath": "none",
            "ClearAllForwardings": "yes",
            # Says when it is authenticated: from then on an end of the connection is
            # the server's falling asleep, before that it is a failure.
            "LogLevel": "VERBOSE",
        }
        chosen = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
        return [
            *("ssh", "-F", "none", "-T", "-n", "-E", log),
            *chosen,
            *("-i", settings.key_file, "-p", str(settings.port), "-l", settings.user),
            *("--", self._host, settings.command),
        ]

    async def sleep(self) -> SleepResult:
        """Give the command and return the server's answer."""
        with tempfile.NamedTemporaryFile(prefix="naproxy-ssh-") as log:
            try:
                process = await asyncio.create_subprocess_exec(
                    *self._command(log.name),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.STDOUT,
                )
            except OSError as error:
                return SleepResult(Answer.FAILED, f"ssh cannot be run: {error.strerror}")
            try:
                async with asyncio.timeout(self._settings.timeout_s):
                    said, _ = await process.communicate()
            except TimeoutError:
                said = b""
            finally:
                if process.returncode is None:
                    with contextlib.suppress(ProcessLookupError):
                        process.kill()
                    await process.wait()
            assert process.returncode is not None
            return self._judge(
                process.returncode, _words(said), Path(log.name).read_text(errors="replace")
            )

    def _judge(self, code: int, said: str, log: str) -> SleepResult:
        """Tell the answers apart; `log` is what ssh itself says."""
        if code == 0:
            return SleepResult(Answer.ACCEPTED, said or "accepted")
        if code in _CANNOT_RUN:
            return SleepResult(Answer.FAILED, f"the server cannot run the command: {said}")
        if 0 < code < _CONNECTION_ENDED:
            words = said or f"exit status {code}, without a word"
            return SleepResult(Answer.REFUSED, f"the server refuses to sleep: {words}")
        if "Authenticated to" in log:
            return SleepResult(Answer.ACCEPTED, "the connection ended after the command")
        return SleepResult(Answer.FAILED, self._failure(log))

    def _failure(self, log: str) -> str:
        settings = self._settings
        if "IDENTIFICATION HAS CHANGED" in log:
            return (
                f"the server's host key is not the one pinned in {settings.known_hosts_file}: "
                "was the server replaced?"
            )
        if "host key is known" in log or "Host key verification failed" in log:
            return f"no host key of the server is pinned in {settings.known_hosts_file}"
        if "Permission denied" in log:
            return f"the server does not let {settings.user} in with {settings.key_file}"
        last = log.strip().rpartition("\n")[2]
        return f"not reached by ssh: {_words(last.encode()) or 'no answer in time'}"


def _words(said: bytes) -> str:
    """Return what a program said as one line that is safe to show."""
    text = said.decode(errors="replace")
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= _MOST_WORDS else line[: _MOST_WORDS - 3] + "..."
