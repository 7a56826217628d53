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

STATIC6 = {"ipv6": "static", "address6": "fd00:1:0::5/64"}
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


def test_an_address_of_ones_own_is_read() -> None:
    made = network({**STATIC, "dns": ["192.168.1.1", "9.9.9.9"]})
    assert dict(made.lines()) == {
        **STATIC,
        "dns": "192.168.1.1 9.9.9.9",
        "ipv6": "auto",
        "address6": "",
        "gateway6": "",
        "vlan": "",
    }


def test_ipv6_and_a_vlan_are_read_and_written_in_one_way() -> None:
    made = network(
        {**STATIC, **STATIC6, "gateway6": "FE80:0::1", "dns": ["2001:DB8::53"], "vlan": 4094}
    )
    lines = dict(made.lines())
    assert (lines["address6"], lines["gateway6"]) == ("fd00:1::5/64", "fe80::1")
    assert (lines["dns"], lines["vlan"]) == ("2001:db8::53", "4094")


def test_a_prefix_of_two_addresses_has_no_address_of_its_routers() -> None:
    """RFC 6164."""
    for address in ("fd00::/127", "fd00::1/127", "2001:db8::5/126"):
        network({**STATIC, **STATIC6, "address6": address})


def test_a_network_that_cannot_be_is_refused() -> None:
    for change, where, words in (
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
        ({"gateway": "192.168.1.255"}, "gateway", "not the address of a machine"),
        ({"gateway": "fe80::1"}, "gateway", "not an IPv4"),
        ({"address": "224.0.0.5/24"}, "address", "not an address that a machine"),
        ({"address": "240.0.0.5/24"}, "address", "not an address that a machine"),
        ({"address": "0.0.0.5/24"}, "address", "not an address that a machine"),
        ({"dns": ["$(reboot)"]}, "dns", "not an IPv4 or IPv6"),
        ({"dns": ["224.0.0.251"]}, "dns", "not an address that a machine"),
        ({"dns": ["127.0.0.53"]}, "dns", "not an address that a machine"),
        ({"dns": ["fe80::1"]}, "dns", "one cable only"),
        ({"dns": ["fe80::1%eth0"]}, "dns", "not an IPv4 or IPv6"),
        ({"dns": ["fd00::1"], "ipv6": "off"}, "dns", "needs IPv6"),
        ({"dns": "9.9.9.9"}, "dns", "list"),
        ({"dns": ["9.9.9.9"] * 4}, "dns", "at most 3"),
        ({"mtu": 7}, "mtu", "not known"),
        *(({"vlan": wrong}, "vlan", "") for wrong in (0, 4095, -1, "7", 7.5, True)),
        ({"ipv6": "dhcp"}, "ipv6", "auto, static, off"),
        ({"address6": "fd00::5/64"}, "address6", "leave it empty"),
        ({"gateway6": "fd00::1", "ipv6": "off"}, "gateway6", "needs IPv6"),
        ({"ipv6": "static"}, "address6", "prefix"),
        *(
            ({**STATIC6, "address6": address}, "address6", words)
            for address, words in (
                ("fd00::5", "prefix"),
                ("fd00::5%eth0/64", "prefix"),
                ("192.168.1.5/24", "IPv6"),
                ("fd00::5/64\nvlan=7", "IPv6"),
                ("fd00::/64", "not the address of a machine"),
                ("fd00::5/128", "not the address of a machine"),
                ("fe80::5/64", "one cable only"),
                ("ff02::5/64", "not an address that a machine"),
                ("::1/64", "not an address that a machine"),
                ("::/64", "not an address that a machine"),
                ("::ffff:192.0.2.1/120", "not an address that a machine"),
            )
        ),
        *(
            ({**STATIC6, "gateway6": gateway}, "gateway6", words)
            for gateway, words in (
                ("fd00:2::1", "not in the box's own network"),
                ("fd00:1::5", "the box itself"),
                ("fd00:1::", "not the address of a machine"),
                ("fe80::1%eth0", "not an IPv6"),
                ("192.168.1.1", "not an IPv6"),
                ("ff02::2", "not in the box's own network"),
            )
        ),
    ):
        said_where, said = refused(network, {**STATIC, **change})
        assert said_where == where, change
        assert words in said, change


def test_dhcp_needs_nothing_else_and_an_address_with_it_is_refused() -> None:
    assert network({"method": "dhcp"}).lines()[0] == ("method", "dhcp")
    assert refused(network, {**STATIC, "method": "dhcp"})[0] == "address"


def test_a_name_that_cannot_be_is_refused() -> None:
    host_name({"name": "naproxy-2"})
    for name in ("", "-a", "a-", "A", "a b", "a\nb", "ä", "a" * 64, "12", "localhost"):
        assert refused(host_name, {"name": name})[0] == "name", name


def test_a_time_that_cannot_be_is_refused() -> None:
    clock({"time_zone": "Europe/Zurich", "ntp": ["ntp.example.org", "192.0.2.1"]})
    for body, where in (
        ({}, "time_zone"),
        ({"time_zone": "Mars/Base"}, "time_zone"),
        ({"time_zone": "../../etc/shadow"}, "time_zone"),
        ({"time_zone": "UTC", "ntp": ["a b"]}, "ntp"),
        ({"time_zone": "UTC", "ntp": ["pool.ntp.org;reboot"]}, "ntp"),
    ):
        assert refused(clock, body)[0] == where, body


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
    json.dumps(logs.chosen(["\udcff"], "", 5)).encode()


def test_lines_are_chosen_whatever_their_case() -> None:
    assert logs.chosen(["Wake web", "sleep web", "WAKE shop"], "wake", 1) == ["WAKE shop"]


def test_the_end_of_a_long_file_is_read_and_begins_with_a_whole_line(tmp_path: Path) -> None:
    file = tmp_path / "messages"
    file.write_bytes(b"\xff\n" + b"".join(b"line %d\n" % n for n in range(100000)))
    lines = logs.tail(file)
    assert lines[-1] == "line 99999"
    assert lines[0].startswith("line ")
    assert 1000 < len(lines) < 40000
