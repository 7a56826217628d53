"""Lets the machine's own browser reach a port inside a network namespace."""

import contextlib
import errno
import socket
import threading
from typing import Self

from tests.simulator.office.namespace import Namespace

_PIECE = 65536


class Relay:
    """Listens on 127.0.0.1 and passes each connection on to `port` in there."""

    def __init__(self, inside: Namespace, port: int, wanted: int) -> None:
        """`wanted` is the port outside; another one where it is in use."""
        self._inside = inside
        self._port = port
        self._listener = _listener(wanted)
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, name="relay", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        # A blocked accept is not woken by close.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                outside, _ = self._listener.accept()
                threading.Thread(target=self._pass_on, args=(outside,), daemon=True).start()

    def _pass_on(self, outside: socket.socket) -> None:
        with (
            outside,
            contextlib.suppress(OSError),
            self._inside.connect("127.0.0.1", self._port, timeout_s=5.0) as inside,
        ):
            inside.settimeout(None)
            back = threading.Thread(target=_copy, args=(inside, outside), daemon=True)
            back.start()
            _copy(outside, inside)
            back.join()


def _copy(source: socket.socket, goal: socket.socket) -> None:
    """Pass on what comes until the end, which is passed on too."""
    with contextlib.suppress(OSError):
        while data := source.recv(_PIECE):
            goal.sendall(data)
    with contextlib.suppress(OSError):
        goal.shutdown(socket.SHUT_WR)


def _listener(wanted: int) -> socket.socket:
    for port in (wanted, 0):
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError as error:
            listener.close()
            if port and error.errno == errno.EADDRINUSE:
                continue
            raise
        listener.listen(64)
        return listener
    raise AssertionError("the second one is any port")
