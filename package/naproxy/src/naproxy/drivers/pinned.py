"""HTTP to devices in a thread with a time limit, and HTTPS with a pinned certificate.

BMCs and meters have self-signed certificates. Proxies from the environment are ignored, and the
only redirect followed is to the same path with a slash at its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import zlib
from collections.abc import Callable, Mapping
from hashlib import sha256
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from naproxy import __version__
from naproxy.core import processes as program
from naproxy.core.reason import Reason, WrongError
from naproxy.core.schema import fits

_T = TypeVar("_T")
_MOST_BYTES: Final = 1 << 20
_REDIRECTS: Final = (301, 302, 307, 308)

is_fingerprint: Final = fits(
    r"(?i:[0-9a-f]{64}|[0-9a-f]{2}(:[0-9a-f]{2}){31})", Reason("config.fingerprint")
)
"""A certificate's SHA-256 fingerprint, as openssl prints it, or without colons."""


class RefusedError(WrongError):
    """It is another device than the pinned one, or does not let us in."""


class PinnedConnection(HTTPSConnection):
    """A connection that is closed before a word is sent if the certificate is another one."""

    def __init__(self, host: str, port: int, fingerprint: str, timeout_s: float) -> None:
        """`fingerprint`: see `is_fingerprint`. Connecting may raise RefusedError."""
        # Whom the system trusts is of no interest, and takes long to load.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        super().__init__(host, port, timeout=timeout_s, context=context)
        self._pinned = fingerprint.replace(":", "").lower()

    def connect(self) -> None:
        """Connect, and look who it is."""
        super().connect()
        assert isinstance(self.sock, ssl.SSLSocket)
        seen = sha256(self.sock.getpeercert(binary_form=True) or b"").hexdigest()
        if seen != self._pinned:
            self.close()
            raise RefusedError("driver.other_certificate", seen=seen)


class Exchange:
    """Requests by one connection. They block: `in_time` makes them in a thread."""

    def __init__(self, connection: HTTPConnection) -> None:
        """Connect with the first request."""
        self.connection = connection
        self._sock: socket.socket | None = None

    def ask(
        self, method: str, path: str, headers: Mapping[str, str], body: str | None = None
    ) -> HTTPResponse:
        """Return an answer, whose body is still to be read."""
        headers = {"User-Agent": f"naproxy/{__version__}", **headers}
        self.connection.request(method, path, body, headers)
        # The connection forgets it when the answer is to be the last.
        self._sock = self.connection.sock
        return self.connection.getresponse()

    async def in_time(self, work: Callable[[], _T], timeout_s: float) -> _T:
        """Return what `work` makes of its requests. TimeoutError, WrongError."""
        try:
            async with asyncio.timeout(timeout_s):
                return await asyncio.to_thread(self._do, work)
        except (TimeoutError, WrongError):
            raise
        except (OSError, HTTPException, ValueError) as error:
            raise WrongError("core.own_words", text=program.why(error)) from None
        finally:
            # A thread that still waits in this socket comes to its end.
            with contextlib.suppress(OSError):
                if self._sock:
                    self._sock.shutdown(socket.SHUT_RDWR)

    def _do(self, work: Callable[[], _T]) -> _T:
        with contextlib.closing(self.connection):
            return work()


def with_slash(response: HTTPResponse, path: str, host: str) -> str | None:
    """Return the path with a slash at its end if the answer redirects there, on the same host.

    HPE's BMCs redirect a client so that leaves the slash out.
    """
    if response.status not in _REDIRECTS:
        return None
    to = urlsplit(response.headers.get("Location", ""))
    asked, mark, query = path.partition("?")
    same = not to.netloc or to.hostname == host.casefold()
    return f"{asked}/{mark}{query}" if same and to.path == f"{asked}/" else None


def read(response: HTTPResponse, most: int) -> bytes:
    """Return the rest of an answer, at most so many bytes, unpacked if it is compressed.

    Some BMCs compress whatever they are asked for. WrongError if it cannot be unpacked.
    """
    data = response.read(most)
    coding = response.headers.get("Content-Encoding", "identity").strip().casefold()
    if coding in ("gzip", "x-gzip", "deflate") and data:
        unpacker = zlib.decompressobj(zlib.MAX_WBITS | 32)  # sees whether it is gzip or zlib
        try:
            unpacked = unpacker.decompress(data, most)
        except zlib.error:
            raise WrongError("driver.not_unpacked", coding=coding) from None
        if len(unpacked) < most and not unpacker.eof:
            raise WrongError("driver.not_unpacked", coding=coding)
        return unpacked
    if coding != "identity" and data:
        raise WrongError("driver.not_unpacked", coding=program.words(coding))
    return data


def body(response: HTTPResponse) -> bytes:
    """Return the rest of an answer; WrongError if that is too long."""
    data = read(response, _MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise WrongError("driver.long_answer", high=_MOST_BYTES)
    return data


def json_object(data: bytes) -> dict[str, Any]:
    """Return the JSON object that was sent, empty where it is something else; WrongError."""
    try:
        return as_object(json.loads(data))
    except (ValueError, RecursionError):
        raise WrongError("driver.not_json") from None


def as_object(value: object) -> dict[str, Any]:
    """Return a part of it that should be an object; empty where it is something else."""
    return value if isinstance(value, dict) else {}
