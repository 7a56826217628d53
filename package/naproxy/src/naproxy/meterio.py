"""How meters are reached: serial ports, HTTP, and programs that speak for them.

Whatever the other side does, a call ends in time, takes little memory and says what was
wrong as a `Fault`.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import errno
import fcntl
import http.client
import os
import socket
import ssl
import termios
import tty
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from naproxy import __version__
from naproxy.digest import Digest, DigestError
from naproxy.drivers import program, secret
from naproxy.drivers.meter import Fault
from naproxy.drivers.pinned import PinnedConnection, WrongCertificateError
from naproxy.reason import Reason

MOST_BYTES: Final = 256 * 1024
_READ_AT_ONCE: Final = 4096
_BAUDS: Final = {9600: termios.B9600, 57600: termios.B57600, 115200: termios.B115200}


# Serial ports


class Pieces:
    """Bytes as they arrive, cut at `end`. What is longer than `most` is dropped, and said."""

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

    def __init__(self, reader: asyncio.StreamReader, writing: int) -> None:
        """Read from `reader`, write to the descriptor `writing`."""
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
            raise Fault("lost", "meter.unplugged_why", why=_words(error)) from None
        if not data:
            raise Fault("lost", "meter.unplugged")
        return data

    def write(self, data: bytes) -> None:
        """Send a short command; what the port does not take at once is lost."""
        with contextlib.suppress(BlockingIOError):
            os.write(self._writing, data)


@asynccontextmanager
async def serial(path: str, baud: int) -> AsyncIterator[Port]:
    """Open a serial port: raw, 8N1, and ours alone."""
    try:
        descriptor = _open_tty(path, baud)
    except (OSError, termios.error) as error:
        raise _why_not(path, error) from None
    async with _reading(descriptor) as reader:
        yield Port(reader, descriptor)


def _open_tty(path: str, baud: int) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.ioctl(descriptor, termios.TIOCEXCL)
        tty.setraw(descriptor)
        attributes = termios.tcgetattr(descriptor)
        attributes[2] = (attributes[2] | termios.CLOCAL | termios.CREAD) & ~termios.HUPCL
        attributes[4] = attributes[5] = _BAUDS[baud]
        termios.tcsetattr(descriptor, termios.TCSANOW, attributes)
        termios.tcflush(descriptor, termios.TCIFLUSH)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _why_not(path: str, error: Exception) -> Fault:
    code = error.args[0] if error.args else None
    match code:
        case errno.ENOENT | errno.ENXIO | errno.ENODEV:
            return Fault("lost", "meter.no_port", file=path)
        case errno.EACCES | errno.EPERM:
            return Fault("lost", "meter.not_allowed", file=path)
        case errno.EBUSY:
            return Fault("lost", "meter.port_in_use", file=path)
        case errno.ENOTTY:
            return Fault("lost", "meter.not_a_tty", file=path)
    return Fault("lost", "meter.port", file=path, why=str(error))


@asynccontextmanager
async def _reading(descriptor: int) -> AsyncIterator[asyncio.StreamReader]:
    """Read a descriptor from the loop; it is closed in the end."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=MOST_BYTES)
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", 0)
    )
    try:
        yield reader
    finally:
        transport.close()


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
        ended = program.Ended(found.code, program.words(found.complaint or found.output))
        raise Fault("refused", "driver.program", program=argv[0], words=ended.why)
    return found.output.decode(errors="replace")


def _not_run(name: str, error: OSError) -> Fault:
    return Fault("tool", "driver.cannot_run", program=name, why=_words(error))


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
        yield Port(process.stdout, process.stdin.get_extra_info("pipe").fileno())
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
    """A device that answers HTTP. No proxy of the environment; redirects are not followed.

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
        connection = self._connection()
        task = asyncio.get_running_loop().run_in_executor(None, self._get, connection, path)
        try:
            async with asyncio.timeout(self.timeout_s):
                return await task
        except TimeoutError:
            limit_s = self.timeout_s
            raise Fault("silence", "meter.no_answer", who=self.host, limit_s=limit_s) from None
        except Fault:
            raise
        except WrongCertificateError as error:
            raise self._fault("refused", error.reason) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise self._fault("lost", _words(error)) from None
        finally:
            # A thread that still waits in this socket comes to its end.
            with contextlib.suppress(OSError, AttributeError):
                connection.sock.shutdown(socket.SHUT_RDWR)
            connection.close()

    def _fault(self, kind: str, words: str | Reason) -> Fault:
        return Fault(kind, "meter.device", host=self.host, words=words)

    def _connection(self) -> http.client.HTTPConnection:
        if not self.tls:
            return http.client.HTTPConnection(self.host, self.port, timeout=self.timeout_s)
        if self.fingerprint:
            return PinnedConnection(self.host, self.port, self.fingerprint, self.timeout_s)
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(
            self.host, self.port, timeout=self.timeout_s, context=context
        )

    def _get(self, connection: http.client.HTTPConnection, path: str) -> bytes:
        response = self._ask(connection, path)
        challenge = response.getheader("WWW-Authenticate", "")
        if response.status == http.client.UNAUTHORIZED and self.login:
            try:
                self.login.challenged(challenge)
            except DigestError as error:
                raise self._fault("refused", error.reason) from None
            connection.close()
            response = self._ask(connection, path)
        if response.status in (401, 403):
            raise Fault("refused", "meter.login", host=self.host)
        if response.status != http.client.OK:
            # What follows the path may be a password.
            asked, status = path.partition("?")[0], response.status
            raise Fault("refused", "meter.status", host=self.host, status=status, path=asked)
        body = response.read(MOST_BYTES + 1)
        if len(body) > MOST_BYTES:
            raise Fault("huge", "meter.sent_much", host=self.host, high=MOST_BYTES)
        if response.length:
            raise Fault("cut", "meter.broke_off", host=self.host)
        return body

    def _ask(self, connection: http.client.HTTPConnection, path: str) -> http.client.HTTPResponse:
        headers = {"User-Agent": f"naproxy/{__version__}", "Connection": "close", **self.headers}
        if self.login:
            headers |= self.login.header("GET", path)
        connection.request("GET", path, headers=headers)
        return connection.getresponse()


def basic(user: str, password_file: str) -> dict[str, str]:
    """Return the header of HTTP's Basic authentication (RFC 7617), none without a user."""
    if not user:
        return {}
    token = base64.b64encode(f"{user}:{password(password_file)}".encode()).decode()
    return {"Authorization": f"Basic {token}"}


def password(file: str) -> str:
    """Return the secret in a file's one line, empty without a file."""
    try:
        return secret.read(file) if file else ""
    except secret.SecretError as error:
        raise Fault("refused", "meter.password", why=error.reason) from None


def _words(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno and error.strerror:
        return error.strerror.lower()
    return str(error) or type(error).__name__
