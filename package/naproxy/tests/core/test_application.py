"""An application that is asked whether it is busy."""

import asyncio

import pytest
from naproxy.controller.application import Application
from naproxy.core.reason import Reason
from naproxy.core.wire import Web
from naproxy.server.application import busy
from naproxy.server.inhibitors import Settings

PATH = "/busy"


def test_a_status_says_that_it_is_busy() -> None:
    for status in (409, 423, 503):
        assert busy(PATH, "", status, b"") == Reason("server.busy", path=PATH), status


def test_a_good_status_says_that_it_is_not() -> None:
    assert busy(PATH, "", 204, b"") is None


@pytest.mark.parametrize("field", ["", "jobs"])
@pytest.mark.parametrize("status", [302, 404, 500])
def test_another_status_says_nothing(status: int, field: str) -> None:
    reason = busy(PATH, field, status, b'{"jobs": 0}')
    assert reason == Reason("server.busy_unclear", path=PATH, what=f"HTTP {status}")


def test_a_field_says_that_it_is_busy() -> None:
    for value in ("true", "3", '"backup"', "[1]", '{"a": 1}'):
        reason = busy(PATH, "jobs.running", 200, f'{{"jobs": {{"running": {value}}}}}'.encode())
        assert reason == Reason("server.busy_says", path=PATH, field="jobs.running", value=value), (
            value
        )


def test_a_field_says_that_it_is_not() -> None:
    for value in ("false", "0", '""', "null", "[]", "{}"):
        assert busy(PATH, "running", 200, f'{{"running": {value}}}'.encode()) is None, value


def test_an_answer_that_cannot_be_understood_keeps_it_awake() -> None:
    for body in (b"", b"<html>", b"{}", b"[1]", b"7", b'{"jobs": 1}', b"\xff", b"[" * 60000):
        reason = busy(PATH, "jobs.running", 200, body)
        assert reason == Reason("server.busy_no_field", path=PATH, field="jobs.running"), body


def test_of_a_long_value_the_beginning_is_shown() -> None:
    reason = busy(PATH, "why", 200, b'{"why": "' + b"x" * 5000 + b'"}')
    assert reason
    assert len(reason.params["value"]) < 100


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


def test_who_answers_nonsense_may_be_busy() -> None:
    for answer in (
        b"",
        b"HTTP/1.1 200",
        b"hello\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n" + b" " * 70000,
    ):
        reason, _ = asyncio.run(asked(answer))
        assert reason, answer
        assert reason.code == "server.busy_unclear", answer


def test_who_does_not_answer_may_be_busy() -> None:
    application = Application(Settings(busy_path=PATH), Web("127.0.0.1", 1))
    reason = asyncio.run(application.busy())
    assert reason
    assert reason.code == "server.busy_unclear"


def test_without_a_path_nobody_is_asked() -> None:
    assert asyncio.run(Application(Settings(), Web("127.0.0.1", 1)).busy()) is None
