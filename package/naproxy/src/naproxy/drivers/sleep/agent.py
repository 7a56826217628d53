"""Putting a server to sleep by asking the agent on it, in signed datagrams (docs/agent.md).

The agent says yes, or why not; after a yes it puts the server to sleep itself.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from naproxy.core.findings import NotSeen, Problem, let_in
from naproxy.core.reason import Reason, own_words, together
from naproxy.core.schema import is_absolute, option
from naproxy.drivers import Target, agent_protocol, secret
from naproxy.drivers.agent_protocol import NoAnswerError, Outcome, ProtocolError, Question
from naproxy.drivers.openssh import is_place
from naproxy.drivers.sleep import ACCEPTED, THE_SERVER, SleepResult, SleepSettings
from naproxy.server.machine_io import Answer

if TYPE_CHECKING:
    from naproxy.doctor import readings, server

_RESEND_S: Final = 1.0
_LOOK_S: Final = 3.0
STATES: Final = {"ram": "mem", "disk": "disk", "off": "off"}
"""What the agent calls the states of `sleep.state`."""


@dataclass(frozen=True, kw_only=True)
class Settings(SleepSettings):
    """Where the agent is, and the key that it shares with the box."""

    driver: str = option("agent: ask the agent on the server", "agent")
    host: str = option("Host name or address; empty: the server's", "", check=is_place)
    port: int = option("UDP port of the agent", agent_protocol.PORT, low=1, high=65535)
    key_file: str = option(
        "File with the key that naproxy-agent/install printed, 64 hex digits",
        "/etc/naproxy/agent.key",
        check=is_absolute,
    )
    answer_s: float = option("How long to wait for the agent's answer", 10.0, low=1, high=60)

    @property
    def door(self) -> tuple[int, str]:
        """The agent's port."""
        return self.port, "udp"


class Driver:
    """Carries on one conversation for each try."""

    def __init__(self, settings: Settings, target: Target) -> None:
        """Ask for the target's id at the settings' host, or else its address."""
        self._settings = settings
        self._server = target.id
        self._host = settings.host or target.address

    async def sleep(self) -> SleepResult:
        """Ask, give the order if the answer is yes, and return the agent's answer."""
        settings = self._settings
        try:
            key = agent_protocol.parse_key(secret.read(settings.key_file))
        except secret.SecretError as error:
            return SleepResult(Answer.FAILED, Reason("sleep.agent_key", why=error.reason))
        except ProtocolError:
            reason = Reason("sleep.no_agent_key", file=settings.key_file)
            return SleepResult(Answer.FAILED, reason)
        question = Question(
            key,
            self._server,
            STATES[settings.state],
            order=True,
            nonce=lambda: secrets.token_hex(16),
        )
        try:
            return self._judge(await self._converse(question))
        except NoAnswerError as error:
            return _without_answer(error.ordered, question.forged)
        except OSError as error:
            why = error.strerror or str(error)
            reason = Reason("sleep.agent_not_reached", host=self._host, why=why)
            return SleepResult(Answer.FAILED, reason)

    def _judge(self, said: Outcome) -> SleepResult:
        words = own_words("; ".join(said.why)) if said.why else None
        clock = [_clock(said.clock_ahead_s)] if said.clock_warning else []
        if said.accepted:
            return SleepResult(Answer.ACCEPTED, together(words or ACCEPTED, *clock))
        words = words or Reason("sleep.no_words")
        refused = Reason("sleep.refused", who=THE_SERVER, words=words)
        return SleepResult(Answer.REFUSED, together(refused, *clock))

    async def _converse(self, question: Question) -> Outcome:
        """Send and take datagrams until there is an outcome, or raise NoAnswerError."""
        loop = asyncio.get_running_loop()
        places = await loop.getaddrinfo(self._host, self._settings.port, type=socket.SOCK_DGRAM)
        family, kind, protocol, _, place = places[0]
        with socket.socket(family, kind | socket.SOCK_NONBLOCK, protocol) as sock:
            # Connected: datagrams from elsewhere do not come in.
            sock.connect(place)
            datagram = question.begin(time.time())
            deadline_s = loop.time() + self._settings.answer_s
            while loop.time() < deadline_s:
                await loop.sock_sendall(sock, datagram)
                taken = await self._take(sock, question, min(loop.time() + _RESEND_S, deadline_s))
                if isinstance(taken, Outcome):
                    return taken
                datagram = taken or datagram
        raise NoAnswerError(question.ordered, question.forged)

    async def _take(
        self, sock: socket.socket, question: Question, until_s: float
    ) -> bytes | Outcome | None:
        """Return what comes of the datagrams that arrive until then; None if nothing does."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout_at(until_s):
                while True:
                    arrived = await loop.sock_recv(sock, agent_protocol.MAX_BYTES + 1)
                    taken = question.take(arrived, time.time())
                    if taken is not None:
                        return taken
        except TimeoutError:
            return None
        except ConnectionRefusedError:
            # Of an earlier datagram: after an order it may be the sleep that closed the port.
            if not question.ordered:
                raise
            await asyncio.sleep(max(0.0, until_s - loop.time()))
            return None


def _without_answer(ordered: bool, forged: int) -> SleepResult:
    if forged:
        return SleepResult(Answer.FAILED, Reason("sleep.agent_forged"))
    if ordered:
        return SleepResult(Answer.ACCEPTED, Reason("sleep.agent_left"))
    return SleepResult(Answer.FAILED, Reason("sleep.agent_silent"))


def _clock(ahead_s: int) -> Reason:
    if ahead_s > 0:
        return Reason("sleep.clock_ahead", ahead_s=ahead_s)
    return Reason("sleep.clock_behind", behind_s=-ahead_s)


# For the doctor


@dataclass(frozen=True, kw_only=True)
class Heard:
    """What the agent answers, or why there is no answer."""

    answer: Outcome | None = None
    problem: Reason | None = None

    @property
    def there(self) -> Reason | None:
        """By what the server is known to run now."""
        return Reason("doctor.agent_answers") if self.answer else None


async def see(settings: Settings, target: Target) -> Heard:
    """Ask, and give no order."""
    return await asyncio.to_thread(_hear, settings, target)


def _hear(settings: Settings, target: Target) -> Heard:
    try:
        key = agent_protocol.parse_key(secret.read(settings.key_file))
        question = Question(
            key,
            target.id,
            STATES[settings.state],
            order=False,
            nonce=lambda: secrets.token_hex(16),
        )
        return Heard(answer=_ask(question, settings.host or target.address, settings.port))
    except secret.SecretError as error:
        problem = Reason("doctor.agent_key", said=error.reason)
    except ProtocolError as error:
        problem = Reason("doctor.agent_key", said=own_words(str(error)))
    except NoAnswerError as error:
        problem = own_words(str(error))
    except OSError as error:
        said = own_words(error.strerror or str(error))
        problem = Reason("doctor.agent_not_reached", said=said)
    return Heard(problem=problem)


def _ask(question: Question, host: str, port: int) -> Outcome:
    family, kind, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as sock:
        sock.connect(place)

        def receive(wait_s: float) -> bytes | None:
            sock.settimeout(wait_s)
            try:
                return sock.recv(agent_protocol.MAX_BYTES + 1)
            except TimeoutError:
                return None

        return agent_protocol.converse(
            question,
            send=sock.send,
            receive=receive,
            now_s=time.time,
            monotonic_s=time.monotonic,
            timeout_s=_LOOK_S,
        )


def agent(seen: readings.Seen) -> Problem | None:
    """Look whether the agent answers, with the same key."""
    if seen.way.answer is None:
        return Problem(
            seen.way.problem or Reason("doctor.agent_silent"),
            Reason("doctor.do_see_agent", let_in=let_in(seen.server.sleep.door)),
        )
    return None


def _agents_answer(seen: readings.Seen) -> Outcome:
    if seen.way.answer is None:
        raise NotSeen("doctor.agent_silent")
    answer: Outcome = seen.way.answer
    return answer


def agent_state(seen: readings.Seen) -> Problem | None:
    """Look whether the agent offers the state that is configured."""
    answer = _agents_answer(seen)
    state = STATES[seen.server.sleep.state]
    if state in answer.states:
        return None
    what = Reason("doctor.agent_offers", states=list(answer.states), state=state)
    if not answer.states:
        what = Reason("doctor.agent_offers_nothing", state=state)
    return Problem(what, Reason("doctor.do_give_command", state=state))


def agent_clock(seen: readings.Seen) -> Problem | None:
    """Look whether the clocks of box and server agree."""
    answer = _agents_answer(seen)
    if not answer.clock_warning:
        return None
    ahead_s = answer.clock_ahead_s
    code = "doctor.clock_ahead" if ahead_s > 0 else "doctor.clock_behind"
    return Problem(Reason(code, by_s=abs(ahead_s)), Reason("doctor.do_set_clocks"), note=True)


def agent_consent(seen: readings.Seen) -> Problem | None:
    """Look whether the server would sleep now."""
    answer = _agents_answer(seen)
    if answer.why:
        return Problem(
            own_words("; ".join(answer.why)), Reason("doctor.do_change_agent"), note=True
        )
    return None


def agent_unit(seen: server.Seen) -> Problem | None:
    """Look whether the agent runs."""
    state = seen.facts.get("agent_unit", "")
    if state == "active":
        return None
    what = Reason("doctor.unit_is", state=state) if state else Reason("doctor.no_unit")
    return Problem(what, Reason("doctor.do_install_agent"))


CHECKS: Final[Mapping[str, tuple[Callable[[Any], Problem | None], ...]]] = {
    "box": (agent, agent_state, agent_clock, agent_consent),
    "server": (agent_unit,),
}
