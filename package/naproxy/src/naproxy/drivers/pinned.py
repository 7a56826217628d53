"""HTTP to devices: in a thread that ends in time, and HTTPS by a pinned certificate.

What BMCs and meters sign, they sign themselves. No proxy of the environment is used, no redirect
is followed, nothing is unpacked.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import ssl
from collections.abc import Callable, Mapping
from http.client import HTTPException
from typing import TypeVar

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError, SSLError
from urllib3.response import BaseHTTPResponse
from urllib3.util import create_urllib3_context

from naproxy import __version__
from naproxy.core import processes as program
from naproxy.core.reason import Reason, WrongError, own_words

_T = TypeVar("_T")


class WrongCertificateError(WrongError, OSError):
    """It is another certificate than the pinned one, or one that was replaced."""


class LostError(WrongError):
    """There is no answer, or none that is whole."""


def is_fingerprint(text: str) -> Reason | None:
    """Check a certificate's SHA-256 fingerprint, as openssl prints it, or without colons."""
    ok = re.fullmatch(r"[0-9a-f]{64}|[0-9a-f]{2}(:[0-9a-f]{2}){31}", text.lower())
    return None if ok else Reason("config.fingerprint")


class PinnedConnection(HTTPSConnection):
    """A connection that is closed before a word is sent if the certificate is another one."""

    def __init__(self, host: str, port: int, fingerprint: str, timeout_s: float) -> None:
        """`fingerprint`: see `is_fingerprint`. Connecting may raise WrongCertificateError."""
        # Whom the system trusts is of no interest, and takes long to load.
        context = create_urllib3_context(cert_reqs=ssl.CERT_NONE)
        super().__init__(
            host, port, timeout=timeout_s, ssl_context=context, assert_fingerprint=fingerprint
        )

    def connect(self) -> None:
        """Connect, and look who it is."""
        try:
            super().connect()
        except SSLError as error:
            said = own_words(str(error))
            raise WrongCertificateError("driver.other_certificate", said=said) from None


class Exchange:
    """Requests by one connection. They block: `in_time` makes them in a thread."""

    def __init__(self, connection: HTTPConnection) -> None:
        """Connect with the first request."""
        self.connection = connection
        self._sock: socket.socket | None = None

    def ask(
        self, method: str, path: str, headers: Mapping[str, str], body: str | None = None
    ) -> BaseHTTPResponse:
        """Return an answer, whose body is still to be read."""
        headers = {"User-Agent": f"naproxy/{__version__}", **headers}
        self.connection.request(
            method, path, body, headers, preload_content=False, decode_content=False
        )
        # The connection forgets it when the answer is to be the last.
        self._sock = self.connection.sock
        return self.connection.getresponse()

    async def in_time(self, work: Callable[[], _T], timeout_s: float) -> _T:
        """Return what `work` makes of its requests. TimeoutError, LostError, WrongError of its."""
        try:
            async with asyncio.timeout(timeout_s):
                return await asyncio.to_thread(self._do, work)
        except (TimeoutError, WrongError):
            raise
        except (OSError, HTTPException, HTTPError, ValueError) as error:
            # urllib3 tells where in itself it happened; the cause is what happened.
            why = program.why(error.__cause__ or error)
            raise LostError("core.own_words", text=why) from None
        finally:
            # A thread that still waits in this socket comes to its end.
            with contextlib.suppress(OSError):
                if self._sock:
                    self._sock.shutdown(socket.SHUT_RDWR)

    def _do(self, work: Callable[[], _T]) -> _T:
        with contextlib.closing(self.connection):
            return work()
