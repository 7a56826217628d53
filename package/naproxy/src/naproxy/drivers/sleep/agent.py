"""Putting a server to sleep by asking the agent on it, in signed datagrams (docs/agent.md).

The agent says yes, or why not; after a yes it puts the server to sleep itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from naproxy.core.findings import NotSeen, Problem, let_in
from naproxy.core.reason import Reason, WrongError, own_words, together
from naproxy.core.schema import Held, is_absolute, option
from naproxy.drivers import Target, agent_protocol, busy, checks, secret
from naproxy.drivers.agent_protocol import (
    Conversation,
    NoAnswerError,
    Outcome,
    ProtocolError,
    Question,
    Said_co,
    count_question,
    jobs_question,
    listen_question,
)
from naproxy.drivers.openssh import is_place
from naproxy.drivers.sleep import (
    ACCEPTED,
    THE_SERVER,
    Counted,
    SleepDriver,
    SleepResult,
    SleepSettings,
    unreadable,
)
from naproxy.server.jobs import Job
from naproxy.server.machine_io import Answer
from naproxy.server.services import Listening, UnreadableError, parse
from naproxy.server.sight import HTTPS_PORT

_LOOK_S: Final = 3.0
ANSWER_S: Final = 10.0
"""An agent that runs answers at once; packets may be lost."""
_HTTP_PORT: Final = 80
_LISTENS_AGAIN_S: Final = 600.0
STATES: Final = {"ram": "mem", "disk": "disk", "off": "off"}
"""The agent's names for the states of `sleep.state`."""


def _is_key(text: str) -> Reason | None:
    try:
        agent_protocol.parse_key(text)
    except ProtocolError:
        return Reason("config.agent_key")
    return secret.is_line(text)


KEY: Final = Held("key", _is_key, sent=False)


@dataclass(frozen=True, kw_only=True)
class Settings(SleepSettings):
    """Where the agent is, and the key that it shares with the box."""

    looks: ClassVar[bool] = True

    driver: str = option("agent: ask the agent on the server", "agent")
    host: str = option("Host name or address; empty: the server's", "", check=is_place)
    port: int = option("UDP port of the agent", agent_protocol.PORT, low=1, high=65535)
    key_file: str = option(
        "File with the key that naproxy-agent/install printed, 64 hex digits",
        "/etc/naproxy/agent.key",
        check=is_absolute,
        holds=KEY,
    )

    @property
    def door(self) -> tuple[int, str]:
        """The agent's port."""
        return self.port, "udp"


class Driver(SleepDriver[Settings]):
    """Carries on one conversation for each try."""

    def __init__(self, settings: Settings, target: Target) -> None:
        """Ask for the target's id at the settings' host, or else its address."""
        super().__init__(settings, target)
        self._host = settings.host or target.address
        self._tells = False
        self._listens_again_s = 0.0

    async def asked(self) -> list[Job] | SleepResult | None:
        """Ask; an agent that never told may be an old one, which does not answer this."""
        settings = self._settings
        known, self.listening = self.listening, None
        try:
            question = jobs_question(_key(settings), self._target.id, nonce=_nonce())
            said = await _converse(question, self._host, settings.port, _LOOK_S)
        except WrongError as error:
            return SleepResult(Answer.FAILED, error.reason)
        except NoAnswerError as error:
            return _without_answer(error) if self._tells else None
        except OSError:
            return None  # the order says it
        self._tells, self.listening = True, known
        if said.why:
            return unreadable("; ".join(said.why))
        try:
            await self._listen()
        except UnreadableError as error:
            return unreadable(str(error))
        return [Job(name, float(in_s), often) for in_s, often, name in said.jobs]

    async def ports(self) -> Listening | None:
        """Ask for them, and tell the agent at which to look from now on."""
        with contextlib.suppress(UnreadableError):  # the next order says why
            await self._listen()
        return self.listening

    async def _listen(self) -> None:
        """Ask for the ports; UnreadableError.

        An agent that does not answer this is an older version; it is asked again after a while.
        """
        if self.listening is None and time.monotonic() < self._listens_again_s:
            return
        before, self.listening = self.listening, None
        found = await self._asked_ports(before)
        if found and self._look_at(found) != self._look_at(before):
            found = await self._asked_ports(found)
        self.listening = found
        self._listens_again_s = time.monotonic() + _LISTENS_AGAIN_S

    async def _asked_ports(self, known: Listening | None) -> Listening | None:
        """Ask, and tell at which ports to look of those that are known; None: no answer to that."""
        settings, look_at = self._settings, self._look_at(known)
        try:
            question = listen_question(_key(settings), self._target.id, *look_at, nonce=_nonce())
            said = await _converse(question, self._host, settings.port, _LOOK_S)
        except (WrongError, NoAnswerError, OSError, ProtocolError):
            return None
        if said.why:
            raise UnreadableError("; ".join(said.why))
        return parse(" ".join(said.words))

    def _look_at(self, known: Listening | None) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the ports of UDP that count, and those of TCP that do not."""
        office, listeners = self._target.office, known.listeners if known else ()
        watched, ignored = office.watched(listeners), office.ignored(listeners)
        return _numbers(watched, "udp"), _numbers(ignored, "tcp")

    async def order(self) -> SleepResult:
        """Ask, give the order if the answer is yes, and return the agent's answer."""
        settings = self._settings
        try:
            # Only who told of its appointments knows of the alarm.
            alarm_s = (self._alarm_s or 0) if self._tells else 0
            question = _question(settings, self._target.id, order=True, alarm_s=alarm_s)
            said = await _converse(question, self._host, settings.port, ANSWER_S)
        except NoAnswerError as error:
            return _without_answer(error)
        except OSError as error:
            why = error.strerror or str(error)
            raise WrongError("sleep.agent_not_reached", host=self._host, why=why) from None
        return self._judge(said)

    async def counted(self) -> Counted | None:
        """Ask for the visits to the ports of the web."""
        said = await _ask_count(self._settings, self._target)
        return Counted(said.run, said.visits, said.here) if said else None

    def _judge(self, said: Outcome) -> SleepResult:
        words = together(*map(busy.reason, said.why)) if said.why else None
        clock = [_clock(said.clock_ahead_s)] if said.clock_differs else []
        if said.accepted:
            return SleepResult(Answer.ACCEPTED, together(words or ACCEPTED, *clock))
        words = words or Reason("sleep.no_words")
        refused = Reason("sleep.refused", who=THE_SERVER, words=words)
        return SleepResult(Answer.REFUSED, together(refused, *clock))


def _question(settings: Settings, server: str, *, order: bool, alarm_s: int = 0) -> Question:
    """Return a conversation that has not begun; WrongError if there is no key for it."""
    state = STATES[settings.state]
    return Question(_key(settings), server, state, order=order, nonce=_nonce, alarm_s=alarm_s)


async def _ask_count(settings: Settings, target: Target) -> agent_protocol.Counted | None:
    """Ask for the visits to the ports of the web; None if there is no answer to that."""
    ports = tuple(sorted({_HTTP_PORT, HTTPS_PORT, target.port}))
    try:
        question = count_question(_key(settings), target.id, ports, nonce=_nonce())
        host = settings.host or target.address
        return await _converse(question, host, settings.port, _LOOK_S)
    except (WrongError, NoAnswerError, OSError):
        return None


def _numbers(keys: Iterable[str], protocol: str) -> tuple[int, ...]:
    """Return the ports of a protocol among those as `445/tcp`."""
    pairs = (key.split("/") for key in keys)
    return tuple(int(port) for port, of in pairs if of == protocol)


def _key(settings: Settings) -> bytes:
    text = secret.read(settings.key_file, Reason("sleep.agent_key"))
    try:
        return agent_protocol.parse_key(text)
    except ProtocolError:
        raise WrongError("sleep.no_agent_key", file=settings.key_file) from None


def _nonce() -> str:
    return secrets.token_hex(16)


async def _converse(
    question: Conversation[Said_co], host: str, port: int, timeout_s: float
) -> Said_co:
    """Send and take datagrams until there is an outcome; NoAnswerError, OSError.

    They wait in a thread. One that is called off sends no more: its socket is closed.
    """
    places = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    family, kind, _, _, place = places[0]
    with socket.socket(family, kind) as sock:
        # Connected: datagrams from elsewhere do not come in.
        sock.connect(place)

        def receive(wait_s: float) -> bytes | None:
            sock.settimeout(wait_s)
            try:
                return sock.recv(agent_protocol.MAX_BYTES + 1)
            except TimeoutError:
                return None
            except ConnectionRefusedError:
                # Of an earlier datagram: after an order it may be the sleep that closed the port.
                if not question.ordered:
                    raise
                time.sleep(wait_s)
                return None

        return await asyncio.to_thread(
            agent_protocol.converse,
            question,
            send=sock.send,
            receive=receive,
            now_s=time.time,
            monotonic_s=time.monotonic,
            timeout_s=timeout_s,
        )


def _without_answer(error: NoAnswerError) -> SleepResult:
    if error.forged:
        return SleepResult(Answer.FAILED, Reason("sleep.agent_forged"))
    if error.ordered:
        return SleepResult(Answer.ACCEPTED, Reason("sleep.agent_left"))
    return SleepResult(Answer.FAILED, Reason("sleep.agent_silent"))


def _clock(ahead_s: int) -> Reason:
    if ahead_s > 0:
        return Reason("sleep.clock_ahead", ahead_s=ahead_s)
    return Reason("sleep.clock_behind", behind_s=-ahead_s)


# For the doctor


@dataclass(frozen=True, kw_only=True)
class Heard:
    """The agent's answer, or the reason why there is none."""

    answer: Outcome | None = None
    problem: Reason | None = None
    counts: bool = True
    """It answers who came past the box, too."""

    @property
    def there(self) -> Reason | None:
        """The evidence that the server is running now."""
        return Reason("doctor.agent_answers") if self.answer else None


async def see(settings: Settings, target: Target) -> Heard:
    """Ask, and give no order."""
    host = settings.host or target.address
    try:
        question = _question(settings, target.id, order=False)
        answer = await _converse(question, host, settings.port, _LOOK_S)
        return Heard(answer=answer, counts=await _ask_count(settings, target) is not None)
    except WrongError as error:
        problem = error.reason
    except NoAnswerError as error:
        problem = _without_answer(error).reason
    except OSError as error:
        said = own_words(error.strerror or str(error))
        problem = Reason("doctor.agent_not_reached", said=said)
    return Heard(problem=problem)


def agent(seen: checks.FromBox) -> Problem | None:
    """Look whether the agent answers, with the same key."""
    if seen.way.answer is None:
        return Problem(
            seen.way.problem or Reason("doctor.agent_silent"),
            Reason("doctor.do_see_agent", let_in=let_in(seen.server.sleep.door)),
        )
    return None


def _agents_answer(seen: checks.FromBox) -> Outcome:
    if seen.way.answer is None:
        raise NotSeen("doctor.agent_silent")
    answer: Outcome = seen.way.answer
    return answer


def agent_state(seen: checks.FromBox) -> Problem | None:
    """Look whether the agent offers the state that is configured."""
    answer = _agents_answer(seen)
    state = STATES[seen.server.sleep.state]
    if state in answer.states:
        return None
    what = Reason("doctor.agent_offers", states=list(answer.states), state=state)
    if not answer.states:
        what = Reason("doctor.agent_offers_nothing", state=state)
    return Problem(what, Reason("doctor.do_give_command", state=state))


def agent_clock(seen: checks.FromBox) -> Problem | None:
    """Look whether the clocks of box and server agree."""
    answer = _agents_answer(seen)
    if not answer.clock_differs:
        return None
    ahead_s = answer.clock_ahead_s
    code = "doctor.clock_ahead" if ahead_s > 0 else "doctor.clock_behind"
    return Problem(Reason(code, by_s=abs(ahead_s)), Reason("doctor.do_set_clocks"), note=True)


def agent_consent(seen: checks.FromBox) -> Problem | None:
    """Look whether the server would sleep now."""
    answer = _agents_answer(seen)
    if answer.why:
        why = together(*map(busy.reason, answer.why))
        if "sleep.busy_cannot" in why.codes():
            return Problem(why, Reason("doctor.do_allow_sleep"))
        return Problem(why, Reason("doctor.do_change_agent"), note=True)
    return None


def agent_counts(seen: checks.FromBox) -> Problem | None:
    """Look whether the agent is new enough to count visits past the box."""
    _agents_answer(seen)
    if seen.way.counts:
        return None
    return Problem(Reason("doctor.agent_old"), Reason("doctor.do_update_agent"), note=True)


def agent_sees_visitors(seen: checks.OnServer) -> Problem | None:
    """Look whether its configuration leaves out who is connected past the box."""
    ignored = seen.fact("ignored_ports", "doctor.no_agent_config").split()
    web = ("all", "80", "443", str(seen.server.web_port))
    if found := [each for each in ignored if each in web]:
        what = Reason("doctor.agent_ignores", ports=" ".join(found))
        return Problem(what, Reason("doctor.do_count_connections"), note=True)
    return None


def agent_unit(seen: checks.OnServer) -> Problem | None:
    """Look whether the agent runs."""
    state = seen.facts.get("agent_unit", "")
    if state == "active":
        return None
    what = Reason("doctor.unit_is", state=state) if state else Reason("doctor.no_unit")
    return Problem(what, Reason("doctor.do_install_agent"))


CHECKS: Final[Mapping[str, tuple[Callable[[Any], Problem | None], ...]]] = {
    "box": (agent, agent_state, agent_clock, agent_consent, agent_counts),
    "server": (agent_unit, agent_sees_visitors),
}
