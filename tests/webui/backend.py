"""The stage's web server: on loopback, it falls asleep by a command and wakes by a magic packet.

It needs neither root nor a namespace: asleep it accepts connections and never answers. Its power,
and its times of falling asleep and waking, match the generated past (tests/simulator/past).
"""

import contextlib
import os
import random
import select
import socket
import socketserver
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Self

from tests.simulator.past.board import FALL_S, RISE_S, Power
from tests.simulator.past.draw import Meter
from tests.simulator.past.house import MAC

_EVERY_S = 0.02
_GONE_S = 0.5
"""So often it is looked whether a client still waits."""
_METER_S = 0.5
_QUICK_S = (0.1, 0.3)


_HTML = "Content-Type: text/html\r\n"
_MENU = """\
<meta name="generator" content="WordPress 6.8"><link rel="stylesheet" href="/wp-content/s.css">
<a href="/news/summer">News</a><a href="/news/winter">News</a><a href="/cart">Cart</a>
<a href="/visit">Visit</a><a href="/my-orders">Orders</a><img src="/wp-content/house.jpg">
"""
PAGES = {
    "/": (_HTML, _MENU),
    "/news/summer": (_HTML, _MENU),
    "/news/winter": (_HTML, _MENU),
    "/visit": (_HTML, _MENU),
    "/my-orders": (f"{_HTML}Set-Cookie: woocommerce_cart_hash=1\r\n", _MENU),
    "/wp-content/s.css": ("Content-Type: text/css\r\nCache-Control: max-age=86400\r\n", "p{}"),
    "/wp-content/house.jpg": ("Content-Type: image/jpeg\r\n", "jpeg"),
}
"""A small website: more headers, and the body. Whatever else is asked for is empty."""


def answer(request: bytes) -> bytes:
    """Answer a request."""
    words = request.split(b" ", 2)
    headers, body = PAGES.get(words[1].decode("latin-1") if len(words) == 3 else "", ("", ""))
    said = f"HTTP/1.1 200 OK\r\n{headers}Content-Length: {len(body)}\r\n\r\n"
    return (said + body * (not request.startswith(b"HEAD"))).encode()


def hung_up(client: socket.socket) -> bool:
    """Say whether the other side has closed its connection, or reset it."""
    poll = select.poll()
    poll.register(client, select.POLLRDHUP)
    return bool(poll.poll(0))


class Backend:
    """The sleep command creates `asleep_file`; `meter_file` has the watts."""

    def __init__(self, directory: Path, *, quick: bool = False) -> None:
        """`quick`: it falls and wakes at once."""
        self.asleep_file = directory / "asleep"
        self.meter_file = directory / "watts"
        self.power = Power.ON
        self.changes: list[tuple[float, Power]] = [(time.time(), Power.ON)]
        self.busy_s: defaultdict[int, float] = defaultdict(float)
        self._due_s = 0.0
        self._fall_s, self._rise_s = (_QUICK_S, _QUICK_S) if quick else (FALL_S, RISE_S)
        self._dice = random.Random()
        self._meter = Meter(self._dice)
        self._over = threading.Event()
        self._up = threading.Event()
        self._up.set()
        self._wire = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._wire.bind(("127.0.0.1", 0))
        self.wake_port: int = self._wire.getsockname()[1]
        self._web = socketserver.ThreadingTCPServer(("127.0.0.1", 0), self._handler())
        self._web.daemon_threads = True
        self.port: int = self._web.server_address[1]
        self._threads = [
            threading.Thread(target=target, daemon=True)
            for target in (self._web.serve_forever, self._live)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._web.shutdown()
        self._web.server_close()
        self._wire.close()

    def _handler(self) -> type[socketserver.BaseRequestHandler]:
        outer = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                # The controller asks a sleeping server several times a second. A thread for
                # each question that outlived it would take the processor from the tests.
                while not outer._up.wait(_GONE_S):
                    if outer._over.is_set() or hung_up(self.request):
                        return
                with contextlib.suppress(OSError):
                    self.request.sendall(answer(self.request.recv(4096)))

        return Handler

    def _enter(self, power: Power) -> None:
        self.power = power
        if power in (Power.ON, Power.FALLING):
            self._up.set()
        else:
            self._up.clear()
        self.changes.append((time.time(), power))
        del self.changes[:-16]

    def _live(self) -> None:
        metered_s = 0.0
        while not self._over.wait(_EVERY_S):
            now_s = time.monotonic()
            self._go_on(now_s, called=self._called())
            if now_s - metered_s >= _METER_S:
                metered_s = now_s
                self._say_watts()

    def _go_on(self, now_s: float, *, called: bool) -> None:
        if self.power is Power.ON and self.asleep_file.exists():
            self.asleep_file.unlink()
            self._due_s = now_s + self._dice.uniform(*self._fall_s)
            self._enter(Power.FALLING)
        elif self.power is Power.FALLING and now_s >= self._due_s:
            self._enter(Power.OFF)
        elif self.power is Power.OFF and called:
            self._due_s = now_s + self._dice.uniform(*self._rise_s)
            self._enter(Power.RISING)
        elif self.power is Power.RISING and now_s >= self._due_s:
            self._enter(Power.ON)

    def _called(self) -> bool:
        magic = b"\xff" * 6 + bytes.fromhex(MAC.replace(":", "")) * 16
        called = False
        with contextlib.suppress(BlockingIOError):
            while True:
                called = self._wire.recv(2000) == magic or called
        return called

    def _say_watts(self) -> None:
        second_s = int(time.time())
        second = next(self._meter.seconds(self.changes, self.busy_s, second_s, second_s + 1))
        new = self.meter_file.with_suffix(f".{os.getpid()}")
        new.write_text(f"{second.mean_mw / 1000:.3f}\n")
        new.replace(self.meter_file)
