import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from naproxy.api.calls import ApiError
from naproxy.api.shapes import ShapeError, check
from naproxy.api.table import ROUTES
from naproxy.box import forms, logs

STATIC = {"method": "static", "address": "192.168.1.5/24", "gateway": "192.168.1.1"}


def read(name: str, form: Callable[..., Any], body: dict[str, Any]) -> Any:
    """Read a form as a request has it: what its route declares is checked first."""
    shape = ROUTES[name].body
    assert shape
    check(body, shape)
    return form(**body)


def network(body: dict[str, Any]) -> forms.Network:
    made: forms.Network = read("box.network", forms.network, body)
    return made


def host_name(body: dict[str, Any]) -> None:
    read("box.name", forms.host_name, body)


def clock(body: dict[str, Any]) -> None:
    read("box.time", forms.clock, body)


def refused(form: Callable[[dict[str, Any]], object], body: dict[str, Any]) -> tuple[Any, str]:
    with pytest.raises((ApiError, ShapeError)) as caught:
        form(body)
    error = caught.value
    where = error.where if isinstance(error, ShapeError) else error.body["where"]
    return where, str(error)


def test_dhcp_needs_nothing_else() -> None:
    assert network({"method": "dhcp"}).lines()[0] == ("method", "dhcp")


def test_an_address_of_ones_own_is_read() -> None:
    made = network({**STATIC, "dns": ["192.168.1.1", "9.9.9.9"]})
    assert dict(made.lines()) == {**STATIC, "dns": "192.168.1.1 9.9.9.9"}


@pytest.mark.parametrize(
    ("change", "where", "words"),
    [
        ({"method": "magic"}, "method", "dhcp, static"),
        ({"method": ["static"]}, "method", "dhcp, static"),
        ({"address": "192.168.1.5"}, "address", "prefix"),
        ({"address": "192.168.1.0/24"}, "address", "not the address of a machine"),
        ({"address": "192.168.1.255/24"}, "address", "not the address of a machine"),
        ({"address": "192.168.1.5/31"}, "address", "not the address of a machine"),
        ({"address": "127.0.0.2/8"}, "address", "not an address that a machine"),
        ({"address": "fe80::1/64"}, "address", "IPv4"),
        ({"address": "192.168.1.5/24\nreboot=1"}, "address", "IPv4"),
        ({"address": 7}, "address", "text"),
        ({"gateway": "10.0.0.1"}, "gateway", "not in the box's own network"),
        ({"gateway": "192.168.1.5"}, "gateway", "the box itself"),
        ({"gateway": "router"}, "gateway", "not an IPv4"),
        ({"dns": ["$(reboot)"]}, "dns", "not an IPv4"),
        ({"dns": "9.9.9.9"}, "dns", "list"),
        ({"dns": ["9.9.9.9"] * 4}, "dns", "at most 3"),
        ({"vlan": 7}, "vlan", "not known"),
    ],
)
def test_a_network_that_cannot_be_is_refused(change: Any, where: str, words: str) -> None:
    said_where, said = refused(network, {**STATIC, **change})
    assert said_where == where
    assert words in said


def test_an_address_with_dhcp_is_refused_instead_of_ignored() -> None:
    assert refused(network, {**STATIC, "method": "dhcp"})[0] == "address"


@pytest.mark.parametrize(
    "name", ["", "-a", "a-", "A", "a b", "a\nb", "ä", "a" * 64, "12", "localhost"]
)
def test_a_name_that_cannot_be_is_refused(name: str) -> None:
    assert refused(host_name, {"name": name})[0] == "name"


def test_a_name_is_taken() -> None:
    host_name({"name": "naproxy-2"})


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({}, "time_zone"),
        ({"time_zone": "Mars/Base"}, "time_zone"),
        ({"time_zone": "../../etc/shadow"}, "time_zone"),
        ({"time_zone": "UTC", "ntp": ["a b"]}, "ntp"),
        ({"time_zone": "UTC", "ntp": ["pool.ntp.org;reboot"]}, "ntp"),
    ],
)
def test_a_time_that_cannot_be_is_refused(body: Any, where: str) -> None:
    assert refused(clock, body)[0] == where


def test_a_time_is_taken() -> None:
    body = {"time_zone": "Europe/Zurich", "ntp": ["ntp.example.org", "192.0.2.1"]}
    clock(body)


# Logs


def test_the_controllers_own_log_is_bounded_in_lines_and_length() -> None:
    ring = logs.Ring()
    for number in range(5000):
        ring.handle(logging.makeLogRecord({"msg": f"{number} " + "x" * 5000}))
    assert len(ring.lines()) == 2000
    assert max(map(len, ring.lines())) < 600
    assert "4999" in ring.lines()[-1]


def test_hostile_lines_are_shown_as_text() -> None:
    shown = logs.chosen(["a\x1b[31m<script>\u202egpj\x00"], "", 10)
    assert shown == ["a\ufffd[31m<script>\ufffdgpj\ufffd"]


def test_lines_are_chosen_whatever_their_case() -> None:
    assert logs.chosen(["Wake web", "sleep web", "WAKE shop"], "wake", 1) == ["WAKE shop"]


def test_the_end_of_a_long_file_is_read_and_begins_with_a_whole_line(tmp_path: Path) -> None:
    file = tmp_path / "messages"
    file.write_bytes(b"\xff\n" + b"".join(b"line %d\n" % n for n in range(100000)))
    lines = logs.tail(file)
    assert lines[-1] == "line 99999"
    assert lines[0].startswith("line ")
    assert 1000 < len(lines) < 40000


def test_a_log_is_json() -> None:
    json.dumps(logs.chosen(["\udcff"], "", 5)).encode()
