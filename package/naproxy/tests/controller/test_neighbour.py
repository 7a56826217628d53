import os
import socket
import subprocess
import sys

import pytest
from naproxy.controller.neighbour import Neighbour
from naproxy.core.interfaces import broadcast_of

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")

MAC = "02:00:00:00:00:07"
SETUP = (
    "ip link set lo up; ip link add v0 type veth peer name v1;"
    "ip addr add 192.0.2.1/24 dev v0; ip link set v0 up; ip link set v1 up;"
)


def in_a_namespace(before: str, calls: str, address: str = "192.0.2.7") -> list[str]:
    """Run calls of a Neighbour `n` in a network of its own; return their output, and the entry."""
    program = f"from naproxy.controller.neighbour import Neighbour as N; n = N('{address}', 'v0')\n"
    script = f'{SETUP}{before} "$0" -c "$1"; ip neigh show'
    argv = ("unshare", "-n", "sh", "-ec", script, sys.executable, program + calls)
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    return [line.strip() for line in done.stdout.splitlines()]


def known(state: str) -> str:
    return f"ip neigh add 192.0.2.7 lladdr {MAC} dev v0 nud {state};"


def entry(state: str) -> list[str]:
    return [f"192.0.2.7 dev v0 lladdr {MAC} {state}"]


def test_an_address_is_kept_while_in_use_and_nothing_else_is_changed() -> None:
    for before, calls, after in (
        (known("reachable"), "n.keep()", entry("PERMANENT")),
        (known("reachable"), "n.keep(); n.release()", entry("STALE")),  # the kernel's to verify
        ("", "n.keep(); n.release()", []),
        (known("permanent"), "n.keep(); n.release()", entry("PERMANENT")),  # made by hand
    ):
        assert in_a_namespace(before, calls) == after, (before, calls)


def test_in_trouble_the_address_is_looked_up_again() -> None:
    assert MAC not in str(in_a_namespace(known("reachable"), "n.keep(); n.forget()"))


def test_a_missing_interface_and_ipv6_change_nothing() -> None:
    Neighbour("192.0.2.7", "nope0").keep()
    Neighbour("2001:db8::7", "lo").keep()


def test_another_card_at_the_servers_address_is_a_stranger_and_named() -> None:
    calls = "".join(
        f"print(n.stranger({mac!r}))\n" for mac in (MAC, MAC.upper(), "02:00:00:00:00:08")
    )
    own, in_capitals, other, _ = in_a_namespace(known("reachable"), calls)
    assert own == in_capitals == "None"
    assert f"another machine, {MAC}, answers at 192.0.2.7 instead of 02:00:00:00:00:08" in other
    assert "check_mac = false" in other


def test_ipv6_is_looked_at_as_ipv4_is() -> None:
    six = "2001:db8::7"
    before = "ip addr add 2001:db8::1/64 dev v0 nodad;" + known("reachable").replace(
        "192.0.2.7", six
    )
    calls = f"print(n.stranger('{MAC}'))\nprint(n.stranger('02:00:00:00:00:08'))"
    own, other, *_ = in_a_namespace(before, calls, six)
    assert own == "None"
    assert f"another machine, {MAC}, answers at {six} instead of 02:00:00:00:00:08" in other
    for done, state in (("n.keep()", "PERMANENT"), ("n.keep(); n.release()", "STALE")):
        [entry_of] = [line for line in in_a_namespace(before, done, six) if line.startswith(six)]
        assert MAC in entry_of, done
        assert entry_of.endswith(state), done
    assert MAC not in str(in_a_namespace(before, "n.keep(); n.forget()", six))


def test_where_the_kernel_knows_no_card_nobody_is_a_stranger() -> None:
    for before in ("", known("failed").replace(f"lladdr {MAC}", "")):
        assert in_a_namespace(before, f"print(n.stranger({MAC!r}))")[0] == "None", before


def test_without_a_socket_nothing_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(socket, "socket", full)
    neighbour = Neighbour("192.0.2.7", "lo")
    neighbour.keep()
    neighbour.forget()
    assert neighbour.stranger(MAC) is None
    assert broadcast_of("lo") == "255.255.255.255"
