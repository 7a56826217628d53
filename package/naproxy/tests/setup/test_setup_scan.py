"""The scan and the look at a typed address, on a network that is made up."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from naproxy.api.jobs import JobError, Progress
from naproxy.setup import lan, scan, web
from naproxy.setup.names import from_tool, vendors
from naproxy.setup.web import Hint

SILENT = Hint(80, "silent")
ETH0 = {
    "ifname": "eth0",
    "flags": ["BROADCAST", "UP"],
    "addr_info": [
        {"family": "inet", "scope": "global", "local": "192.168.1.2", "prefixlen": 24},
        {"family": "inet6", "scope": "link", "local": "fe80::1", "prefixlen": 64},
    ],
}
LO = {
    "ifname": "lo",
    "flags": ["LOOPBACK", "UP"],
    "addr_info": [{"family": "inet", "scope": "host", "local": "127.0.0.1", "prefixlen": 8}],
}


def link(name: str, address: str, bits: int) -> dict[str, Any]:
    info = {"family": "inet", "scope": "global", "local": address, "prefixlen": bits}
    return {"ifname": name, "flags": ["UP"], "addr_info": [info]}


class Office:
    """A network of machines: {address: (card, name, hint)}."""

    def __init__(self, machines: dict[str, tuple[str, str, Hint]], *links: dict[str, Any]) -> None:
        self.machines = machines
        self.links = list(links or (LO, ETH0))
        self.poked: list[str] = []
        self.asked: list[tuple[str, int]] = []
        self.names: dict[str, list[str]] = {}
        self.gateway = ""

    async def ip(self, *words: str) -> list[dict[str, Any]]:
        match words:
            case ("addr", "show"):
                return self.links
            case ("neigh", "show", "dev", _):
                return [self._entry(a) for a in self.poked if a in self.machines]
            case ("neigh", "show", "to", address, "dev", _):
                return [self._entry(address)] if address in self.machines else []
            case ("route", "get", _):
                more = {"gateway": self.gateway} if self.gateway else {}
                return [{"dev": "eth0", **more}]
        return []

    def _entry(self, address: str) -> dict[str, Any]:
        return {"dst": address, "lladdr": self.machines[address][0], "state": ["REACHABLE"]}

    def poke(self, addresses: Iterable[str]) -> None:
        self.poked += addresses

    async def settle(self, seconds: float) -> None:
        pass

    async def name(self, address: str) -> str:
        return self.machines[address][1] if address in self.machines else ""

    async def http(self, address: str, port: int) -> Hint:
        self.asked.append((address, port))
        return self.machines[address][2] if address in self.machines else SILENT

    async def knock(self, address: str, port: int) -> str:
        self.asked.append((address, port))
        return "refused"

    async def resolve(self, name: str) -> list[str]:
        return self.names.get(name, [])

    def vendors(self, cards: Sequence[str]) -> dict[str, str]:
        return {}


WEB = Hint(80, "open", 200, "nginx/1.22.1", "Muster AG")
PLUG = Hint(80, "open", 200, "Tasmota/13.1.0", "Plug", "tasmota")
MACHINES = {
    "192.168.1.1": ("02:00:00:00:00:01", "router.lan", SILENT),
    "192.168.1.10": ("02:00:00:00:00:0a", "web.lan", WEB),
    "192.168.1.30": ("02:00:00:00:00:1e", "plug.lan", PLUG),
}


def swept(office: Office, interface: str = "eth0") -> dict[str, Any]:
    return asyncio.run(scan.scan(office, interface, Progress()))


def looked(office: Office, text: str, port: int = 80) -> dict[str, Any]:
    return asyncio.run(scan.look(office, text, port, Progress()))


def test_machines_are_found_with_name_card_and_what_their_web_server_says() -> None:
    found = swept(Office(MACHINES))["hosts"]
    assert [host["address"] for host in found] == ["192.168.1.10", "192.168.1.1", "192.168.1.30"]
    assert found[0]["mac"] == "02:00:00:00:00:0a"
    assert (found[0]["name"], found[0]["http"]["title"]) == ("web.lan", "Muster AG")
    assert found[2]["http"]["meter"] == "tasmota"


def test_every_address_is_asked_but_the_boxs_own_and_more_only_of_those_with_a_card() -> None:
    office = Office(MACHINES)
    swept(office)
    assert len(office.poked) == 253
    assert "192.168.1.2" not in office.poked
    assert {address for address, _ in office.asked} == set(MACHINES)


def test_of_a_large_network_1022_addresses_around_the_box_are_looked_at() -> None:
    office = Office({}, link("eth0", "10.20.30.40", 8))
    networks = swept(office)["networks"]
    assert (networks[0]["network"], networks[0]["whole"]) == ("10.20.28.0/22", False)
    assert len(office.poked) == 1021
    assert all(
        ipaddress.ip_address(a) in ipaddress.ip_network("10.20.28.0/22") for a in office.poked
    )


def test_all_networks_together_are_no_more_than_one_large_one() -> None:
    office = Office({}, link("eth1", "10.1.0.1", 22), link("eth0", "10.2.0.1", 22))
    swept(office)
    assert len(office.poked) == scan.MOST_HOSTS
    assert office.poked[0].startswith("10.2.")


def test_nothing_but_local_networks_is_swept() -> None:
    for strange in (
        LO,
        link("ppp0", "10.0.0.1", 32),
        link("eth0", "8.8.8.8", 24),
        link("eth0", "169.254.3.4", 16),
        {**ETH0, "flags": []},
        {"ifname": "eth0", "flags": ["UP"], "addr_info": [{"family": "inet", "scope": "global"}]},
        link("eth0", "not an address", 24),
    ):
        office = Office({}, strange)
        with pytest.raises(JobError) as error:
            swept(office)
        assert error.value.reason.code == "setup.no_network", strange
        assert office.poked == [], strange


def test_entries_without_a_card_are_nobody() -> None:
    said = [
        {"dst": "192.168.1.5", "state": ["FAILED"]},
        {"dst": "192.168.1.6", "lladdr": "00:00:00:00:00:00", "state": ["STALE"]},
        {"dst": "192.168.1.7", "lladdr": "02:00:00:00:00:07", "state": ["INCOMPLETE"]},
    ]
    assert lan.neighbours(said) == {}


# A typed address


def test_a_typed_addresss_card_is_found_or_it_is_said_why_not() -> None:
    office = Office(MACHINES)
    office.names["web"] = ["fd00::1", "192.168.1.10"]
    for text, mac, missing in (
        ("192.168.1.10", "02:00:00:00:00:0a", ""),
        ("web", "02:00:00:00:00:0a", ""),
        ("192.168.1.99", "", "silent"),  # it is off
    ):
        found = looked(office, text)
        assert (found["mac"], found["mac_missing"]) == (mac, missing), text
    assert looked(office, "web")["address"] == "192.168.1.10"
    office.gateway = "192.168.1.1"
    found = looked(office, "192.168.1.10")
    assert (found["mac"], found["mac_missing"]) == ("", "behind_router")


def test_only_the_typed_port_and_443_are_asked() -> None:
    office = Office(MACHINES)
    looked(office, "192.168.1.10", 8080)
    assert office.asked == [("192.168.1.10", 8080), ("192.168.1.10", 443)]


def test_what_cannot_be_a_server_is_refused_and_nothing_is_sent() -> None:
    for text, code in (
        ("127.0.0.1", "own_address"),
        ("127.8.8.8", "own_address"),
        ("::1", "own_address"),
        ("::ffff:127.0.0.1", "own_address"),
        ("192.168.1.2", "own_address"),
        ("::ffff:192.168.1.2", "own_address"),
        ("0.0.0.0", "no_machine"),
        ("255.255.255.255", "no_machine"),
        ("224.0.0.1", "no_machine"),
        ("ff02::1", "no_machine"),
        ("169.254.169.254", "no_machine"),
        ("::ffff:169.254.169.254", "no_machine"),
        ("fe80::1%eth0", "no_machine"),
        ("inside", "own_address"),
        ("http://192.168.1.10/", "unknown_name"),
        ("<script>alert(1)</script>", "unknown_name"),
        ("192.168.1.10; reboot", "unknown_name"),
        ("-h", "unknown_name"),
        ("0x7f.1", "unknown_name"),
    ):
        office = Office(MACHINES)
        office.names["inside"] = ["127.0.0.1"]
        with pytest.raises(JobError) as error:
            looked(office, text)
        assert error.value.reason.code == f"setup.{code}", text
        assert (office.poked, office.asked) == ([], []), text


# What strangers say


def test_a_title_is_one_line_without_its_tricks_and_cut() -> None:
    answer = (
        b"HTTP/1.1 200 OK\r\nServer: \x1b[31mevil\x1b[0m\r\n\r\n<TITLE>&lt;script&gt;\n"
        b"alert(1)\xe2\x80\xae" + b"x" * 500 + b"</TITLE>"
    )
    hint = web.read(80, answer)
    assert hint.title.startswith("<script> alert(1) xxx")
    assert len(hint.title) == web.MOST_CHARACTERS
    assert hint.server == "[31mevil [0m"
    assert (hint.title + hint.server).isprintable()


def test_what_is_no_http_is_only_open() -> None:
    junk = (b"", b"\x00" * 5000, b"SSH-2.0-OpenSSH_9.2\r\n", b"HTTP/1.1 999 x\r\n\r\n")
    for answer in (*junk, b"\r\n\r\n" * 99):
        assert web.read(80, answer) == Hint(80, "open"), answer[:50]
    # A title without an end takes no time.
    assert web.read(80, b"HTTP/1.0 200 OK\r\n\r\n" + b"<title " * 5000).title == ""


def answering(answer: bytes) -> web.Connect:
    """Return what opens a connection to a machine that says this, and hangs up."""

    async def opened(address: str, port: int) -> Any:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        place = server.sockets[0].getsockname()
        return await asyncio.open_connection(*place[:2])

    return opened


def test_a_redirect_is_not_followed() -> None:
    said = b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nServer: x\r\n\r\n"
    hint = asyncio.run(web.look("192.0.2.1", 80, answering(said)))
    assert (hint.status, hint.server) == (302, "x")


def test_a_shelly_is_known_by_what_it_says_of_itself() -> None:
    for said, found in (
        (b'{"type":"SHPLG-S","mac":"AA","auth":false}', (1, "SHPLG-S", False)),
        (
            b'{"id":"shellyplusplugs-a","gen":2,"app":"PlusPlugS","auth_en":true}',
            (2, "PlusPlugS", True),
        ),
        (b"[]", None),
        (b'{"gen":"2"}', None),
        (b"[" * 9000, None),
        (b"<html>", None),
    ):
        answer = b"HTTP/1.0 200 OK\r\n\r\n" + said
        shelly = asyncio.run(web.look_for_shelly("192.0.2.1", answering(answer)))
        assert (tuple(shelly.values()) if shelly else None) == found, said


def test_names_of_tools_are_read_and_others_answers_are_not() -> None:
    assert from_tool("192.168.1.5\tprinter.local\n", "192.168.1.5") == "printer.local"
    assert from_tool("192.168.1.6\tother.local\n", "192.168.1.5") == ""
    netbios = "Looking up status of 192.168.1.5\n\tNAS             <00> -         B <ACTIVE>\n"
    assert from_tool(netbios, "192.168.1.5") == "NAS"
    assert from_tool("192.168.1.5\t<b>\x1b]0;x\x07\u202eevil\n", "192.168.1.5").isprintable()


def test_who_made_a_card_is_only_said_where_a_local_table_knows(tmp_path: Any) -> None:
    table = tmp_path / "oui.txt"
    table.write_text("28-6F-B9   (hex)\t\tNokia Shanghai\n286FB9     (base 16)\t\tNokia Shanghai\n")
    cards = ["28:6f:b9:00:00:01", "02:00:00:00:00:01", "00:11:22:33:44:55"]
    assert vendors(cards, [str(tmp_path / "none"), str(table)]) == {cards[0]: "Nokia Shanghai"}
    assert vendors(cards, []) == {}
