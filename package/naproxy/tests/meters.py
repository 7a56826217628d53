"""What the tests of meters share: reading a driver, and what hostile devices send."""

from __future__ import annotations

import asyncio
import os
import pty
import socketserver
import ssl
import termios
import threading
import tty
from collections.abc import Callable, Iterator
from contextlib import aclosing, contextmanager, nullcontext
from typing import Any
from unittest import mock

from naproxy import drivers
from naproxy.core.state import State
from naproxy.drivers.meter import Fault, Reading, Site

Item = Reading | Fault


def made(name: str, *, state: State | None = None, **options: Any) -> Any:
    """A driver with these keys."""
    settings = drivers.settings("meter", name)(id="plug", of="web", **options)
    return drivers.driver("meter", settings, Site("127.0.0.1", lambda: state))


def read(name: str, count: int = 1, **options: Any) -> list[Item]:
    """The first items of a driver; a fault that ends it is the last one."""

    async def listen() -> list[Item]:
        items: list[Item] = []
        try:
            async with asyncio.timeout(20), aclosing(made(name, **options).readings()) as source:
                async for item in source:
                    items.append(item)
                    if len(items) == count:
                        break
        except Fault as fault:
            items.append(fault)
        return items

    return asyncio.run(listen())


def fault(name: str, timeout_s: float | None = None, **options: Any) -> Fault:
    """The fault that a driver's first item is; it waits for `timeout_s`, or as usual."""
    settings = drivers.settings("meter", name)
    with mock.patch.object(settings, "timeout_s", timeout_s) if timeout_s else nullcontext():
        [item] = read(name, **options)
    assert isinstance(item, Fault), item
    return item


def power_w(name: str, **options: Any) -> float:
    """The power that a driver's first item has."""
    [item] = read(name, **options)
    assert isinstance(item, Reading), (item, item.kind)
    return item.power_w


class Line:
    """A pseudo-terminal: `path` is the serial port, and what `say` takes comes out of it."""

    def __init__(self) -> None:
        self.ours, self.theirs = pty.openpty()
        tty.setraw(self.theirs)
        self.path = os.ttyname(self.theirs)

    def say(self, data: bytes) -> None:
        os.write(self.ours, data)

    def unplug(self) -> None:
        for end in (self.ours, self.theirs):
            if end >= 0:
                os.close(end)
        self.ours = self.theirs = -1


@contextmanager
def line() -> Iterator[Line]:
    made = Line()
    try:
        yield made
    finally:
        made.unplug()


def heard(name: str, data: bytes, count: int = 1, **options: Any) -> list[Item]:
    """What a serial driver makes of `data`, said once the port is open."""
    flush = termios.tcflush
    with line() as device:
        talk = threading.Thread(target=device.say, args=(data,))

        def flushed(descriptor: int, queue: int) -> None:
            # Opening throws away what came before.
            flush(descriptor, queue)
            talk.start()

        with mock.patch.object(termios, "tcflush", flushed):
            try:
                return read(name, count, device=device.path, **options)
            finally:
                if talk.ident:
                    talk.join()


Respond = Callable[[bytes], bytes]


@contextmanager
def web(respond: Respond, tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """The port of a server that sends `respond(the request's head)` and hangs up."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            head = b""
            while b"\r\n\r\n" not in head:
                more = self.request.recv(4096)
                if not more:
                    return
                head += more
            self.request.sendall(respond(head))

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = True
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            """A client that has enough hangs up."""

    with Server(("127.0.0.1", 0), Handler) as server:
        if tls:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def ok(body: bytes, kind: bytes = b"application/json") -> bytes:
    """A whole answer."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
    return head % (kind, len(body)) + body
