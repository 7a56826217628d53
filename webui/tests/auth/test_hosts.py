"""Which names are the box's."""

from __future__ import annotations

import socket
from pathlib import Path

from conftest import Clock
from naproxy_webui.auth.hosts import FRESH_S, Hosts, _ipv4, own_names


def test_the_boxs_own_addresses_and_names_are_known() -> None:
    names = set(own_names())
    short = socket.gethostname().split(".")[0]
    assert {"127.0.0.1", "::1", "localhost", f"{short}.local", short} <= names


def test_addresses_are_read_as_the_kernel_lists_them(tmp_path: Path) -> None:
    file = tmp_path / "fib_trie"
    file.write_text(
        "Local:\n  +-- 192.168.1.0/24 2 0 2\n     |-- 192.168.1.0\n        /24 link UNICAST\n"
        "     |-- 192.168.1.7\n        /32 host LOCAL\n     |-- 192.168.1.255\n"
        "        /32 link BROADCAST\n"
    )
    assert list(_ipv4(file)) == ["192.168.1.7"]
    assert list(_ipv4(tmp_path / "none")) == []


def test_addresses_are_the_same_however_they_are_written(clock: Clock) -> None:
    hosts = Hosts(lambda: ["2001:DB8:0::1", "Proxy.Office.Test."], list, clock)
    for name in ("2001:db8::1", "2001:0db8:0000::0001", "proxy.office.test"):
        assert hosts.knows(name)
    for name in ("2001:db8::2", "office.test", "x.proxy.office.test", ""):
        assert not hosts.knows(name)


def test_a_new_name_is_known_soon(clock: Clock) -> None:
    names: list[str] = []
    hosts = Hosts(lambda: names, list, clock)
    assert not hosts.knows("new.test")
    names.append("new.test")
    clock.now_s += FRESH_S
    assert hosts.knows("new.test")
