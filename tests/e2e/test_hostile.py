"""Garbage where the parts of the box meet, while it serves: it goes on serving."""

import contextlib
import os
import random
import socket
import struct
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from naproxy.core.page_h import PAGE_MAGIC, PAGE_SIZE, PAGE_VERSION

from tests.e2e.clients import Load, ask, fresh
from tests.patience import wait_for
from tests.simulator.office import Office

DICE = random.Random(2)

PAGES = {
    "empty": b"",
    "short": struct.pack("=III", PAGE_MAGIC, PAGE_VERSION, PAGE_SIZE),
    "zeros": bytes(PAGE_SIZE),
    "another magic": struct.pack("=III", PAGE_MAGIC + 1, PAGE_VERSION, PAGE_SIZE).ljust(PAGE_SIZE),
    "another version": struct.pack("=III", PAGE_MAGIC, 99, PAGE_SIZE).ljust(PAGE_SIZE, b"\0"),
    "noise": DICE.randbytes(PAGE_SIZE),
    "noise behind a good head": struct.pack("=III", PAGE_MAGIC, PAGE_VERSION, PAGE_SIZE)
    + DICE.randbytes(PAGE_SIZE - 12),
    "long": bytes(3 * PAGE_SIZE),
}

ON_CONTROL = {
    "nothing": b"",
    "noise": DICE.randbytes(5000),
    "no request": b"hello\r\n\r\n",
    "a long line": b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n\r\n",
    "many headers": b"GET /v1/status HTTP/1.1\r\n" + b"A: b\r\n" * 20_000 + b"\r\n",
    "a wrong length": b"PUT /v1/config HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
    "a huge length": b"PUT /v1/config HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\nx",
    "no JSON": b"POST /v1/servers/web/mode HTTP/1.1\r\nContent-Length: 3\r\n\r\n{{{",
    "no such server": b"POST /v1/servers/../wake HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}",
    "half a request": b"GET /v1/status HTTP/1.1\r\nHost",
}

ON_WAKE = {
    "empty": b"",
    "noise": DICE.randbytes(1024),
    "too long": b"naproxy-wake 1\nserver=web\npath=/" + b"a" * 60_000,
    "another version": b"naproxy-wake 2\nserver=web\n",
    "no server": b"naproxy-wake 1\nreason=page\n",
    "an unknown server": b"naproxy-wake 1\nserver=other\nreason=page\nmethod=GET\nclass=person\n",
    "not UTF-8": b"naproxy-wake 1\nserver=web\npath=/\xff\xfe\n",
}


@contextlib.contextmanager
def served_all_the_time(office: Office) -> Iterator[None]:
    """Send requests all the time; each must be answered."""
    with Load(lambda _: ask(office.client, fresh("/app/reply")), threads=2) as load:
        yield
        so_far = len(load.answers)
        wait_for(lambda: len(load.answers) > so_far + 4, "more answers")
    assert {(answer.status, answer.error) for answer in load.answers} == {(200, "")}


def write_noise(page: Path) -> None:
    with page.open("r+b") as file:
        file.write(DICE.randbytes(PAGE_SIZE))


def replace(content: bytes, page: Path) -> None:
    new = page.with_suffix(".test")
    new.write_bytes(content)
    new.chmod(0o660)
    owner = page.stat()
    os.chown(new, owner.st_uid, owner.st_gid)
    new.rename(page)


HARMS: dict[str, Callable[[Path], None]] = {
    **{name: partial(replace, content) for name, content in PAGES.items()},
    "gone": Path.unlink,
    "noise over the one in use": write_noise,
}


FEW = ("gone", "noise", "another version")
LONG = [
    pytest.param(HARMS[name], id=name, marks=pytest.mark.long)
    for name in sorted(HARMS.keys() - FEW)
]


@pytest.mark.parametrize("harm", [*(pytest.param(HARMS[n], id=n) for n in FEW), *LONG])
def test_a_malformed_page_fails_no_request_and_the_next_controller_rewrites_it(
    office: Office, harm: Callable[[Path], None]
) -> None:
    with served_all_the_time(office):
        harm(office.box.run_dir / "page")
    if office.box.controller and office.box.controller.poll() is None:
        office.box.kill_controller()
    office.box.start_controller()
    office.box.sleep()
    assert ask(office.client, fresh()).status == 200


def test_garbage_on_the_control_socket_changes_nothing(office: Office) -> None:
    with served_all_the_time(office):
        for name, garbage in ON_CONTROL.items():
            with socket.socket(socket.AF_UNIX) as line:
                line.settimeout(5)
                line.connect(str(office.box.run_dir / "control.sock"))
                answer = b""
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    line.sendall(garbage)
                    line.shutdown(socket.SHUT_WR)
                    while data := line.recv(65536):
                        answer += data
                assert not answer or answer.startswith(b"HTTP/1.1 4"), name
            assert office.box.status()["state"] == "awake", name


def test_many_silent_connections_to_the_control_socket(office: Office) -> None:
    with served_all_the_time(office), contextlib.ExitStack() as stack:
        for _ in range(200):
            line = stack.enter_context(socket.socket(socket.AF_UNIX))
            line.settimeout(1)
            with contextlib.suppress(OSError):
                line.connect(str(office.box.run_dir / "control.sock"))
        assert ask(office.client, fresh()).status == 200
    wait_for(office.box.healthy, "the controller to answer again")


def test_garbage_on_the_wake_socket_wakes_nobody(asleep: Office) -> None:
    for name, garbage in ON_WAKE.items():
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.connect(str(asleep.box.run_dir / "wake.sock"))
            for _ in range(50):
                sender.send(garbage)
        assert asleep.box.healthy(), name
        assert asleep.server.board.state == "off", name


def test_a_wake_among_garbage_is_heard(asleep: Office) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.connect(str(asleep.box.run_dir / "wake.sock"))
        sender.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            for _ in range(1000):
                sender.send(ON_WAKE["noise"])
    assert ask(asleep.client, fresh()).status == 200
