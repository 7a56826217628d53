"""Client of the control API: one request a connection, over the controller's unix socket."""

from __future__ import annotations

import http.client
import json
import socket
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from naproxy.api.routes import TIMEOUT_S
from naproxy.core.reason import WrongError

DEFAULT_SOCKET: Final = "/run/naproxy/control.sock"
READERS_SOCKET: Final = "/run/naproxy/status.sock"
"""The same for programs that only read how servers and meters are."""


class NoAnswerError(WrongError):
    """Why the controller did not answer."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the controller said: a status, and JSON."""

    status: int
    body: Any

    @property
    def good(self) -> bool:
        """Whether it is an answer and not a refusal."""
        return self.status < HTTPStatus.BAD_REQUEST


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def ask(
    path: str,
    method: str,
    target: str,
    body: object = None,
    *,
    timeout_s: float = TIMEOUT_S,
) -> Answer:
    """Ask the controller; `body` is JSON, or bytes as they are. NoAnswerError if there is none."""
    connection = _UnixConnection(path, timeout_s)
    raw = body if body is None or isinstance(body, bytes) else json.dumps(body)
    try:
        with suppress(BrokenPipeError, ConnectionResetError):
            # Who refuses a body need not read it: then the answer is there.
            connection.request(method, target, raw)
        response = connection.getresponse()
        return Answer(response.status, _object(response.read()))
    except FileNotFoundError:
        raise NoAnswerError("api.no_socket", path=path) from None
    except ConnectionRefusedError:
        raise NoAnswerError("api.nobody_listens", path=path) from None
    except PermissionError:
        raise NoAnswerError("api.not_allowed", path=path) from None
    except (OSError, ValueError, RecursionError, http.client.HTTPException) as error:
        raise NoAnswerError("api.silent", path=path, said=repr(error)) from None
    finally:
        connection.close()


def _object(raw: bytes) -> dict[str, Any]:
    """Return what JSON says, as all routes answer; ValueError for anything but an object."""
    read = json.loads(raw)
    if not isinstance(read, dict):
        raise ValueError(f"{str(read)[:40]!r} is not an object")  # noqa: TRY004 - as for all input
    return read
