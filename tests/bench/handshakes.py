"""`python -m tests.bench.handshakes PORT SECONDS KIND`: shakes hands, `full` or `resumed`.

At the end it prints how often, and how often the session was one that had been before.
"""

from __future__ import annotations

import json
import socket
import ssl
import sys
import threading
import time

from tests.bench.tls_line import context
from tests.simulator.office.box import ADDRESS, HOST

THREADS = 4


class Shaker:
    """Shakes hands until it is late."""

    def __init__(self, port: int, *, resumed: bool) -> None:
        """Without a session yet."""
        self.done = 0
        self.reused = 0
        self._at = (ADDRESS, port)
        self._speaks = context("http/1.1")
        self._session = self._first() if resumed else None

    def _first(self) -> ssl.SSLSession:
        with self._connected(None) as tls:
            # A session of TLS 1.3 comes after the handshake.
            tls.sendall(f"GET / HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n".encode())
            while tls.recv(1 << 16):
                pass
            assert tls.session
            return tls.session

    def _connected(self, session: ssl.SSLSession | None) -> ssl.SSLSocket:
        plain = socket.create_connection(self._at, 10)
        return self._speaks.wrap_socket(plain, server_hostname=HOST, session=session)

    def until(self, end_s: float) -> None:
        """Shake, again and again."""
        while time.monotonic() < end_s:
            with self._connected(self._session) as tls:
                self.done += 1
                self.reused += bool(tls.session_reused)


def main() -> None:
    """Shake hands, and say how often."""
    port, seconds, kind = sys.argv[1:]
    shakers = [Shaker(int(port), resumed=kind == "resumed") for _ in range(THREADS)]
    sys.stdin.readline()
    begun_s = time.monotonic()
    threads = [
        threading.Thread(target=shaker.until, args=(begun_s + float(seconds),))
        for shaker in shakers
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    said = {
        "done": sum(shaker.done for shaker in shakers),
        "reused": sum(shaker.reused for shaker in shakers),
        "seconds": time.monotonic() - begun_s,
    }
    sys.stdout.write(json.dumps(said) + "\n")


if __name__ == "__main__":
    main()
