"""Putting a server to sleep by a command over OpenSSH.

The server decides: a forced command in authorized_keys says no by its exit status and in
its own words.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

from naproxy.core import office_time
from naproxy.core.findings import NotSeen, NotUsed, Problem, let_in
from naproxy.core.hours import zone
from naproxy.core.processes import words
from naproxy.core.reason import Reason, WrongError, own_words, stored_reason, together
from naproxy.core.schema import option
from naproxy.drivers import Target, busy, checks, openssh, secret
from naproxy.drivers.busy import known
from naproxy.drivers.openssh import Session, Ssh, SshSettings
from naproxy.drivers.sleep import (
    THE_SERVER,
    Past,
    SleepDriver,
    SleepResult,
    SleepSettings,
    by_exit_status,
    unreadable,
)
from naproxy.server import jobs, services
from naproxy.server.jobs import Job
from naproxy.server.machine_io import Answer

_UNREACHED: Final = ("timed out", "No route to host")
"""ssh's messages if no host answers."""
_CONNECTION_ENDED: Final = 255
_REFUSED: Final = 1
_SCRIPT: Final = "naproxy-sleep"
_CHECK: Final = "check"
_WOULD_SLEEP: Final = "naproxy-would-sleep"
"""The script's output after a successful dry run."""
_REFUSES, _END = "naproxy-refuses", "naproxy-end"
"""Around the agent's reasons."""
_WEB_PORTS: Final = (80, 443)
_PAST: Final = "server.around_now"
_LAST_PORT: Final = 65535
_LISTENS: Final = "listens"
_AROUND: Final = re.compile(r"around ([1-9][0-9]{0,4}) ([1-9][0-9]{0,6})", re.ASCII)
"""The script's line on connections that bypass the box: port, number."""


@dataclass(frozen=True, kw_only=True)
class Settings(SshSettings, SleepSettings):
    """Where to log in, and what to say there."""

    looks: ClassVar[bool] = True

    driver: str = option("ssh: a command by OpenSSH", "ssh")
    command: str = option(
        "Command; a forced command on the server overrides it", _SCRIPT, check=secret.is_line
    )

    @property
    def is_ours(self) -> bool:
        """Whether the agent decides there."""
        return self.command.rpartition("/")[2] == _SCRIPT

    @property
    def opens(self) -> str:
        """The one command that the box's key opens there."""
        return self.forced if self.is_ours else self.command

    @property
    def login(self) -> str:
        """Whom it logs in as on the server."""
        return self.user

    @property
    def door(self) -> tuple[int, str]:
        """The server's port for ssh."""
        return self.port, "tcp"


class Driver(SleepDriver[Settings]):
    """Logs in once for each try."""

    def __init__(self, settings: Settings, target: Target) -> None:
        """Log in to the settings' host, or else the target's address."""
        super().__init__(settings, target)
        self._ssh = Ssh(settings, target.address)

    async def asked(self) -> list[Job] | SleepResult | None:
        """Ask the script that naproxy.setup writes: an older one takes the question for the order.

        Another command is not asked.
        """
        if not self._settings.is_ours:
            self.listening = None
            return None
        try:
            said, log = await self._ssh.fetch(
                self._command("appointments"), self._settings.timeout_s, jobs.MOST_BYTES + 1
            )
        except WrongError as error:
            return SleepResult(Answer.FAILED, error.reason)
        text = said.output.decode(errors="replace")
        # The server's login messages come before it.
        text = text[max(0, f"\n{text}".find(f"\n{jobs.FIRST_LINE}\n")) :]
        if not text.startswith(jobs.FIRST_LINE):
            return self._answer(openssh.session(said, log))
        text, listens = _apart(text)
        try:
            self.listening = None if listens is None else services.parse(listens)
            return await asyncio.to_thread(jobs.parse, text, office_time.where(), zone)
        except (jobs.UnreadableError, services.UnreadableError) as error:
            return unreadable(str(error))

    async def ports(self) -> services.Listening | None:
        """Ask a script that told of them before: an older one would put the server to sleep."""
        if self.listening is not None:
            await self.asked()
        return self.listening

    async def order(self) -> SleepResult:
        """Give the command and return the server's answer."""
        alarm = ("alarm", str(self._alarm_s)) if self._alarm_s else ()
        session = await self._ssh.run(self._command(*alarm), self._settings.timeout_s)
        return self._answer(session)

    def _command(self, *words: str) -> str:
        """Return what is run there: the agent is told at which ports to look, too.

        A script from an earlier version reads what comes after `watch`, or the last words only.
        """
        if not self._settings.is_ours:
            return " ".join([self._settings.command, *words])
        office, listeners = self._target.office, self.listening.listeners if self.listening else ()
        ignored = office.ignored(listeners)
        ignore = ("ignore", *ignored) if ignored else ()
        watch = ("watch", *office.watched(listeners))
        return " ".join([self._settings.command, *ignore, *watch, *words])

    def _answer(self, session: Session) -> SleepResult:
        code, said = session.ended.code, _told(session)
        if code == _REFUSED and (reasons := _reasons(session)):
            found = _judged(reasons, self._target.port)
            came = (each.params for each in found if each.code == _PAST)
            seen = next((Past(each["port"], each["number"]) for each in came), None)
            refused = Reason("sleep.refused", who=THE_SERVER, words=together(*found))
            return SleepResult(Answer.REFUSED, refused, seen)
        if code == _REFUSED and (past := _around(said)):
            why = Reason(_PAST, port=past.port, number=past.number)
            refused = Reason("sleep.refused", who=THE_SERVER, words=why)
            return SleepResult(Answer.REFUSED, refused, past)
        if code == _REFUSED and said:
            why = busy.printed(said, self._settings.user, session.lines)
            return SleepResult(Answer.REFUSED, Reason("sleep.refused", who=THE_SERVER, words=why))
        if code is not None and 0 <= code < _CONNECTION_ENDED:
            return by_exit_status(session.ended, THE_SERVER)
        if session.let_in:
            return SleepResult(Answer.ACCEPTED, Reason("sleep.connection_ended"))
        return SleepResult(Answer.FAILED, self._ssh.failure(session.log))


def _reasons(session: Session) -> list[str]:
    """Return the agent's reasons; none: an earlier script, or another command."""
    lines = [words(line) for line in session.lines]
    if _REFUSES not in lines or _END not in lines:
        return []
    return [line for line in lines[lines.index(_REFUSES) + 1 : lines.index(_END)] if line]


def _judged(lines: list[str], port: int) -> list[Reason]:
    """Return the agent's reasons; connections to the web server bypassed the box."""
    found = []
    for each in map(busy.reason, lines):
        if each.code == "sleep.busy_port" and each.params["port"] in (*_WEB_PORTS, port):
            params = {name: each.params[name] for name in ("port", "number")}
            found.append(Reason(_PAST, **params))
        else:
            found.append(each)
    return found


def _apart(text: str) -> tuple[str, str | None]:
    """Return what the script tells without its line of ports, and that; None: it has none."""
    lines = text.split("\n")
    listens = [line for line in lines if line.partition(" ")[0] == _LISTENS]
    rest = [line for line in lines if line.partition(" ")[0] != _LISTENS]
    return "\n".join(rest), " ".join(line[len(_LISTENS) :] for line in listens) if listens else None


def _told(session: Session) -> str:
    """Return why it refuses, without what the server prints at each login, if that is clear."""
    lines = [line for line in map(words, session.lines) if _AROUND.fullmatch(line) or known(line)]
    return lines[0] if len(lines) == 1 else session.ended.said


def _around(said: str) -> Past | None:
    """Return the connections that bypass the box, if the script names no other reason."""
    if not (match := _AROUND.fullmatch(said)):
        return None
    past = Past(*map(int, match.groups()))
    return past if past.port <= _LAST_PORT else None


# For the doctor


@dataclass(frozen=True, kw_only=True)
class Login:
    """The result of a login without a command."""

    key_problem: Reason | None = None
    session: Session | None = None
    problem: Reason | None = None
    """Why nobody was let in."""

    @property
    def there(self) -> Reason | None:
        """The evidence that the server is running now."""
        let_in = self.session is not None and self.session.let_in
        return Reason("doctor.lets_in") if let_in else None


async def see(settings: Settings, target: Target) -> Login:
    """Log in, and run nothing."""
    key_problem, ssh = _key_problem(settings.key_file), Ssh(settings, target.address)
    try:
        session = await ssh.look(settings.timeout_s)
    except WrongError as error:
        return Login(key_problem=key_problem, problem=error.reason)
    failure = None if session.let_in else ssh.failure(session.log)
    return Login(key_problem=key_problem, session=session, problem=failure)


async def attempt(settings: Settings, target: Target) -> Session | Reason | None:
    """Ask our script for a dry run, by the way of the order; a reason if ssh cannot be run.

    Only a script that is known to tell its appointments may be asked: older ones put the server to
    sleep, and so does another command.
    """
    if not settings.is_ours:
        return None
    command = f"{settings.command} {_CHECK} appointments"
    try:
        return await Ssh(settings, target.address).run(command, settings.timeout_s)
    except WrongError as error:
        return error.reason


def _key_problem(file: str) -> Reason | None:
    try:
        mode = Path(file).stat().st_mode
    except OSError as error:
        return Reason("doctor.key_unreadable", file=file, said=own_words(str(error.strerror)))
    return Reason("doctor.key_not_private", file=file) if mode & 0o077 else None


def ssh_key(seen: checks.FromBox) -> Problem | None:
    """Look whether the box has a key for ssh that nobody else can read."""
    if seen.way.key_problem:
        made = Reason("doctor.do_make_key", server=seen.server.id, file=seen.server.sleep.key_file)
        return Problem(seen.way.key_problem, made)
    return None


def ssh_login(seen: checks.FromBox) -> Problem | None:
    """Look whether the server lets the box in, and is the one whose key is pinned."""
    if seen.way.session is None or not seen.way.session.let_in:
        return Problem(seen.way.problem or Reason("doctor.ssh_not_run"), _to_log_in(seen))
    return None


def _to_log_in(seen: checks.FromBox) -> Reason:
    sleep, said = seen.server.sleep, seen.way.session.log.strip() if seen.way.session else None
    if said is not None and "Connection refused" in said:
        return Reason("doctor.do_start_ssh")
    if said is not None and (not said or any(each in said for each in _UNREACHED)):
        return Reason("doctor.do_on_and_let_in", let_in=let_in(sleep.door))
    return Reason("doctor.do_let_key_in", server=seen.server.id, user=sleep.user)


def ssh_restricted(seen: checks.FromBox) -> Problem | None:
    """Look whether the box's key opens nothing but the one command."""
    if seen.way.session is None or not seen.way.session.let_in:
        raise NotSeen("doctor.not_let_in")
    if "administratively prohibited" not in seen.way.session.log + seen.way.session.ended.said:
        return Problem(Reason("doctor.key_opens_tunnels"), Reason("doctor.do_restrict"))
    return None


def ssh_dry_run(seen: checks.FromBox) -> Problem | None:
    """Look whether the server would take the order, by a dry run of it."""
    tried = seen.tried
    if tried is None:
        raise NotUsed("doctor.not_tried")
    allow = Reason("doctor.do_allow_sleep")
    if isinstance(tried, Reason):
        return Problem(tried, allow)
    if tried.ended.code == 0 and _WOULD_SLEEP in tried.lines:
        return None
    if jobs.FIRST_LINE in tried.lines:
        raise NotUsed("doctor.not_tried")  # an older script, which tells its appointments
    said = _told(tried)
    if reasons := _reasons(tried):
        why = together(*_judged(reasons, seen.server.web_port))
    elif past := _around(said):
        why = Reason(_PAST, port=past.port, number=past.number)
    elif said:
        why = busy.printed(said, seen.server.sleep.user, tried.lines)
    else:
        why = tried.ended.why
    refused = Reason("sleep.refused", who=THE_SERVER, words=why)
    busy_now = tried.ended.code == _REFUSED and "sleep.busy_cannot" not in refused.codes()
    return Problem(refused, Reason("doctor.do_wait") if busy_now else allow, note=busy_now)


def ssh_counts_box(seen: checks.FromBox) -> Problem | None:
    """Look whether the server last refused to sleep because the box itself was logged in."""
    if seen.known is None:
        raise NotSeen("doctor.no_controller")
    status = seen.known.status
    told = map(stored_reason, (status["reason"], *status["inhibitors"]))
    if any("sleep.counts_box" in each.codes() for each in told):
        return Problem(Reason("doctor.counted_box"), Reason("doctor.do_new_command"))
    return None


def forced_command(seen: checks.OnServer) -> Problem | None:
    """Look whether each key of the login for the box runs the one command only."""
    user = seen.server.sleep.user
    if not seen.facts.get("login"):
        return Problem(Reason("doctor.no_user", name=user), Reason("doctor.do_make_user"))
    if seen.facts["login"].endswith(("nologin", "false")):
        return Problem(
            Reason("doctor.no_shell", name=user, shell=seen.facts["login"]),
            Reason("doctor.do_set_shell", name=user),
        )
    if seen.facts.get("root") != "yes":
        raise NotSeen("doctor.keys_need_root")
    keys, forced = (seen.facts.get(name, "") for name in ("keys", "forced"))
    if keys in ("", "0"):
        return Problem(Reason("doctor.no_keys", name=user), Reason("doctor.do_put_key"))
    if keys != forced:
        return Problem(Reason("doctor.key_not_forced"), Reason("doctor.do_restrict"))
    if seen.facts.get("command") != "runs":
        return Problem(Reason("doctor.no_command"), Reason("doctor.do_put_command"))
    return None


def command_sees_visitors(seen: checks.OnServer) -> Problem | None:
    """Look whether that command looks who is connected past the box."""
    return _command_has(seen, "command_looks", Reason("doctor.command_old"))


def command_tells(seen: checks.OnServer) -> Problem | None:
    """Look whether that command tells of timers and crontabs."""
    return _command_has(seen, "command_tells", Reason("doctor.command_tells_nothing"))


def command_counts_box(seen: checks.OnServer) -> Problem | None:
    """Look whether that command would count the box's own login as a person's."""
    if seen.facts.get("root") != "yes":
        raise NotSeen("doctor.keys_need_root")
    if seen.facts.get("command") != "runs":
        raise NotSeen("doctor.no_command")
    if seen.facts.get("command_counts") == "yes":
        return Problem(Reason("doctor.counts_box"), Reason("doctor.do_new_command"))
    return None


def _command_has(seen: checks.OnServer, fact: str, without: Reason) -> Problem | None:
    if seen.facts.get("root") != "yes":
        raise NotSeen("doctor.keys_need_root")
    if seen.facts.get("command") != "runs":
        raise NotSeen("doctor.no_command")
    if seen.facts.get(fact) != "yes":
        return Problem(without, Reason("doctor.do_new_command"), note=True)
    return None


CHECKS: Final[Mapping[str, tuple[Callable[[Any], Problem | None], ...]]] = {
    "box": (ssh_key, ssh_login, ssh_restricted, ssh_counts_box, ssh_dry_run),
    "server": (forced_command, command_counts_box, command_sees_visitors, command_tells),
}
