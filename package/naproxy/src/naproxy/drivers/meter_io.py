"""Connections to meters: serial ports, HTTP, and external programs.

Every call has a time limit and a memory limit, and raises a `Fault` on errors, even if the other
side is hostile.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import errno
import os
import termios
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from typing import Final

from serial import Serial

from naproxy.core import processes as program
from naproxy.core.reason import Reason, WrongError
from naproxy.drivers import pinned, secret
from naproxy.drivers.digest import Digest
from naproxy.drivers.meter import Fault, Reading, Readings
from naproxy.drivers.pinned import Exchange, PinnedConnection, RefusedError

MOST_BYTES: Final = 256 * 1024
_READ_AT_ONCE: Final = 4096


# Serial ports


class Pieces:
    """Splits bytes at `end` as they arrive. Drops and reports lines longer than `most`."""

    def __init__(self, end: bytes, most: int) -> None:
        """Keep at most `most` bytes and one reading's."""
        self._end = end
        self._most = most
        self._rest = b""
        self._dropping = False

    def feed(self, data: bytes) -> list[bytes | Fault]:
        """Return the pieces that `data` completes, without their ends."""
        *pieces, self._rest = (self._rest + data).split(self._end)
        found: list[bytes | Fault] = []
        for piece in pieces:
            if not self._dropping:
                found.append(piece if len(piece) <= self._most else self._huge())
            self._dropping = False
        if len(self._rest) > self._most:
            if not self._dropping:
                found.append(self._huge())
            self._dropping = True
            self._rest = self._rest[-len(self._end) :]
        return found

    def _huge(self) -> Fault:
        return Fault("huge", "meter.endless", high=self._most)


class Port:
    """One end of a serial line or of a pair of pipes."""

    def __init__(self, reader: asyncio.StreamReader, writing: Callable[[], int]) -> None:
        """Read from `reader`, write to the descriptor that `writing` gives, if it is open."""
        self._reader = reader
        self._writing = writing

    async def read(self, silence_s: float) -> bytes:
        """Return what came; Fault after `silence_s` without anything, or when it is gone."""
        try:
            async with asyncio.timeout(silence_s):
                data = await self._reader.read(_READ_AT_ONCE)
        except TimeoutError:
            raise Fault("silence", "meter.silent", silent_s=silence_s) from None
        except OSError as error:
            raise Fault("lost", "meter.unplugged_why", why=program.why(error)) from None
        if not data:
            raise Fault("lost", "meter.unplugged")
        return data

    def write(self, data: bytes) -> None:
        """Send a short command; bytes that the port does not take at once are lost."""
        with contextlib.suppress(BlockingIOError):
            os.write(self._writing(), data)


@asynccontextmanager
async def serial(path: str, baud: int) -> AsyncIterator[Port]:
    """Open a serial port: raw, 8N1, and locked for other programs that ask."""
    try:
        opened = Serial(path, baud, exclusive=True)
    except (OSError, termios.error) as error:
        raise _why_not(path, error) from None
    reader = asyncio.StreamReader(limit=MOST_BYTES)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), opened
    )
    try:
        # A port that was lost is closed; its number may be another file's by then.
        yield Port(reader, opened.fileno)
    finally:
        transport.close()
        # At once: the transport would with the loop's next turn, and the port stay locked.
        opened.close()


def _why_not(path: str, error: Exception) -> Fault:
    # The system's error is the context; the library's own exception has only text.
    match (error.__context__ or error).args:
        case [errno.ENOENT | errno.ENXIO | errno.ENODEV, *_]:
            return Fault("lost", "meter.no_port", file=path)
        case [errno.EACCES | errno.EPERM, *_]:
            return Fault("lost", "meter.not_allowed", file=path)
        case [errno.EBUSY | errno.EWOULDBLOCK, *_]:
            return Fault("lost", "meter.port_in_use", file=path)
        case [errno.ENOTTY, *_]:
            return Fault("lost", "meter.not_a_tty", file=path)
    return Fault("lost", "meter.port", file=path, why=str(error))


async def listen(
    opened: AbstractAsyncContextManager[Port],
    pieces: Pieces,
    silence_s: float,
    parse: Callable[[bytes], Reading | None],
) -> Readings:
    """Yield what `parse` makes of each piece that a port says; a piece may tell nothing."""
    async with opened as port:
        while True:
            for piece in pieces.feed(await port.read(silence_s)):
                item = piece if isinstance(piece, Fault) else _item(parse, piece)
                if item is not None:
                    yield item


def _item(parse: Callable[[bytes], Reading | None], piece: bytes) -> Reading | Fault | None:
    try:
        return parse(piece)
    except Fault as fault:
        return fault


# Programs


async def tool(argv: Sequence[str], timeout_s: float, more: Mapping[str, str] | None = None) -> str:
    """Run a program and return what it prints; Fault with its words if it fails."""
    environment = {"LC_ALL": "C", **(more or {})}
    try:
        found = await program.printed(argv, timeout_s, environment, MOST_BYTES + 1)
    except OSError as error:
        raise _not_run(argv[0], error) from None
    if len(found.output) > MOST_BYTES:
        raise Fault("huge", "meter.printed_much", high=MOST_BYTES)
    if found.code is None:
        raise Fault("silence", "meter.no_answer", who=argv[0], limit_s=timeout_s)
    if found.code:
        raise Fault("refused", "driver.program", program=argv[0], words=found.why)
    return found.output.decode(errors="replace")


def _not_run(name: str, error: OSError) -> Fault:
    return Fault("tool", "driver.cannot_run", program=name, why=program.why(error))


async def _all(stream: asyncio.StreamReader) -> str:
    try:
        await stream.readexactly(MOST_BYTES)
    except asyncio.IncompleteReadError as error:
        return error.partial.decode(errors="replace")
    raise Fault("huge", "meter.printed_much", high=MOST_BYTES)


@asynccontextmanager
async def speaker(argv: Sequence[str]) -> AsyncIterator[Port]:
    """Run a program that speaks like a serial port, and end it."""
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        raise _not_run(argv[0], error) from None
    assert process.stdin
    assert process.stdout
    assert process.stderr
    program.as_others(process.pid)
    complaint = asyncio.ensure_future(_all(process.stderr))
    try:
        yield Port(process.stdout, process.stdin.get_extra_info("pipe").fileno)
    except Fault as fault:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                words = (await complaint).strip().rpartition("\n")[2]
                if fault.kind == "lost" and words:
                    raise Fault("lost", "core.own_words", text=words[:300]) from None
        raise
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        await process.wait()
        complaint.cancel()


# HTTP


@dataclass(frozen=True)
class Web:
    """A device that answers HTTP: see naproxy/drivers/pinned.py.

    With a `fingerprint` (SHA-256 of its certificate, hexadecimal) that certificate and no
    other is trusted; without one, `tls` wants one that the system trusts.
    """

    host: str
    port: int
    timeout_s: float
    tls: bool = False
    fingerprint: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    login: Digest | None = None

    async def get(self, path: str) -> bytes:
        """Return the body of the answer to a GET; Fault in all other cases."""
        exchange = Exchange(self._connection())
        try:
            return await exchange.in_time(lambda: self._get(exchange, path), self.timeout_s)
        except TimeoutError:
            limit_s = self.timeout_s
            raise Fault("silence", "meter.no_answer", who=self.host, limit_s=limit_s) from None
        except Fault:
            raise
        except WrongError as error:
            kind = "refused" if isinstance(error, RefusedError) else "lost"
            raise Fault(kind, "meter.device", host=self.host, words=error.reason) from None

    def _connection(self) -> HTTPConnection:
        if self.tls and self.fingerprint:
            return PinnedConnection(self.host, self.port, self.fingerprint, self.timeout_s)
        kind = HTTPSConnection if self.tls else HTTPConnection
        return kind(self.host, self.port, timeout=self.timeout_s)

    def _get(self, exchange: Exchange, path: str) -> bytes:
        response = self._ask(exchange, path)
        if slashed := pinned.with_slash(response, path, self.host):
            exchange.connection.close()
            path = slashed
            response = self._ask(exchange, path)
        if response.status == HTTPStatus.UNAUTHORIZED and self.login:
            self.login.challenged(response.headers.get("WWW-Authenticate", ""))
            exchange.connection.close()
            response = self._ask(exchange, path)
        if response.status in (401, 403):
            raise Fault("refused", "meter.login", host=self.host)
        if response.status != HTTPStatus.OK:
            # The query after the path may have a password.
            asked, status = path.partition("?")[0], response.status
            raise Fault("refused", "meter.status", host=self.host, status=status, path=asked)
        body = pinned.read(response, MOST_BYTES + 1)
        if len(body) > MOST_BYTES:
            raise Fault("huge", "meter.sent_much", host=self.host, high=MOST_BYTES)
        if response.length:
            raise Fault("cut", "meter.broke_off", host=self.host)
        return body

    def _ask(self, exchange: Exchange, path: str) -> HTTPResponse:
        login = self.login.header("GET", path) if self.login else {}
        return exchange.ask("GET", path, {"Connection": "close", **self.headers, **login})


def basic(user: str, password_file: str) -> dict[str, str]:
    """Return the header of HTTP's Basic authentication (RFC 7617), none without a user."""
    if not user:
        return {}
    token = base64.b64encode(f"{user}:{password(password_file)}".encode()).decode()
    return {"Authorization": f"Basic {token}"}


def password(file: str) -> str:
    """Return the secret in a file's one line, empty without a file."""
    try:
        return secret.read(file, Reason("meter.password")) if file else ""
    except WrongError as error:
        raise Fault("refused", error.reason.code, **error.reason.params) from None
