"""Addresses that no server can have, and by which interface a server is."""

import ipaddress
import os
import subprocess
import sys
from pathlib import Path

import pytest
from naproxy.config import document as config
from naproxy.config import places
from naproxy.core import netlink
from naproxy.core.schema import ConfigError

OWN = [
    ipaddress.ip_interface(each)
    for each in ("192.0.2.1/24", "198.51.100.9/31", "2001:db8:2::1/64", "127.0.0.1/8")
]


def text(address: str) -> str:
    return f'[[server]]\nid = "web"\naddress = "{address}"\nmac = "02:00:00:00:00:01"\n'


def code(address: str) -> str:
    """What is wrong with an address, by the settings alone or by the box's networks."""
    try:
        wrong = list(places.misplaced(config.parse(text(address)).server, OWN))
    except ConfigError as error:
        wrong = error.problems
    return " ".join(f"{each.where} {each.reason.code}" for each in wrong)


def test_addresses_that_no_server_can_have_are_refused_in_every_spelling() -> None:
    for wrong, addresses in {
        "config.one_machine": (
            *("0.0.0.0", "0.0.0.7", "255.255.255.255", "240.0.0.1", "224.0.0.1", "239.1.2.3"),
            *("::", "0:0:0:0:0:0:0:0", "::0.0.0.0", "::ffff:0.0.0.0", "::ffff:255.255.255.255"),
            *("::ffff:e000:1", "ff02::1", "FF05::2", "::192.0.2.7"),
        ),
        "config.needs_zone": ("fe80::1", "FE80:0::1", "febf::1", "fe80::1%eth0"),
        "config.own_address": (
            *("127.0.0.1", "127.1.2.3", "::1", "0:0:0:0:0:0:0:1", "::ffff:127.0.0.1"),
            *("::ffff:7f00:1", "192.0.2.1", "::ffff:192.0.2.1", "2001:DB8:2:0::1"),
        ),
        "config.network_itself": (
            *("192.0.2.0", "192.0.2.255", "::ffff:192.0.2.255", "2001:db8:2::", "2001:db8:2:0::0"),
        ),
        "config.address": ("192.0.2", "192.0.2.07", "web.example", "[2001:db8::1]", "192.0.2.7/24"),
    }.items():
        for address in addresses:
            assert code(address) == f"server.web.address {wrong}", address


def test_addresses_of_servers_are_taken_and_written_in_one_way() -> None:
    for address, taken in {
        "192.0.2.7": "192.0.2.7",
        "::ffff:192.0.2.7": "192.0.2.7",
        "192.0.3.255": "192.0.3.255",
        "198.51.100.8": "198.51.100.8",
        "169.254.7.7": "169.254.7.7",
        "2001:DB8:2:0::7": "2001:db8:2::7",
        "fd00::7": "fd00::7",
    }.items():
        assert code(address) == "", address
        assert config.parse(text(address)).server[0].address == taken


def test_the_command_says_it_of_this_machine(tmp_path: Path) -> None:
    file = tmp_path / "naproxy.toml"
    file.write_text(text("::ffff:127.0.0.1"))
    naproxy = Path(sys.executable).with_name("naproxy")
    done = subprocess.run(
        [naproxy, "config", "check", file], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "server.web.address: is an address of this box itself" in done.stderr


def test_the_interface_is_the_one_that_the_routes_lead_by_unless_one_is_set() -> None:
    for extra, interface in (
        ("", "lo"),
        ('interface = "card0"\n', "card0"),
    ):
        new = config.parse(text("127.0.0.1") + extra)
        assert places.interface_of(new.server[0], new) == interface
    new = config.parse('[box]\ninterface = "card1"\n' + text("127.0.0.1"))
    assert places.interface_of(new.server[0], new) == "card1"


@pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
def test_cards_of_any_name_are_found_by_the_servers_address() -> None:
    program = (
        "from naproxy.core import netlink as n\n"
        "print(n.interface_to('192.0.2.7'), n.interface_to('2001:db8:2::7'), "
        "repr(n.interface_to('203.0.113.1')), sorted(n.addresses()))"
    )
    script = (
        "ip link set lo up; ip link add enp3s0 type veth peer name v1; ip link set enp3s0 up;"
        " ip link set v1 up; ip addr add 192.0.2.1/24 dev enp3s0;"
        ' ip addr add 2001:db8:2::1/64 dev enp3s0 nodad; "$0" -c "$1"'
    )
    argv = ("unshare", "-n", "sh", "-ec", script, sys.executable, program)
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    first, second, none, *names = done.stdout.split(maxsplit=3)
    assert (first, second, none) == ("enp3s0", "enp3s0", "''")
    assert "enp3s0" in names[0]


def test_where_the_kernel_does_not_answer_nothing_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full() -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(netlink, "addresses", full)
    assert places.own_networks() == []
