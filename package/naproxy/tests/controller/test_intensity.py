"""The grid's carbon intensity from an API: what is read of its answer, and that none does harm."""

from __future__ import annotations

import asyncio
import json
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
from problems import problems
from web_server import WebServer, serving

BRITISH = b'{"data": [{"intensity": {"forecast": 260, "actual": 263, "index": "moderate"}}]}'


# What an answer says


def said_of(answer: bytes, pointer: str) -> float | str:
    """Return the number, or the code of the reason why there is none."""
    try:
        return grams(answer, pointer)
    except WrongError as error:
        return error.reason.code


def test_the_number_is_where_the_pointer_leads() -> None:
    for answer, pointer, co2_g in (
        (b'{"zone": "CH", "carbonIntensity": 31.5}', "/carbonIntensity", 31.5),
        (BRITISH, "/data/0/intensity/actual", 263.0),
        (b'{"state": "118.4", "attributes": {}}', "/state", 118.4),
        (b'\xef\xbb\xbf{"a/b": {"c~d": {"": 0}}}', "/a~1b/c~0d/", 0.0),
        (b"5000", "", 5000.0),
        (b'{"0": {"~1": 7}}', "/0/~01", 7.0),
    ):
        assert grams(answer, pointer) == co2_g, pointer


def test_a_unit_beside_the_number_counts() -> None:
    for unit, value, co2_g in (
        ("kg/kWh", 0.35, 350.0),
        ("kgCO2eq/kWh", 0.35, 350.0),
        ("gCO2eq/kWh", 302, 302.0),
        ("gCO\u2082/kWh", 302, 302.0),
        ("g/kWh", 1.5, 1.5),
        ("kg/MWh", 350, 350.0),
        ("lbs/MWh", 1000, 453.59237),
        ("t/MWh", 0.35, 350.0),
        ("furlongs", 302, 302.0),
    ):
        answer = json.dumps({"unit": unit, "value": value}).encode()
        assert grams(answer, "/value") == pytest.approx(co2_g), unit
    state = {"state": "0.35", "attributes": {"unit_of_measurement": "kg/kWh"}}
    assert grams(json.dumps(state).encode(), "/state") == pytest.approx(350)
    outer = {"unit": "kg CO2/kWh", "data": [{"v": 0.35}]}
    assert grams(json.dumps(outer).encode(), "/data/0/v") == pytest.approx(350)
    assert said_of(b'{"unit": "kg/kWh", "v": 300}', "/v") == "co2.out_of_range"


def test_a_number_that_may_be_kilograms_is_refused() -> None:
    for value in ("0.35", "1.2", '"0.411"'):
        assert said_of(b'{"v": %s}' % value.encode(), "/v") == "co2.kilograms", value
    for value in ("0", "2", "11"):
        assert said_of(b'{"v": %s}' % value.encode(), "/v") == float(value)


NOW_S = 1_795_875_000.0  # 2026-11-28 14:10 UTC


@pytest.mark.parametrize(
    ("said", "stale"),
    [
        # Electricity Maps; the hour that it is for, though it was told just now
        ({"datetime": "2026-11-28T14:00:00.000Z", "updatedAt": "2026-11-28T13:50:00.000Z"}, False),
        ({"datetime": "2026-11-26T14:00:00.000Z", "updatedAt": "2026-11-28T13:50:00.000Z"}, True),
        # Great Britain
        ({"from": "2026-11-28T14:00Z", "to": "2026-11-28T14:30Z"}, False),
        ({"from": "2026-11-27T14:00Z", "to": "2026-11-27T14:30Z"}, True),
        # A forecast for tomorrow
        ({"datetime": "2026-11-29T14:00:00+00:00"}, True),
        # Home Assistant: a value may stay the same for long
        ({"last_updated": "2026-11-20T14:00:00+00:00"}, False),
        ({"last_reported": "2026-11-20T14:00:00.123456+00:00"}, True),
        ({"timestamp": 1_795_875_000}, False),
        ({"timestamp": 1_795_000_000}, True),
        ({"timestamp": 1_795_875_000_000}, False),
        ({"time": "soon"}, False),
    ],
)
def test_a_number_of_another_time_is_refused(said: dict[str, Any], stale: bool) -> None:
    for answer, pointer in (
        ({"v": 300, **said}, "/v"),
        ({"data": [{**said, "intensity": {"v": 300}}]}, "/data/0/intensity/v"),
    ):
        data = json.dumps(answer).encode()
        if stale:
            with pytest.raises(WrongError) as caught:
                grams(data, pointer, NOW_S)
            assert caught.value.reason.code == "co2.other_time"
        else:
            assert grams(data, pointer, NOW_S) == 300


def test_an_invalid_number_is_rejected() -> None:
    for answer, code in (
        (b"", "co2.no_json"),
        (b"<html>Log in</html>", "co2.no_json"),
        (b"\xff\xfe", "co2.no_json"),
        (b'{"v": 300', "co2.no_json"),
        (b"[" * 60_000, "co2.no_json"),
        (b'{"v":' * 10_000 + b"1" + b"}" * 10_000, "co2.no_json"),
        (b'{"v": ' + b"9" * 6000 + b"}", "co2.out_of_range"),
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
    ):
        assert said_of(answer, "/v") == code, answer[:60]


def test_a_list_has_only_the_places_that_it_has() -> None:
    for pointer in ("/-", "/1", "/-1", "/00", "/x", "/0/0", "/" + "9" * 400):
        assert said_of(b"[300]", pointer) == "co2.nothing_there", pointer


# What the settings may say


WRONG = {
    ("co2_url", "config.web_address"): (
        *("api.example.org", "ftp://api.example.org/", "http://", "https://a b/"),
        *("https://api.example.org:0/", "https://api.example.org:65536/"),
        *("https://ann:pw@api.example.org/", "https://good.example@evil.example/"),
        *("https://good.example\\\\@evil.example/", "https://-x/", "https://bücher.example/"),
        *("https://[::1/", "https://[1]/", "https://[.]/", "https://a?x"),
        "HTTPS://api.example.org/",
    ),
    ("co2_value", "config.json_pointer"): ("a", "/a~", "/a~2b", "#/a"),
    ("co2_header", "config.header"): (
        *("", "a b", "a:b", "ключ", "x" * 65, "Host", "content-length", "Transfer-Encoding"),
        *("connection", "Accept-Encoding", "Proxy-Authorization", "User-Agent"),
    ),
    ("co2_header", "config.control"): ("a\\r\\nb",),
    ("co2_key_file", "config.absolute"): ("key",),
}


def test_a_wrong_setting_is_refused_with_its_name() -> None:
    for (key, code), values in WRONG.items():
        for value in values:
            found = problems(f'[office]\n{key} = "{value}"\n')
            assert found == [(f"office.{key}", code)], value


def test_usual_addresses_are_taken() -> None:
    for url in (
        "https://api.electricitymaps.com/v3/carbon-intensity/latest?zone=CH",
        "https://api.carbonintensity.org.uk/intensity",
        "http://homeassistant.local:8123/api/states/sensor.grid",
        "http://[2001:db8::1]:8123/",
        "http://192.0.2.7",
    ):
        assert config.parse(f'[office]\nco2_url = "{url}"\n').office.co2_url == url


def test_a_key_sent_unencrypted_gives_a_warning() -> None:
    said = '[office]\nco2_url = "http://192.0.2.7/"\n'
    assert config.look(said).warnings == []
    (warning,) = config.look(f'{said}co2_key_file = "/etc/naproxy/co2"\n').warnings
    assert (warning.where, warning.reason.code) == ("office.co2_key_file", "config.token_in_clear")


def test_an_invalid_key_is_not_kept() -> None:
    fields: Any = Office.__dataclass_fields__.values()
    (held,) = (each.metadata["holds"] for each in fields if each.metadata.get("holds"))
    for key in ("", "a\nb", "a\r\nHost: evil.example", "ключ", "x" * 257):
        assert held.check(key), key
    assert held.check("Bearer eyJ.abc") is None


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


def test_it_is_asked_with_its_key_if_there_is_one(web: Web) -> None:
    assert ask(web.url) == ask(web.url, key="") == (300.0, "")
    (path, with_key), (_, without) = web.asked
    assert path == "/v3?zone=CH"
    assert (with_key["auth-token"], with_key["accept-encoding"]) == ("hush", "identity")
    assert "auth-token" not in without


def test_an_invalid_answer_is_reported(web: Web) -> None:
    good = b'{"carbonIntensity": 300}'
    for status, headers, body, words in (
        (401, {}, good, "status 401"),
        (500, {}, good, "status 500"),
        (204, {}, b"", "status 204"),
        (200, {}, good + b" " * (1 << 20), "more than 65536 bytes"),
        (200, {"Content-Encoding": "gzip"}, good, "not JSON"),
        (200, {"Content-Length": "1000"}, b'{"carbon', "not JSON"),
    ):
        web.status, web.headers, web.body = status, headers, body
        co2_g, wrong = ask(web.url)
        assert co2_g is None, words
        assert words in wrong
        assert "hush" not in wrong


def test_the_key_goes_nowhere_else(web: Web) -> None:
    with Web() as other:
        web.status, web.headers = 302, {"Location": other.url}
        assert ask(web.url) == (None, "The answer has the status 302.")
        assert other.asked == []


def test_a_silent_site_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intensity_reader, "_FETCH_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        assert ask(url) == (None, "It could not be asked: connection timed out.")
    assert ask(url) == (None, "It could not be asked: connection refused.")


def test_a_slow_trickle_of_an_answer_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
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


# By the controller


async def looked(office: Office, heard: list[float]) -> Any:
    asking = Intensity(heard.append)
    asking.configure(office)
    asking.stop()
    await asking.look()
    return asking.status()


def key_file(folder: Path, key: str, mode: int) -> str:
    file = folder / "key"
    file.write_text(key)
    file.chmod(mode)
    return str(file)


async def test_a_process_of_its_own_asks_with_the_key_of_the_file(web: Web, tmp_path: Path) -> None:
    key = key_file(tmp_path, "Bearer hush\n", 0o600)
    heard: list[float] = []
    office = Office(co2_url=web.url, co2_header="Authorization", co2_key_file=key)
    status = await looked(office, heard)
    assert heard == [300.0]
    assert web.asked[0][1]["authorization"] == "Bearer hush"
    assert (status["co2_g_per_kwh"], status["problem"]) == (300.0, None)
    assert time.time() - status["read_s"] < 60


async def test_a_key_that_others_may_read_is_not_sent(web: Web, tmp_path: Path) -> None:
    key = key_file(tmp_path, "hush\n", 0o644)
    heard: list[float] = []
    status = await looked(Office(co2_url=web.url, co2_key_file=key), heard)
    assert reason_of(status["problem"]).codes() == (
        "driver.secret",
        "co2.key",
        "driver.open_to_others",
    )
    assert (heard, web.asked) == ([], [])


async def test_another_api_is_asked_at_once_and_the_old_answer_forgotten(web: Web) -> None:
    heard: asyncio.Queue[float] = asyncio.Queue()
    asking = Intensity(heard.put_nowait)
    asking.configure(Office(co2_url=web.url))
    async with asyncio.timeout(60):
        assert await heard.get() == 300.0
        web.body = b'{"here": 120}'
        asking.configure(Office(co2_url=web.url, co2_value="/here"))
        between = asking.status()
        assert between
        assert between["co2_g_per_kwh"] is None
        assert await heard.get() == 120.0
    asking.configure(Office())
    assert asking.status() is None


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
