"""FastAPI and uvicorn: pages and parts of pages, data, large heads."""

import os
import re
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from typing import Any

from tests.patience import PATIENCE_S, wait_for
from tests.simulator.office.namespace import ROOT
from tests.traffic.conftest import FLAGS, Behind

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

CHAT = """
import sys
from websockets.sync.client import connect

with connect(sys.argv[1], max_size=None) as chat:
    for number in range(50):
        chat.send(str(number) * 5000)
        assert chat.recv() == str(number) * 5000
"""


def test_htmx_gets_its_part_and_a_browser_the_page(fastapi: Behind) -> None:
    part, page = b"<li>Ada</li>", b"<html><ul><li>Ada</li></ul></html>"
    for _ in range(2):
        assert fastapi.ask("/contacts", HX_Request="true")[1] == part
        assert fastapi.ask("/contacts", Accept=BROWSER)[1] == page
    response, _ = fastapi.ask("/contacts", Accept=BROWSER, HX_Request="true", X_Naproxy_Debug="1")
    assert response.headers["X-Naproxy"] == "hit"


def test_a_browser_gets_the_page_where_a_program_gets_data(fastapi: Behind) -> None:
    data, page = b'["items"]', b"<html>items</html>"
    assert fastapi.ask("/items", Accept="application/json")[1] == data
    assert fastapi.ask("/items", Accept=BROWSER)[1] == page
    assert fastapi.ask("/items", Accept="application/json")[1] == data


def test_data_given_by_default_does_not_replace_the_page(fastapi: Behind) -> None:
    assert fastapi.ask("/items?all", Accept="*/*")[1] == b'["items"]'
    assert fastapi.ask("/items?all", Accept=BROWSER)[1] == b"<html>items</html>"


def test_large_requests_arrive_whole(fastapi: Behind) -> None:
    for name, size in (
        ("Cookie", 8300),
        ("Cookie", 16000),
        ("Authorization", 9000),
        ("X-A", 31000),
    ):
        for method in ("GET", "POST"):
            response, said = fastapi.ask("/heads", method, **{name: "v" * size})
            assert response.status == 200, (name, size)
            assert int(said) > size
    many = {f"X-Line-{number}": "v" * 150 for number in range(90)}
    response, said = fastapi.ask("/heads", **many)
    assert response.status == 200
    assert int(said) > 90 * 150


def test_large_responses_arrive_whole(fastapi: Behind) -> None:
    for cookies, size in ((1, 8300), (65, 20), (100, 500), (120, 280), (4, 15000)):
        # Python's own client takes 100 lines.
        url = f"http://127.0.0.1:{fastapi.box.port}/heads?cookies={cookies}&size={size}"
        words = ["curl", "-sS", "-D", "-", "-o", "/dev/null", "-b", "v" * 16000, url]
        head = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        assert head.startswith("HTTP/1.1 200 "), (cookies, size)
        found = re.findall(r"^set-cookie: c\d+=(v+);", head, re.M | re.I)
        assert [len(value) for value in found] == [size] * cookies


def test_a_larger_request_is_refused_in_words(fastapi: Behind) -> None:
    response, said = fastapi.ask("/heads", Cookie="v" * 36000, Accept="text/html")
    assert response.status == 431
    assert b"cookies" in said


def test_an_event_arrives_before_the_next_is_made(fastapi: Behind) -> None:
    fastapi.each_event_in_time()


def test_a_page_that_takes_long_is_not_kept(fastapi: Behind) -> None:
    """Whoever comes within the first seconds shares it."""

    def number() -> int:
        with fastapi.reading("/report") as page:
            return int(page.read(8)[3:4])

    with fastapi.reading("/report") as page:
        assert page.read(8) == b"<p>1</p>"
        assert number() == 1
        # Those who share it are in flight until more of it comes: not too many.
        while number() == 1:
            time.sleep(1)
        fastapi.ask("/go")
        assert page.read() == b"<p>end</p>"


def test_a_chat_goes_through(fastapi: Behind) -> None:
    argv = [sys.executable, "-c", CHAT, f"ws://127.0.0.1:{fastapi.box.port}/chat"]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "build/traffic/python")}
    subprocess.run(argv, env=env, check=True, timeout=60)


def ended(stream: HTTPConnection) -> bool:
    """Has the box closed this connection, of which all that came was read?"""
    assert stream.sock
    stream.sock.setblocking(False)
    try:
        return not stream.sock.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    finally:
        stream.sock.settimeout(PATIENCE_S)


def test_silent_streams_leave_half_of_the_room_after_a_minute(fastapi: Behind, small: Any) -> None:
    """One address alone has half of the room at most: these are two."""
    small.set("state=awake", f"address=127.0.0.1:{fastapi.port}", FLAGS)
    with ExitStack() as stack:
        streams = []
        for address in ("127.0.0.2",) * 4 + ("127.0.0.3",) * 2:
            visitor = HTTPConnection(
                "127.0.0.1", small.port, timeout=PATIENCE_S, source_address=(address, 0)
            )
            stack.enter_context(closing(visitor))
            visitor.request("GET", "/events")
            response = visitor.getresponse()
            assert response.read1() == b"data: 1\n\n"
            streams.append((visitor, response))
        wait_for(lambda: sum(ended(visitor) for visitor, _ in streams) == 2, "room", 120)
        fastapi.ask("/go")
        for visitor, response in streams:
            if not ended(visitor):
                assert response.read() == b"data: 2\n\n"
