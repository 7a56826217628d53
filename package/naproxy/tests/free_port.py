"""Ports for what tests start."""

import contextlib
import random
import socket

_given: set[int] = set()


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    """Return a port that nobody uses: none that the kernel may give to a client meanwhile.

    And none twice, though what it is for may not listen yet.
    """
    while True:
        port = random.randrange(10_000, 32_000)
        with socket.socket(socket.AF_INET, kind) as free, contextlib.suppress(OSError):
            free.bind(("0.0.0.0", port))
            if port not in _given:
                _given.add(port)
                return port
