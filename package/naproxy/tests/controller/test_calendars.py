"""A calendar is fetched, kept and used; what comes from elsewhere harms nobody."""

import asyncio
import json
import socket
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from naproxy.controller import calendar_reader
from naproxy.controller import calendars as calendars_module
from naproxy.controller.calendar_reader import Reader
from naproxy.controller.calendars import Calendars
from naproxy.core import office_time
from naproxy.core.reason import Reason, reason_of
from naproxy.server.ical import MOST_BYTES
from naproxy.server.inhibitors import Agenda, Settings
from problems import problems
from samples import WEB
from web_server import WebServer, serving

NOW_S = datetime(2026, 11, 18, 12, tzinfo=UTC).timestamp()
GOOD = (
    "BEGIN:VCALENDAR\nBEGIN:VEVENT\nSUMMARY:Choir\nDTSTART:20261118T190000Z\n"
    "DURATION:PT1H\nEND:VEVENT\nEND:VCALENDAR\n"
)
NEVER = GOOD.replace("DURATION", "RRULE:FREQ=HOURLY;BYMONTH=2;BYMONTHDAY=30\nDURATION")


class Web(WebServer):
    """A calendar with a password and a secret address."""

    @property
    def url(self) -> str:
        return f"http://ann:secret@127.0.0.1:{self.server_port}/private-token/office.ics"


@pytest.fixture
def web() -> Iterator[Web]:
    server = Web(GOOD.encode())
    with serving(server):
        yield server


Look = Callable[[], tuple[list[str], str]]


@pytest.fixture
def look(web: Web, tmp_path: Path) -> Look:
    """Return the names of the events that are known after a look, and what is wrong."""

    def look() -> tuple[list[str], str]:
        said = Reader(web.url, tmp_path / "kept" / "web.json", "UTC", NOW_S).look()
        names = [name for _, _, name in said["events"] or ()]
        return names, str(reason_of(said["problem"])) if said["problem"] else ""

    return look


def test_it_is_asked_for_again_only_if_it_has_changed(web: Web, look: Look) -> None:
    web.headers = {"ETag": '"7"', "Last-Modified": "Wed, 18 Nov 2026 10:00:00 GMT"}
    assert look() == (["Choir"], "")
    web.status, web.body = 304, b""
    assert look() == (["Choir"], "")
    first, second = (head for _, head in web.asked)
    assert first["authorization"] == "Basic YW5uOnNlY3JldA=="
    assert "if-none-match" not in first
    assert second["if-none-match"] == '"7"'
    assert second["if-modified-since"] == "Wed, 18 Nov 2026 10:00:00 GMT"


def test_the_last_good_one_is_used_until_there_is_another(web: Web, look: Look) -> None:
    look()
    for status, headers, body, words in (
        (500, {}, GOOD, "status 500"),
        (304, {}, "", ""),
        (200, {}, "<html>Log in", "not a calendar"),
        (200, {}, GOOD + "x" * MOST_BYTES, "1048576 bytes"),
        (200, {}, GOOD[:-20], "not the whole calendar"),
        (200, {"Content-Encoding": "gzip"}, GOOD, "not a calendar"),
        (302, {"Location": "file:///etc/passwd"}, "", "could not be fetched"),
        (302, {"Location": "/private-token/office.ics"}, "", "could not be fetched"),
    ):
        web.status, web.headers, web.body = status, headers, body.encode()
        names, wrong = look()
        assert names == ["Choir"], words
        assert words in wrong
        assert bool(words) == bool(wrong)
        assert "private-token" not in wrong
        assert "secret" not in wrong


def test_a_silent_site_is_given_up(web: Web, look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    look()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setattr(Web, "url", web.url)  # as the copy knows it
        web.status, web.headers = 302, {"Location": f"http://127.0.0.1:{silent.getsockname()[1]}/"}
        monkeypatch.setattr(calendar_reader, "_FETCH_S", 0.2)
        assert look() == (["Choir"], "It could not be fetched: connection timed out.")


def test_a_rule_without_dates_is_given_up(
    web: Web, look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    look()
    web.body = NEVER.encode()
    monkeypatch.setattr(calendar_reader, "_RECKON_S", 0.2)
    began_s = time.process_time()
    assert look() == (["Choir"], "Its rules take too long to work out.")
    assert time.process_time() - began_s < 2


def test_a_file_is_read_and_another_calendars_copy_is_not(
    web: Web, look: Look, tmp_path: Path
) -> None:
    look()
    file = tmp_path / "office.ics"
    file.write_text(GOOD.replace("Choir", "Assembly"))
    copy = tmp_path / "kept" / "web.json"
    assert Reader(str(file), copy, "", NOW_S).look()["events"][0][2] == "Assembly"
    assert copy.stat().st_mode & 0o777 == 0o600
    gone = Reader("/nowhere.ics", copy, "", NOW_S).look()
    assert gone["events"] is None
    assert reason_of(gone["problem"]).code == "server.calendar_unreachable"


def test_a_file_in_utf_16_is_read_and_its_copy_too(tmp_path: Path) -> None:
    file = tmp_path / "office.ics"
    file.write_bytes(GOOD.replace("Choir", "Büro").encode("utf-16"))
    reader = Reader(str(file), tmp_path / "web.json", "UTC", NOW_S)
    assert reader.look()["events"][0][2] == "Büro"
    file.unlink()
    assert Reader(str(file), tmp_path / "web.json", "UTC", NOW_S).look()["events"][0][2] == "Büro"


def test_an_address_of_a_subscription_is_asked_over_https(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    address = "webcal://cloud.example.org/office.ics"
    assert problems(f'{WEB}[server.awake]\ncalendar = "{address}"\n') == []
    asked: list[str] = []

    def request(_: object, _method: str, url: str, **_more: object) -> None:
        asked.append(url)
        raise OSError(101, "Network is unreachable")

    monkeypatch.setattr(calendar_reader.urllib3.PoolManager, "request", request)
    said = Reader(address, tmp_path / "web.json", "UTC", NOW_S).look()
    assert asked == ["https://cloud.example.org/office.ics"]
    assert reason_of(said["problem"]).code == "server.calendar_unreachable"


def test_events_left_out_and_events_in_doubt_are_told_apart() -> None:
    left, doubt = (
        calendar_reader.read(
            GOOD.replace("DURATION:PT1H", more).encode(), UTC, NOW_S, NOW_S + 86400
        )
        for more in ("DURATION:-PT1H", "RRULE:often\nDURATION:PT1H")
    )
    assert (left.left_out, left.doubted, doubt.left_out, doubt.doubted) == (1, 0, 0, 1)
    for numbers, code in (((2, 0), "left_out"), ((0, 2), "doubted"), ((1, 2), "both")):
        problem = calendars_module._not_understood(*numbers, doubt.why or Reason("x"))
        assert problem.code == f"server.calendar_{code}"
        assert "Choir" in str(problem)


def test_an_invalid_address_is_rejected() -> None:
    web = ("ftp://a/b", "http://", "http://a:99999/", "http://[::1/", "http://a b/")
    for address in ("office.ics", *web):
        found = problems(f'{WEB}[server.awake]\ncalendar = "{address}"\n')
        assert found == [("server.web.awake.calendar", "config.calendar")], address


async def first_of(file: Path, folder: Path) -> tuple[Agenda, Calendars]:
    """Return what a process of its own tells the controller first."""
    heard: asyncio.Queue[Agenda] = asyncio.Queue()
    settings = Settings(calendar=str(file))
    calendars = Calendars("web", settings, folder, heard.put_nowait, office_time.where)
    calendars.begin()
    assert await heard.get() == Agenda()
    async with asyncio.timeout(60):
        agenda = await heard.get()
    calendars.stop()
    return agenda, calendars


async def test_a_process_of_its_own_tells_the_controller(tmp_path: Path) -> None:
    file = tmp_path / "office.ics"
    now = datetime.now(UTC)
    file.write_text(GOOD.replace("20261118T190000Z", f"{now:%Y%m%dT%H%M%SZ}"))
    agenda, calendars = await first_of(file, tmp_path / "kept")
    assert [each.name for each in agenda.events] == ["Choir"]
    assert agenda.until_s > now.timestamp() + 8 * 86400
    status = calendars.status()
    assert status
    assert status["problem"] is None
    assert json.loads((tmp_path / "kept" / "web.json").read_text())["text"] == file.read_text()


async def test_an_omitted_entry_is_reported_as_a_problem(tmp_path: Path) -> None:
    file = tmp_path / "office.ics"
    moment = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    text = GOOD.replace("DURATION", "RRULE:FREQ=SECONDLY\nDURATION")
    file.write_text(text.replace("20261118T190000Z", moment))
    agenda, _ = await first_of(file, tmp_path)
    assert agenda.problem
    # Its first time is known, and counts.
    assert [each.name for each in agenda.events] == ["Choir"]
    assert agenda.problem.codes() == (
        "server.calendar_doubted",
        "server.calendar_entry",
        "server.calendar_rule",
    )
