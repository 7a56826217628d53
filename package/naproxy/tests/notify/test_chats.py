"""Telegram and Matrix, before servers that keep what they are sent.

They were made from the services' documentation; docs/notify.md says what was tried with real ones.
"""

import json
from collections.abc import Iterator

import pytest
from naproxy.config import document as config
from naproxy.core.reason import Reason
from naproxy.core.schema import ConfigError
from naproxy.notify import sender
from naproxy.notify.channels import telegram
from web_server import WebServer, serving

LETTER = {"t_s": 1e9, "event": "disk", "title": "Office: the disk is full", "text": "Why.\n"}
TOKEN = "123456:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw"
ROOM = "!abc/ö:example.org"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[WebServer]:
    running = WebServer()
    monkeypatch.setattr(telegram, "SERVER", running.url)
    with serving(running):
        yield running


def sent(channel: str, settings: dict[str, str], **letter: str) -> Reason | None:
    return sender.send({"channel": channel, "settings": settings, "letter": {**LETTER, **letter}})


def matrix(server: WebServer) -> dict[str, str]:
    return {"matrix_server": f"{server.url}/", "matrix_room": ROOM, "matrix_token": "syt_x"}


def test_telegram_gets_the_text_for_the_chat(server: WebServer) -> None:
    settings = {"telegram_chat": "-100123", "telegram_token": TOKEN}
    assert sent("telegram", settings) is None
    [(path, head)], [(method, body)] = server.asked, server.sent
    assert (method, path) == ("POST", f"/bot{TOKEN}/sendMessage")
    assert "authorization" not in head
    said = {"chat_id": "-100123", "text": "Office: the disk is full\n\nWhy.\n"}
    assert json.loads(body) == said


def test_telegram_gets_no_more_than_a_message_may_have(server: WebServer) -> None:
    settings = {"telegram_chat": "1", "telegram_token": TOKEN}
    assert sent("telegram", settings, text="x" * 5000) is None
    assert len(json.loads(server.sent[0][1])["text"]) == 4096


def test_a_telegram_that_is_not_there_is_said_without_the_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(telegram, "SERVER", "http://127.0.0.1:9")
    problem = sent("telegram", {"telegram_chat": "1", "telegram_token": TOKEN})
    assert problem is not None
    assert TOKEN not in str(problem)


def test_matrix_gets_the_text_for_the_room_with_the_token(server: WebServer) -> None:
    assert sent("matrix", matrix(server)) is None
    [(path, head)], [(method, body)] = server.asked, server.sent
    room = "/_matrix/client/v3/rooms/%21abc%2F%C3%B6%3Aexample.org/send/m.room.message/"
    assert (method, path[: len(room)]) == ("PUT", room)
    assert head["authorization"] == "Bearer syt_x"
    assert json.loads(body) == {"msgtype": "m.text", "body": "Office: the disk is full\n\nWhy.\n"}


def test_matrix_takes_a_letter_that_is_sent_again_for_the_same(server: WebServer) -> None:
    for text in ("one", "one", "two"):
        assert sent("matrix", matrix(server), text=text) is None
    first, again, other = (path for path, _ in server.asked)
    assert first == again != other


def test_settings_that_cannot_be_meant_are_refused() -> None:
    for text, where in (
        ('telegram_chat = "Mona"\ntelegram_token = "1:aaaaaaaaaaaaaaaaaaaaaaa"', "telegram_chat"),
        ('telegram_chat = "1"', "telegram_token"),
        ('telegram_chat = "1"\ntelegram_token = "1/../x"', "telegram_token"),
        ('matrix_server = "matrix.org"', "matrix_server"),
        ('matrix_server = "https://matrix.org"\nmatrix_room = "#office:x"', "matrix_room"),
        ('matrix_server = "https://matrix.org"\nmatrix_room = "!x:y"', "matrix_token"),
        ('matrix_server = "https://matrix.org"\nmatrix_token = "x"', "matrix_room"),
    ):
        with pytest.raises(ConfigError) as caught:
            config.parse(f"[notify]\n{text}\n".encode())
        assert [problem.where for problem in caught.value.problems] == [f"notify.{where}"], text
