"""An application that is asked whether it is busy."""

import asyncio

from naproxy.controller.application import Application
from naproxy.core.reason import Reason
from naproxy.core.wire import Web
from naproxy.server.application import busy
from naproxy.server.inhibitors import Settings

PATH = "/busy"


RUNNING = "jobs.running"
UNCLEAR = Reason("server.busy_no_field", path=PATH, field=RUNNING)


def running(value: str) -> bytes:
    return f'{{"jobs": {{"running": {value}}}}}'.encode()


def test_a_status_says_whether_it_is_busy() -> None:
    for status in (409, 423, 503):
        assert busy(PATH, "", status, b"") == Reason("server.busy", path=PATH), status
    assert busy(PATH, "", 204, b"") is None
    for status in (302, 404, 500):
        for field in ("", "jobs"):
            unclear = Reason("server.busy_unclear", path=PATH, what=f"HTTP {status}")
            assert busy(PATH, field, status, b'{"jobs": 0}') == unclear, status


def test_a_field_says_whether_it_is_busy() -> None:
    for value in ("true", "3", '"backup"', "[1]", '{"a": 1}'):
        says = Reason("server.busy_says", path=PATH, field=RUNNING, value=value)
        assert busy(PATH, RUNNING, 200, running(value)) == says, value
    for value in ("false", "0", '""', "null", "[]", "{}"):
        assert busy(PATH, RUNNING, 200, running(value)) is None, value
    long = busy(PATH, RUNNING, 200, running(f'"{"x" * 5000}"'))
    assert long
    assert len(long.params["value"]) < 100


def test_an_answer_that_cannot_be_understood_keeps_it_awake() -> None:
    for body in (b"", b"<html>", b"{}", b"[1]", b"7", b'{"jobs": 1}', b"\xff", b"[" * 60000):
        assert busy(PATH, RUNNING, 200, body) == UNCLEAR, body[:20]


async def asked(answer: bytes, field: str = "") -> tuple[Reason | None, bytes]:
    """Ask somebody who answers so; also returns the request."""
    heard = b""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal heard
        heard = await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        settings = Settings(busy_path=PATH, busy_field=field)
        application = Application(settings, Web("127.0.0.1", port, name="www.example.org"))
        return await application.busy(), heard


def test_it_is_asked_by_the_servers_name() -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{}"
    reason, request = asyncio.run(asked(answer))
    assert reason is None
    assert request.startswith(b"GET /busy HTTP/1.0\r\nHost: www.example.org\r\n")


def test_a_status_needs_no_words() -> None:
    assert asyncio.run(asked(b"HTTP/1.1 200\r\n\r\n"))[0] is None


def test_its_field_is_read() -> None:
    reason, _ = asyncio.run(asked(b'HTTP/1.1 200 OK\r\n\r\n{"running": 2}', "running"))
    assert reason == Reason("server.busy_says", path=PATH, field="running", value="2")


def test_who_answers_nonsense_or_nothing_may_be_busy() -> None:
    for answer in (
        *(b"", b"HTTP/1.1 200", b"hello\r\n\r\n"),
        b"HTTP/1.1 200 OK\r\n\r\n" + b" " * 70000,
    ):
        reason, _ = asyncio.run(asked(answer))
        assert reason, answer[:30]
        assert reason.code == "server.busy_unclear", answer[:30]
    reason = asyncio.run(Application(Settings(busy_path=PATH), Web("127.0.0.1", 1)).busy())
    assert reason
    assert reason.code == "server.busy_unclear"


def test_without_a_path_nobody_is_asked() -> None:
    assert asyncio.run(Application(Settings(), Web("127.0.0.1", 1)).busy()) is None
