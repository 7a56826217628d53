"""The grid's carbon intensity from an API: what is read of its answer, and that none does harm."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from naproxy.config import document as config
from naproxy.config.document import Office
from naproxy.controller import intensity_reader
from naproxy.controller.intensity import Intensity
from naproxy.core.intensity import MOST_BYTES, grams
from naproxy.core.reason import Reason, WrongError, reason_of
from naproxy.core.schema import ConfigError
from web_server import WebServer, serving

BRITISH = b'{"data": [{"intensity": {"forecast": 260, "actual": 263, "index": "moderate"}}]}'


# What an answer says


@pytest.mark.parametrize(
    ("answer", "pointer", "co2_g"),
    [
        (b'{"zone": "CH", "carbonIntensity": 31.5}', "/carbonIntensity", 31.5),
        (BRITISH, "/data/0/intensity/actual", 263.0),
        (b'{"state": "118.4", "attributes": {}}', "/state", 118.4),
        (b'\xef\xbb\xbf{"a/b": {"c~d": {"": 0}}}', "/a~1b/c~0d/", 0.0),
        (b"5000", "", 5000.0),
        (b'{"0": {"~1": 7}}', "/0/~01", 7.0),
    ],
)
def test_the_number_is_where_the_pointer_leads(answer: bytes, pointer: str, co2_g: float) -> None:
    assert grams(answer, pointer) == co2_g


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (b"", "co2.no_json"),
        (b"<html>Log in</html>", "co2.no_json"),
        (b"\xff\xfe", "co2.no_json"),
        (b'{"v": 300', "co2.no_json"),
        (b"[" * 60_000, "co2.no_json"),
        (b'{"v":' * 10_000 + b"1" + b"}" * 10_000, "co2.no_json"),
        (b'{"v": ' + b"9" * 6000 + b"}", "co2.no_json"),
        (b'{"v": NaN}', "co2.no_json"),
        (b'{"v": Infinity}', "co2.no_json"),
        (b'{"v": 1e999}', "co2.out_of_range"),
        (b'{"v": ' + b"9" * 4000 + b"}", "co2.out_of_range"),
        (b'{"v": -0.1}', "co2.out_of_range"),
        (b'{"v": 5000.1}', "co2.out_of_range"),
        (b'{"v": "5001"}', "co2.out_of_range"),
        (b'{"v": true}', "co2.no_number"),
        (b'{"v": null}', "co2.no_number"),
        (b'{"v": [300]}', "co2.no_number"),
        (b'{"v": "unavailable"}', "co2.no_number"),
        (b'{"v": "nan"}', "co2.no_number"),
        (b'{"v": " 300"}', "co2.no_number"),
        ('{"v": "٣٠٠"}'.encode(), "co2.no_number"),
        (b'{"w": 300}', "co2.nothing_there"),
        (b"[300]", "co2.nothing_there"),
        (b"300", "co2.nothing_there"),
        (b'{"v": 300}' + b" " * MOST_BYTES, "co2.large"),
    ],
)
def test_what_is_no_such_number_is_refused(answer: bytes, code: str) -> None:
    with pytest.raises(WrongError) as refused:
        grams(answer, "/v")
    assert refused.value.reason.code == code


@pytest.mark.parametrize("pointer", ["/-", "/1", "/-1", "/00", "/x", "/0/0", "/" + "9" * 400])
def test_a_list_has_only_the_places_that_it_has(pointer: str) -> None:
    with pytest.raises(WrongError) as refused:
        grams(b"[300]", pointer)
    assert refused.value.reason.code == "co2.nothing_there"


# What the settings may say


@pytest.mark.parametrize(
    ("key", "value", "code"),
    [
        *(
            ("co2_url", value, "config.web_address")
            for value in (
                *("api.example.org", "ftp://api.example.org/", "http://", "https://a b/"),
                *("https://api.example.org:0/", "https://api.example.org:65536/"),
                *("https://ann:pw@api.example.org/", "https://good.example@evil.example/"),
                *(
                    "https://good.example\\\\@evil.example/",
                    "https://-x/",
                    "https://bücher.example/",
                ),
                *(
                    "https://[::1/",
                    "https://[1]/",
                    "https://[.]/",
                    "https://a?x",
                    "HTTPS://api.example.org/",
                ),
            )
        ),
        *(("co2_value", value, "config.json_pointer") for value in ("a", "/a~", "/a~2b", "#/a")),
        *(
            ("co2_header", value, "config.header")
            for value in (
                *(
                    "",
                    "a b",
                    "a:b",
                    "ключ",
                    "x" * 65,
                    "Host",
                    "content-length",
                    "Transfer-Encoding",
                ),
                *("connection", "Accept-Encoding", "Proxy-Authorization", "User-Agent"),
            )
        ),
        ("co2_header", "a\\r\\nb", "config.control"),
        ("co2_key_file", "key", "config.absolute"),
    ],
)
def test_a_wrong_setting_is_refused_with_its_name(key: str, value: str, code: str) -> None:
    with pytest.raises(ConfigError) as refused:
        config.parse(f'[office]\n{key} = "{value}"\n')
    (problem,) = refused.value.problems
    assert (problem.where, problem.reason.code) == (f"office.{key}", code)


@pytest.mark.parametrize(
    "url",
    [
        "https://api.electricitymaps.com/v3/carbon-intensity/latest?zone=CH",
        "https://api.carbonintensity.org.uk/intensity",
        "http://homeassistant.local:8123/api/states/sensor.grid",
        "http://[2001:db8::1]:8123/",
        "http://192.0.2.7",
    ],
)
def test_usual_addresses_are_taken(url: str) -> None:
    assert config.parse(f'[office]\nco2_url = "{url}"\n').office.co2_url == url


def test_a_key_that_would_go_in_clear_is_warned_of() -> None:
    said = '[office]\nco2_url = "http://192.0.2.7/"\n'
    assert config.look(said).warnings == []
    (warning,) = config.look(f'{said}co2_key_file = "/etc/naproxy/co2"\n').warnings
    assert (warning.where, warning.reason.code) == ("office.co2_key_file", "config.token_in_clear")


@pytest.mark.parametrize("key", ["", "a\nb", "a\r\nHost: evil.example", "ключ", "x" * 257])
def test_what_is_no_key_is_not_kept(key: str) -> None:
    (held,) = (each.metadata["holds"] for each in _fields() if each.metadata.get("holds"))
    assert held.check(key)
    assert held.check("Bearer eyJ.abc") is None


def _fields() -> Any:
    return Office.__dataclass_fields__.values()


# Asking


class Web(WebServer):
    """An API that says 300 g."""

    def __init__(self) -> None:
        super().__init__(b'{"carbonIntensity": 300}')

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v3?zone=CH"


@pytest.fixture
def web() -> Iterator[Web]:
    server = Web()
    with serving(server):
        yield server


def ask(url: str, **more: str) -> tuple[float | None, str]:
    job = {"url": url, "value": "/carbonIntensity", "header": "auth-token", "key": "hush", **more}
    said = intensity_reader.ask(job)
    return said["co2_g"], str(reason_of(said["problem"])) if said["problem"] else ""


def test_it_is_asked_with_its_key(web: Web) -> None:
    assert ask(web.url) == (300.0, "")
    ((path, head),) = web.asked
    assert path == "/v3?zone=CH"
    assert (head["auth-token"], head["accept-encoding"]) == ("hush", "identity")


def test_without_a_key_no_header_is_sent(web: Web) -> None:
    assert ask(web.url, key="") == (300.0, "")
    assert "auth-token" not in web.asked[0][1]


@pytest.mark.parametrize(
    ("status", "headers", "body", "words"),
    [
        (401, {}, b'{"carbonIntensity": 300}', "status 401"),
        (500, {}, b'{"carbonIntensity": 300}', "status 500"),
        (204, {}, b"", "status 204"),
        (200, {}, b'{"carbonIntensity": 300}' + b" " * (1 << 20), "more than 65536 bytes"),
        (200, {"Content-Encoding": "gzip"}, b'{"carbonIntensity": 300}', "no JSON"),
        (200, {"Content-Length": "1000"}, b'{"carbon', "no JSON"),
    ],
)
def test_an_answer_that_is_none_is_told(
    web: Web, status: int, headers: dict[str, str], body: bytes, words: str
) -> None:
    web.status, web.headers, web.body = status, headers, body
    co2_g, wrong = ask(web.url)
    assert co2_g is None
    assert words in wrong
    assert "hush" not in wrong


def test_the_key_goes_nowhere_else(web: Web) -> None:
    with Web() as other:
        web.status, web.headers = 302, {"Location": other.url}
        assert ask(web.url) == (None, "The answer has the status 302.")
        assert other.asked == []


def test_who_does_not_answer_in_time_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intensity_reader, "_FETCH_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        assert ask(url) == (None, "It could not be asked: connection timed out.")


def test_who_answers_drop_by_drop_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intensity_reader, "_FETCH_S", 0.3)
    ended = threading.Event()

    def drip(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n")
            while not ended.wait(0.02):
                connection.sendall(b" ")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=drip, args=(listener,), daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        assert ask(url) == (None, "It could not be asked: connection timed out.")
        ended.set()
        thread.join()


def test_nobody_there_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        url = f"http://127.0.0.1:{gone.getsockname()[1]}/"
    assert ask(url) == (None, "It could not be asked: connection refused.")


# By the controller


def looked(office: Office, heard: list[float]) -> dict[str, Any]:
    async def look() -> Any:
        asking = Intensity(heard.append)
        asking.configure(office)
        asking.stop()
        await asking.look()
        return asking.status()

    found: dict[str, Any] = asyncio.run(look())
    return found


def test_a_process_of_its_own_asks_with_the_key_of_the_file(web: Web, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("Bearer hush\n")
    key.chmod(0o600)
    heard: list[float] = []
    office = Office(co2_url=web.url, co2_header="Authorization", co2_key_file=str(key))
    status = looked(office, heard)
    assert heard == [300.0]
    assert web.asked[0][1]["authorization"] == "Bearer hush"
    assert (status["co2_g_per_kwh"], status["problem"]) == (300.0, None)
    assert time.time() - status["read_s"] < 60


def test_a_key_that_others_may_read_is_not_sent(web: Web, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("hush\n")
    key.chmod(0o644)
    heard: list[float] = []
    status = looked(Office(co2_url=web.url, co2_key_file=str(key)), heard)
    assert reason_of(status["problem"]).codes() == (
        "driver.secret",
        "co2.key",
        "driver.open_to_others",
    )
    assert (heard, web.asked) == ([], [])


def test_another_api_is_asked_at_once_and_the_old_answer_forgotten(web: Web) -> None:
    async def change() -> tuple[Any, Any, Any]:
        heard: asyncio.Queue[float] = asyncio.Queue()
        asking = Intensity(heard.put_nowait)
        asking.configure(Office(co2_url=web.url))
        async with asyncio.timeout(60):
            first = await heard.get()
            web.body = b'{"here": 120}'
            asking.configure(Office(co2_url=web.url, co2_value="/here"))
            between = asking.status()
            second = await heard.get()
        asking.configure(Office())
        assert asking.status() is None
        return first, between and between["co2_g_per_kwh"], second

    assert asyncio.run(change()) == (300.0, None, 120.0)


def test_since_when_it_fails_is_told_until_it_answers_again() -> None:
    asking = Intensity(lambda _: None)
    asking._office = Office(co2_url="http://192.0.2.1/")
    asking._take(300.0)
    asking._take(Reason("co2.status", status=500))
    first = asking.status()
    asking._take(Reason("co2.status", status=502))
    second = asking.status()
    assert first
    assert second
    assert first["co2_g_per_kwh"] == second["co2_g_per_kwh"] == 300.0
    assert first["failed_since_s"] == second["failed_since_s"]
    asking._take(310.0)
    last = asking.status()
    assert last
    assert (last["problem"], last["failed_since_s"], last["co2_g_per_kwh"]) == (None, None, 310.0)
