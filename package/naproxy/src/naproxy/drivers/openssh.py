"""Commands over OpenSSH, for the drivers that log in somewhere.

The host key is pinned beforehand (`naproxy key pin`): nothing is asked, nothing is learned.
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from naproxy.core import files
from naproxy.core import processes as program
from naproxy.core.processes import Printed
from naproxy.core.reason import Reason, WrongError, own_words
from naproxy.core.schema import fits, fixed, option
from naproxy.drivers.needs import Needs

is_user: Final = fits(r"(?!-)[^ @/:]*", Reason("config.user"))
"""A user's name as it goes onto a command line."""

is_place: Final = fits(r"(?!-)[\w.:%\[\]-]*", Reason("config.host_or_address"))
"""A host name or address for a command line and for known_hosts, where `*`, `?`, `!`, `,`, `|` and
`#` have special meanings. Empty: the server's."""

is_login: Final = fits(r"(?!-)[^\s@/:\"%]*", Reason("config.user"))
"""A user's name that ssh reads as nothing else; it is one argument and meets no shell here."""

is_ssh_path: Final = fits(r"/[^'\"\\%$\x80-\xa0\u2028\u2029]*", Reason("config.ssh_path"))
"""A path as ssh reads it: quotes and backslashes would end it, `%` and `$` stand for other text
(ssh_config(5), TOKENS and ENVIRONMENT VARIABLES)."""


_MOST_BYTES: Final = 8192
_NOISE: Final = re.compile(
    r"setlocale|cannot change locale|^perl: warning:|^\t(LANGUAGE|LC_\w+|LANG) = "
    r"|^ {4}are supported and installed on your system|^locale: Cannot set"
)
_LEAST_ALIVE_S: Final = 3
_LEAST_CONNECT_S: Final = 5


@dataclass(frozen=True, kw_only=True)
class SshSettings:
    """Where to log in, and how."""

    needs: ClassVar[Needs] = Needs(programs={"ssh": "openssh-client"})
    forced: ClassVar[str] = "/usr/local/bin/naproxy-sleep"
    """The one command that the box's key opens there."""

    @property
    def opens(self) -> str:
        """That command, for a login that the office gave another one."""
        return self.forced

    host: str = option("Host name or address; empty: the server's", "", check=is_place)
    port: int = option("Port of the ssh server", 22, low=1, high=65535)
    user: str = option("User to log in as", "naproxy", low=1, high=32, check=is_login)
    key_file: str = option("Private key", "/etc/naproxy/ssh/id_ed25519", check=is_ssh_path)
    known_hosts_file: str = fixed("")
    """Another file than the one beside `key_file`."""

    @property
    def known_hosts(self) -> str:
        """File with the server's pinned host key: beside the box's own key."""
        return self.known_hosts_file or str(Path(self.key_file).with_name("known_hosts"))


@dataclass(frozen=True, slots=True)
class Session:
    """A session's result; `log`: ssh's own messages."""

    ended: program.Ended
    log: str
    lines: tuple[str, ...] = ()
    """The command's output, standard output and standard error together."""

    @property
    def let_in(self) -> bool:
        """Whether the login succeeded."""
        return "Authenticated to" in self.log


def session(done: Printed, log: str) -> Session:
    """Return a session's result from its standard output, or else from its standard error.

    Complaints of shells and libraries about a missing locale are left out.
    """
    lines, complaints = (
        [line for line in each.decode(errors="replace").splitlines() if not _NOISE.search(line)]
        for each in (done.output, done.complaint)
    )
    said = program.words("\n".join(lines)) or program.words("\n".join(complaints))
    return Session(program.Ended(done.code, said), log, (*lines, *complaints))


class Ssh:
    """Runs `ssh` once for each command."""

    def __init__(self, settings: SshSettings, address: str) -> None:
        """Log in to the settings' host, or else `address`."""
        self._settings = settings
        self._host = settings.host or address

    def _look_at_files(self) -> None:
        """Refuse a pipe or a device, which ssh would wait for; WrongError.

        ssh itself says what is wrong with a file that is missing or unreadable.
        """
        for name in (self._settings.key_file, self._settings.known_hosts):
            try:
                files.peek(name, 1)
            except files.NotAFileError:
                raise WrongError("driver.no_file", file=name) from None
            except OSError:
                continue

    def _command(
        self, log: str, timeout_s: float, *command: str, before: tuple[str, ...] = ()
    ) -> list[str]:
        settings = self._settings
        options = {
            "BatchMode": "yes",
            "StrictHostKeyChecking": "yes",
            "UserKnownHostsFile": f'"{settings.known_hosts}"',
            "GlobalKnownHostsFile": "/dev/null",
            "UpdateHostKeys": "no",
            "IdentitiesOnly": "yes",
            "IdentityAgent": "none",
            "PreferredAuthentications": "publickey",
            "ConnectTimeout": str(max(_LEAST_CONNECT_S, int(timeout_s / 3))),
            # A server that fell asleep answers no more. sshd does not answer either while PAM opens
            # the session: on a slow server, starting the user's systemd takes many seconds.
            "ServerAliveInterval": "1",
            "ServerAliveCountMax": str(max(_LEAST_ALIVE_S, int(timeout_s / 2))),
            "ControlPath": "none",
            "ClearAllForwardings": "yes",
            # At a higher level ssh prints the server's banner among what the command prints.
            "LogLevel": "ERROR",
            # Says when it is authenticated: from then on an end of the connection is
            # the server's falling asleep, before that it is a failure.
            "LogVerbose": "*:ssh_userauth2():*,*:channel_input_open_failure():*",
        }
        chosen = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
        return [
            *("ssh", "-F", "none", "-T", "-n", "-E", log),
            *chosen,
            *("-i", settings.key_file, "-p", str(settings.port), "-l", settings.user),
            *(*before, "--", self._host, *command),
        ]

    async def run(self, command: str, timeout_s: float) -> Session:
        """Run a command there; WrongError if ssh cannot be run."""
        return await self._session(timeout_s, command)

    async def fetch(self, command: str, timeout_s: float, most_bytes: int) -> tuple[Printed, str]:
        """Run a command there; return its result and output, and ssh's messages."""
        self._look_at_files()
        with tempfile.NamedTemporaryFile(prefix="naproxy-ssh-") as log:
            argv = self._command(log.name, timeout_s, command)
            return await self._printed(argv, timeout_s, log.name, most_bytes)

    async def look(self, timeout_s: float) -> Session:
        """Log in and run nothing, not even a forced command; WrongError as above.

        A tunnel is asked for instead, which a key that is restricted does not get.
        """
        return await self._session(timeout_s, before=("-W", "localhost:1"))

    async def _session(
        self, timeout_s: float, *command: str, before: tuple[str, ...] = ()
    ) -> Session:
        self._look_at_files()
        with tempfile.NamedTemporaryFile(prefix="naproxy-ssh-") as log:
            argv = self._command(log.name, timeout_s, *command, before=before)
            return session(*await self._printed(argv, timeout_s, log.name, _MOST_BYTES))

    async def _printed(
        self, argv: list[str], timeout_s: float, log: str, most_bytes: int
    ) -> tuple[Printed, str]:
        try:
            done = await program.printed(argv, timeout_s, {}, most_bytes)
        except OSError as error:
            raise WrongError("driver.cannot_run", program=argv[0], why=error.strerror) from None
        return done, Path(log).read_text(errors="replace")

    def failure(self, log: str) -> Reason:
        """Say why nobody was let in."""
        settings = self._settings
        if "IDENTIFICATION HAS CHANGED" in log:
            return Reason("ssh.other_key", file=settings.known_hosts)
        if "host key is known" in log or "Host key verification failed" in log:
            return Reason("ssh.no_pin", file=settings.known_hosts)
        if "Permission denied" in log:
            return Reason("ssh.not_let_in", name=settings.user, key_file=settings.key_file)
        last = program.words(log.strip().rpartition("\n")[2])
        return Reason("ssh.not_reached", words=own_words(last) if last else Reason("ssh.silent"))
