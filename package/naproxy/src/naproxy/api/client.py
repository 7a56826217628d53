"""Client of the control API: one request a connection, over the controller's unix socket."""

from __future__ import annotations

import http.client
import json
import socket
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

DEFAULT_SOCKET: Final = "/run/naproxy/control.sock"
TIMEOUT_S: Final = 10.0


class NoAnswerError(Exception):
    """Why the controller did not answer, in words."""


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
        return Answer(response.status, json.loads(response.read()))
    except FileNotFoundError:
        raise NoAnswerError(f"no controller runs: there is no {path}") from None
    except ConnectionRefusedError:
        raise NoAnswerError(f"no controller runs: nobody listens on {path}") from None
    except PermissionError:
        raise NoAnswerError(f"you may not use {path}") from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise NoAnswerError(f"the controller does not answer on {path}: {error!r}") from None
    finally:
        connection.close()
