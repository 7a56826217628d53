"""What the campaign's visitors do when a connection ends without an answer."""

import json
import random
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.faults.__main__ import keep, read_rows
from tests.faults.campaign import Row
from tests.faults.visitors import Visit, Visitors
from tests.simulator.office import Office

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
UNREAD = b"(a reset)"
CUT = OK[:7]
ROW = Row(0, "clock_step", "awake", 80, 0, 0, 1, 0, 0.5, 1.0, 0.0, 3.4, ["hit sent again"])


@contextmanager
def line(*answers: bytes) -> Iterator[tuple[Office, list[str]]]:
    """Answer each connection with the next of these bytes, then close it.

    UNREAD: close it as Varnish does, with the request still in its buffer, so by a reset.
    Yields an office whose client comes here, and the ids of the requests that were sent.
    """
    asked: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def connect(*_: object, timeout_s: float, **__: object) -> socket.socket:
            return socket.create_connection(listener.getsockname(), timeout_s)

        def serve() -> None:
            for answer in answers:
                taken, _ = listener.accept()
                with taken:
                    head = taken.recv(1 << 16)
                    asked.append(head.partition(b"X-Request-Id: ")[2][:32].decode())
                    if answer == UNREAD:
                        now = struct.pack("ii", 1, 0)
                        taken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, now)
                    else:
                        taken.sendall(answer)

        server = threading.Thread(target=serve)
        server.start()
        yield cast(Office, SimpleNamespace(client=SimpleNamespace(connect=connect))), asked
        listener.shutdown(socket.SHUT_RDWR)
        server.join()


def visit(office: Office, kind: str, cut: bool = False) -> Visit:
    return Visitors(office, random.Random(1), cut).visit(kind, 100)


@pytest.mark.parametrize("kind", ["hit", "head", "page"])
def test_a_safe_request_that_was_closed_unread_is_sent_once_more(kind: str) -> None:
    with line(UNREAD, OK) as (office, asked):
        answered = visit(office, kind)
    assert (answered.sent_again, answered.wrong, answered.asked) == (True, "", 1)
    assert answered.ids == tuple(asked)
    assert len(asked) == 2


def test_it_is_never_sent_a_third_time() -> None:
    with line(UNREAD, UNREAD, OK) as (office, asked):
        lost = visit(office, "hit")
        assert (lost.sent_again, len(asked)) == (True, 2)
        visit(office, "hit")  # takes the last answer
    assert lost.wrong


@pytest.mark.parametrize("kind", ["post", "websocket"])
def test_what_is_not_safe_is_lost_at_once(kind: str) -> None:
    with line(UNREAD, OK) as (office, asked):
        lost = visit(office, kind)
        assert len(asked) == 1
        visit(office, "hit")
    assert (lost.sent_again, bool(lost.wrong)) == (False, True)


def test_an_answer_that_had_begun_is_not_asked_for_again() -> None:
    with line(CUT, OK) as (office, asked):
        lost = visit(office, "hit")
        assert len(asked) == 1
        visit(office, "hit")
    assert (lost.sent_again, bool(lost.wrong)) == (False, True)


def test_when_the_child_was_killed_it_is_counted_apart() -> None:
    with line(UNREAD, UNREAD, OK) as (office, asked):
        answered = visit(office, "hit", cut=True)
    assert (answered.asked, answered.sent_again, answered.wrong) == (3, False, "")
    assert len(asked) == 3


def test_a_journal_cut_off_in_a_line_is_gone_on_with_after_the_last_whole_one(
    tmp_path: Path,
) -> None:
    journal = tmp_path / "cycles.jsonl"
    keep(journal, [ROW, ROW])
    whole = journal.read_text()
    journal.write_text(whole + json.dumps({"number": 2})[:5])
    keep(journal, read_rows(journal))
    assert journal.read_text() == whole
