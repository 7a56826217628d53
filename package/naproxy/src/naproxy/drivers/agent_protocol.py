"""The protocol between the box and the agent on a server (docs/agent.md).

Datagrams of text, signed with HMAC-SHA256 (RFC 2104, FIPS 198-1). A request to sleep must
name a challenge that the agent made a moment before, so a recorded one is worthless and no
clock has to be right. Sockets, clocks and random numbers are
arguments.

The agent runs this very file on the server, beside its own: standard library of Python 3.9.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, Protocol, TypeVar

PORT: Final = 47809
MAX_BYTES: Final = 1200
"""Longest datagram; fits any link without fragments."""
MOST_VISITS: Final = 999_999_999
MOST_HERE: Final = 99_999
KEY_BYTES: Final = 32
STATES: Final = ("mem", "disk", "off")
"""Suspend to RAM, suspend to disk, power off."""
YES: Final = "yes"
NO: Final = "no"
AGAIN: Final = "again"
"""The challenge is unknown, spent or too old; the answer brings a new one."""

_FIRST_LINE: Final = "naproxy-agent 1"
_MAC_LINE_BYTES: Final = len("mac=") + 64 + len("\n")
_HELLO: Final = ("kind", "server", "nonce", "time", "state")
_KEYS: Final = {
    "hello": _HELLO,
    "sleep": (*_HELLO, "challenge"),
    "sleep-until": (*_HELLO, "challenge", "alarm"),
    "answer": ("kind", "server", "nonce", "time", "re", "verdict", "states"),
    "count": ("kind", "server", "nonce", "time", "ports"),
    "counted": ("kind", "server", "time", "re", "run", "visits", "here"),
    "jobs": ("kind", "server", "nonce", "time"),
    "told": ("kind", "server", "time", "re"),
    "listen": ("kind", "server", "nonce", "time", "watch", "ignore"),
    "listening": ("kind", "server", "time", "re", "listens"),
}
_REPEATED: Final = ("why", "job")
_REQUESTS: Final = ("hello", "sleep", "sleep-until", "count", "jobs", "listen")
_NONCE: Final = "[0-9a-f]{32}"
_PORT: Final = "[1-9][0-9]{0,4}"
_LISTENS_BYTES: Final = 900
MOST_PORTS: Final = 64
_VALUES: Final = {
    "kind": "|".join(_KEYS),
    "server": "[a-z0-9-]{1,31}",
    "nonce": _NONCE,
    "time": "[0-9]{1,12}",
    "state": "|".join(STATES),
    "challenge": _NONCE,
    "re": _NONCE,
    "verdict": f"{YES}|{NO}|{AGAIN}",
    "states": f"({'|'.join(STATES)}| )*",
    "why": ".{1,600}",
    "ports": f"{_PORT}( {_PORT}){{0,7}}",
    "watch": f"({_PORT}( {_PORT}){{0,{MOST_PORTS - 1}}})?",
    "ignore": f"({_PORT}( {_PORT}){{0,{MOST_PORTS - 1}}})?",
    "listens": f"[ -~]{{0,{_LISTENS_BYTES}}}",
    "run": _NONCE,
    "visits": "[0-9]{1,9}",
    "here": "[0-9]{1,5}",
    "alarm": "[0-9]{1,6}",
    "job": "[0-9]{1,8} (often|other) .{1,80}",
}
_NAME_CHARACTERS: Final = 80
_REASON_BYTES: Final = 120
_REASONS_BYTES: Final = 800
_CLOCK_TOLERANCE_S: Final = 60


class ProtocolError(ValueError):
    """A datagram is not what it should be, in words."""


class ForgedError(ProtocolError):
    """It is not signed with this key."""


@dataclass(frozen=True)
class Request:
    """A question (no challenge) or an order to sleep; nonces are 32 hex digits."""

    server: str
    nonce: str
    time_s: int
    state: str
    challenge: str = ""
    alarm_s: int = 0
    """In so many seconds the server's own clock is to wake it; 0: never."""


@dataclass(frozen=True)
class Answer:
    """The agent's words. `re` is the request's nonce, `nonce` a challenge for the next order."""

    server: str
    nonce: str
    time_s: int
    re: str
    verdict: str
    states: tuple[str, ...] = ()
    """The states that the server offers."""
    why: tuple[str, ...] = ()
    """Why not, one reason each."""


@dataclass(frozen=True)
class Count:
    """Asks for the visits to these ports from any address but the asking box's."""

    server: str
    nonce: str
    time_s: int
    ports: tuple[int, ...]


@dataclass(frozen=True)
class Counted:
    """The agent's figures. `re` is the question's nonce."""

    server: str
    time_s: int
    re: str
    run: str
    """Identifies the agent's run: `visits` restart from 0 with another one."""
    visits: int
    here: int
    """Visitors who are connected now."""


@dataclass(frozen=True)
class Ask:
    """Asks for the server's own scheduled work."""

    server: str
    nonce: str
    time_s: int


@dataclass(frozen=True)
class Told:
    """The agent's answer: the next event first; events that do not fit are left out."""

    server: str
    time_s: int
    re: str
    jobs: tuple[tuple[int, bool, str], ...] = ()
    """In how many seconds, whether it is so every hour or more often, and its name."""
    why: tuple[str, ...] = ()
    """Why it cannot tell."""


@dataclass(frozen=True)
class Listen:
    """Asks for the ports at which the server listens, and sets the ports to watch."""

    server: str
    nonce: str
    time_s: int
    watch: tuple[int, ...] = ()
    """Ports of UDP: from now on the server stays awake while one of them is used."""
    ignore: tuple[int, ...] = ()
    """TCP ports: connections to them do not keep the server awake."""


@dataclass(frozen=True)
class Listening:
    """The agent's answer: words as naproxy.server.services has them, `445/tcp/smbd`."""

    server: str
    time_s: int
    re: str
    words: tuple[str, ...] = ()
    why: tuple[str, ...] = ()
    """Why it cannot tell."""


def is_server_id(text: str) -> bool:
    """Whether a server can be called so."""
    return re.fullmatch(_VALUES["server"], text) is not None


def parse_key(text: str) -> bytes:
    """Return the 32 bytes that 64 hex digits stand for."""
    try:
        key = binascii.unhexlify(text.strip())
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise ProtocolError("the key must be 64 hex digits")
    return key


def request(key: bytes, message: Request) -> bytes:
    """Write and sign a request."""
    order = "sleep-until" if message.alarm_s else "sleep"
    kind = order if message.challenge else "hello"
    lines = _head(kind, message, state=message.state)
    if message.challenge:
        lines.append(f"challenge={message.challenge}")
        if message.alarm_s:
            lines.append(f"alarm={message.alarm_s}")
    return _sign(key, lines)


def count(key: bytes, message: Count) -> bytes:
    """Write and sign a question for visits."""
    return _sign(key, _head("count", message, ports=message.ports))


def counted(key: bytes, message: Counted) -> bytes:
    """Write and sign the answer to it; values above the maximum become the maximum."""
    visits, here = min(message.visits, MOST_VISITS), min(message.here, MOST_HERE)
    return _sign(key, _head("counted", message, run=message.run, visits=visits, here=here))


def answer(key: bytes, message: Answer) -> bytes:
    """Write and sign an answer; reasons are made safe to show and cut to fit."""
    lines = _head("answer", message, verdict=message.verdict, states=message.states)
    return _sign(key, lines + _reasons(message.why))


def ask(key: bytes, message: Ask) -> bytes:
    """Write and sign a question for the server's scheduled work."""
    return _sign(key, _head("jobs", message))


def told(key: bytes, message: Told) -> bytes:
    """Write and sign the answer to it; names are made safe to show, and as many as fit are told."""
    lines = _head("told", message) + _reasons(message.why)
    left = MAX_BYTES - _MAC_LINE_BYTES - len("\n".join([_FIRST_LINE, *lines, ""]).encode())
    for in_s, often, name in message.jobs:
        shown = _printable(name)[:_NAME_CHARACTERS] or "?"
        line = f"job={in_s} {'often' if often else 'other'} {shown}"
        left -= len(f"{line}\n".encode())
        if left < 0:
            break
        lines.append(line)
    return _sign(key, lines)


def listen(key: bytes, message: Listen) -> bytes:
    """Write and sign a question for ports; ProtocolError if more are named than fit."""
    if max(len(message.watch), len(message.ignore)) > MOST_PORTS:
        raise ProtocolError(f"more than {MOST_PORTS} ports")
    return _sign(key, _head("listen", message, watch=message.watch, ignore=message.ignore))


def listening(key: bytes, message: Listening) -> bytes:
    """Write and sign the answer to it: as many ports as fit, and how many did not."""
    last = f"more/{len(message.words)}"
    fitting: list[str] = []
    for i, word in enumerate(message.words):
        if len(" ".join([*fitting, word, last])) > _LISTENS_BYTES:
            fitting.append(f"more/{len(message.words) - i}")
            break
        fitting.append(word)
    # With reasons there are no ports: so both fit.
    return _sign(key, _head("listening", message, listens=fitting) + _reasons(message.why))


def read_request(key: bytes, datagram: bytes) -> Request | Count | Ask | Listen:
    """Check and read what the box sends; ProtocolError says what is wrong with it."""
    values, more = _open(key, datagram)
    if values["kind"] not in _REQUESTS or more:
        raise ProtocolError("it is no request")
    server, nonce, time_s = values["server"], values["nonce"], int(values["time"])
    if values["kind"] == "count":
        return Count(server, nonce, time_s, tuple(map(int, values["ports"].split())))
    if values["kind"] == "jobs":
        return Ask(server, nonce, time_s)
    if values["kind"] == "listen":
        watch, ignore = (tuple(map(int, values[n].split())) for n in ("watch", "ignore"))
        return Listen(server, nonce, time_s, watch, ignore)
    challenge, alarm_s = values.get("challenge", ""), int(values.get("alarm", "0"))
    return Request(server, nonce, time_s, values["state"], challenge, alarm_s)


def read_answer(key: bytes, datagram: bytes) -> Answer:
    """Check and read an answer; ProtocolError says what is wrong with it."""
    values, more = _open_answer(key, datagram, "answer", "why")
    return Answer(
        server=values["server"],
        nonce=values["nonce"],
        time_s=int(values["time"]),
        re=values["re"],
        verdict=values["verdict"],
        states=tuple(values["states"].split()),
        why=tuple(value for _, value in more),
    )


def read_told(key: bytes, datagram: bytes) -> Told:
    """Check and read the answer to `jobs`; ProtocolError says what is wrong with it."""
    values, more = _open_answer(key, datagram, "told", "why", "job")
    jobs = [value.split(" ", 2) for name, value in more if name == "job"]
    return Told(
        server=values["server"],
        time_s=int(values["time"]),
        re=values["re"],
        jobs=tuple((int(in_s), often == "often", name) for in_s, often, name in jobs),
        why=tuple(value for name, value in more if name == "why"),
    )


def read_listening(key: bytes, datagram: bytes) -> Listening:
    """Check and read the answer to `listen`; ProtocolError says what is wrong with it."""
    values, more = _open_answer(key, datagram, "listening", "why")
    return Listening(
        server=values["server"],
        time_s=int(values["time"]),
        re=values["re"],
        words=tuple(values["listens"].split()),
        why=tuple(value for _, value in more),
    )


def read_counted(key: bytes, datagram: bytes) -> Counted:
    """Check and read the answer to `count`; ProtocolError says what is wrong with it."""
    values, _ = _open_answer(key, datagram, "counted")
    return Counted(
        server=values["server"],
        time_s=int(values["time"]),
        re=values["re"],
        run=values["run"],
        visits=int(values["visits"]),
        here=int(values["here"]),
    )


def _open_answer(
    key: bytes, datagram: bytes, kind: str, *repeated: str
) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Return what `_open` does, if it is an answer of this kind with no other repeated lines."""
    values, more = _open(key, datagram)
    if values["kind"] != kind or any(name not in repeated for name, _ in more):
        raise ProtocolError("it is no answer to this question")
    return values, more


def _head(kind: str, message: object, **more: object) -> list[str]:
    """Return the lines that stand once: those that all have, as far as this has them, and more."""
    all_have = (("server", "server"), ("nonce", "nonce"), ("time", "time_s"), ("re", "re"))
    values: dict[str, object] = {"kind": kind}
    values.update({k: getattr(message, of) for k, of in all_have if hasattr(message, of)})
    values.update(more)
    return [
        f"{name}={' '.join(map(str, value)) if isinstance(value, (tuple, list)) else value}"
        for name, value in values.items()
    ]


def _reasons(why: tuple[str, ...]) -> list[str]:
    return [f"why={reason}" for reason in _fitting(why)]


def _mac(key: bytes, body: bytes) -> bytes:
    return hmac.new(key, body, hashlib.sha256).hexdigest().encode()


def _sign(key: bytes, lines: list[str]) -> bytes:
    body = "".join(f"{line}\n" for line in [_FIRST_LINE, *lines]).encode()
    return body + b"mac=" + _mac(key, body) + b"\n"


def _open(key: bytes, datagram: bytes) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Return the values by key, and the lines that there may be any number of.

    Nothing is looked at before the signature.
    """
    if len(datagram) > MAX_BYTES:
        raise ProtocolError("it is too long")
    body, last = datagram[:-_MAC_LINE_BYTES], datagram[-_MAC_LINE_BYTES:]
    if not hmac.compare_digest(last, b"mac=" + _mac(key, body) + b"\n"):
        raise ForgedError("it is not signed with this key")
    try:
        first, *lines, after = body.decode().split("\n")
    except ValueError:
        raise ProtocolError("it is no text of lines") from None
    if after:
        raise ProtocolError("its last line is not ended")
    if first != _FIRST_LINE:
        raise ProtocolError(f"it does not begin with {_FIRST_LINE!r}")
    pairs = [_pair(line) for line in lines]
    kind = pairs[0][1] if pairs and pairs[0][0] == "kind" else ""
    names = tuple(name for name, _ in pairs if name not in _REPEATED)
    # Reasons and jobs come last, so the others are in front of them and in their order.
    if names != _KEYS.get(kind) or names != tuple(name for name, _ in pairs[: len(names)]):
        raise ProtocolError("its lines are not those of its kind")
    return dict(pairs[: len(names)]), pairs[len(names) :]


def _pair(line: str) -> tuple[str, str]:
    name, _, value = line.partition("=")
    pattern = _VALUES.get(name)
    if pattern is None or not re.fullmatch(pattern, value) or value != _printable(value):
        raise ProtocolError(f"it has a bad line: {line[:40]!r}")
    return name, value


def _printable(text: str) -> str:
    """Return `text` as one line of words, without control characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _fitting(reasons: tuple[str, ...]) -> list[str]:
    """Return the reasons, each cut, as many as fit; the last line says how many did not."""
    fitting: list[str] = []
    left = _REASONS_BYTES
    for i, reason in enumerate(reasons):
        line = _cut(_printable(reason)) or "no words"
        left -= len(f"why={line}\n".encode())
        if left < 0:
            fitting.append(f"and {len(reasons) - i} more")
            break
        fitting.append(line)
    return fitting


def _cut(text: str) -> str:
    if len(text.encode()) <= _REASON_BYTES:
        return text
    return text.encode()[: _REASON_BYTES - 3].decode(errors="ignore").rstrip() + "..."


# ------------------------------------------------------------------- the box's side


@dataclass(frozen=True)
class Outcome:
    """The agent's final answer."""

    accepted: bool
    """It sleeps now; after a mere question: it would."""
    why: tuple[str, ...]
    states: tuple[str, ...]
    clock_ahead_s: int
    """The server's clock less the box's, in whole seconds, as the answer arrived."""

    @property
    def clock_differs(self) -> bool:
        """Whether one of the clocks is set wrong. The protocol does not mind."""
        return abs(self.clock_ahead_s) > _CLOCK_TOLERANCE_S


class NoAnswerError(Exception):
    """Nobody answered. `ordered`: an order to sleep is under way and may have been obeyed."""

    def __init__(self, ordered: bool, forged: int):
        """`forged` counts what came with a signature that does not fit."""
        super().__init__(ordered, forged)
        self.ordered = ordered
        self.forged = forged


class Question:
    """One conversation with one agent: ask whether it would sleep, and if so, order it to.

    `begin` gives the first datagram; each that arrives goes into `take`, which gives the
    next one to send, the outcome, or None: not for us, keep waiting. Without an
    answer, the caller sends the last datagram again, which is harmless.
    """

    _TRIES = 3

    def __init__(
        self,
        key: bytes,
        server: str,
        state: str,
        *,
        order: bool,
        nonce: Callable[[], str],
        alarm_s: int = 0,
    ):
        """`order`: do not only ask. `nonce` gives 32 fresh hex digits, as secrets.token_hex(16).

        `alarm_s`, if not 0: when the server's own clock is to wake it; older agents do not know it.
        """
        self._key = key
        self._server = server
        self._state = state
        self._order = order
        self._alarm_s = alarm_s
        self._nonce = nonce
        self._awaited = ""
        self._left = self._TRIES
        self.ordered = False
        self.forged = 0

    def begin(self, now_s: float) -> bytes:
        """Return the first datagram."""
        return self._request("", now_s)

    def take(self, datagram: bytes, now_s: float) -> bytes | Outcome | None:
        """Take what arrived; times are the box's epoch seconds."""
        try:
            said = read_answer(self._key, datagram)
        except ForgedError:
            self.forged += 1
            return None
        except ProtocolError:
            return None
        if said.re != self._awaited or (said.server != self._server and said.verdict != NO):
            return None
        if self._order and self._left > 0 and (said.verdict == AGAIN or self._may_order(said)):
            self._left -= 1
            self.ordered = True
            return self._request(said.nonce, now_s)
        why = said.why or (("it does not take its own challenges",) * (said.verdict == AGAIN))
        return Outcome(said.verdict == YES, why, said.states, said.time_s - int(now_s))

    def _may_order(self, said: Answer) -> bool:
        return said.verdict == YES and not self.ordered

    def _request(self, challenge: str, now_s: float) -> bytes:
        self._awaited = self._nonce()
        return request(
            self._key,
            Request(self._server, self._awaited, int(now_s), self._state, challenge, self._alarm_s),
        )


Said = TypeVar("Said", Counted, Told, Listening)


class PlainQuestion(Generic[Said]):
    """A conversation of one datagram and its answer: for visits, for jobs, or for ports."""

    ordered: Final = False

    def __init__(
        self,
        server: str,
        nonce: str,
        write: Callable[[int], bytes],
        read: Callable[[bytes], Said],
    ):
        """`write` gives the datagram of a time, `read` what an answer says; ProtocolError."""
        self._of = (server, nonce)
        self._write = write
        self._read: Callable[[bytes], Said] = read
        self.forged = 0

    def begin(self, now_s: float) -> bytes:
        """Return the datagram."""
        return self._write(int(now_s))

    def take(self, datagram: bytes, now_s: float) -> bytes | Said | None:
        """Take what arrived."""
        try:
            said = self._read(datagram)
        except ForgedError:
            self.forged += 1
            return None
        except ProtocolError:
            return None
        return said if (said.server, said.re) == self._of else None


def count_question(
    key: bytes, server: str, ports: tuple[int, ...], *, nonce: str
) -> PlainQuestion[Counted]:
    """Ask for the visits to these ports, at most eight."""
    return PlainQuestion(
        server,
        nonce,
        lambda time_s: count(key, Count(server, nonce, time_s, ports)),
        partial(read_counted, key),
    )


def jobs_question(key: bytes, server: str, *, nonce: str) -> PlainQuestion[Told]:
    """Ask what the server is going to do."""
    return PlainQuestion(
        server,
        nonce,
        lambda time_s: ask(key, Ask(server, nonce, time_s)),
        partial(read_told, key),
    )


def listen_question(
    key: bytes, server: str, watch: tuple[int, ...], ignore: tuple[int, ...], *, nonce: str
) -> PlainQuestion[Listening]:
    """Ask for the ports; `watch` and `ignore` as in `Listen`."""
    return PlainQuestion(
        server,
        nonce,
        lambda time_s: listen(key, Listen(server, nonce, time_s, watch, ignore)),
        partial(read_listening, key),
    )


Said_co = TypeVar("Said_co", Outcome, Counted, Told, Listening, covariant=True)


class Conversation(Protocol[Said_co]):
    """A `Question`, or one of the others."""

    forged: int

    @property
    def ordered(self) -> bool:
        """Whether an order is under way."""

    def begin(self, now_s: float) -> bytes:
        """Return the first datagram."""

    def take(self, datagram: bytes, now_s: float) -> bytes | Said_co | None:
        """Take what arrived; return the next datagram, the outcome, or None: keep waiting."""


def converse(
    question: Conversation[Said_co],
    *,
    send: Callable[[bytes], object],
    receive: Callable[[float], bytes | None],
    now_s: Callable[[], float],
    monotonic_s: Callable[[], float],
    timeout_s: float = 10.0,
    resend_s: float = 1.0,
) -> Said_co:
    """Carry a conversation to its end, or raise NoAnswerError after `timeout_s`.

    `receive` waits so many seconds for one datagram and returns None if none came. A
    datagram without an answer is sent again every `resend_s`.
    """
    datagram = question.begin(now_s())
    deadline_s = monotonic_s() + timeout_s
    while True:
        send(datagram)
        resend_at_s = min(monotonic_s() + resend_s, deadline_s)
        while (left_s := resend_at_s - monotonic_s()) > 0:
            arrived = receive(left_s)
            taken = question.take(arrived, now_s()) if arrived is not None else None
            if isinstance(taken, bytes):
                datagram = taken
                break
            if taken is not None:
                return taken
        else:
            if monotonic_s() >= deadline_s:
                raise NoAnswerError(question.ordered, question.forged)
