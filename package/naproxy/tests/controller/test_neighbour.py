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

IMPORT = "from naproxy.controller.neighbour import Neighbour"


def in_a_namespace(before: str, *calls: str) -> str:
    """Run calls of a Neighbour in a namespace of its own; return the kernel's entry after."""
    lines = "\n".join(f"n.{call}()" for call in calls)
    program = f"{IMPORT} as N\nn = N('192.0.2.7', 'v0')\n{lines}"
    done = subprocess.run(
        [
            *("unshare", "-n", "sh", "-ec", f'{SETUP}{before} "$0" -c "$1"; ip neigh show'),
            *(sys.executable, program),
        ],
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def known(state: str) -> str:
    return f"ip neigh add 192.0.2.7 lladdr {MAC} dev v0 nud {state};"


def test_the_address_in_use_is_kept() -> None:
    assert in_a_namespace(known("reachable"), "keep") == f"192.0.2.7 dev v0 lladdr {MAC} PERMANENT"


def test_a_released_address_is_the_kernels_to_verify() -> None:
    after = in_a_namespace(known("reachable"), "keep", "release")
    assert after == f"192.0.2.7 dev v0 lladdr {MAC} STALE"


def test_an_unknown_address_is_not_invented() -> None:
    assert in_a_namespace("", "keep", "release") == ""


def test_an_entry_made_by_hand_is_left_alone() -> None:
    after = in_a_namespace(known("permanent"), "keep", "release")
    assert after == f"192.0.2.7 dev v0 lladdr {MAC} PERMANENT"


def test_in_trouble_the_address_is_asked_for_anew() -> None:
    assert MAC not in in_a_namespace(known("reachable"), "keep", "forget")


def test_an_interface_that_is_not_there_changes_nothing() -> None:
    program = f"{IMPORT} as N; n = N('192.0.2.7', 'nope0'); n.keep()"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_ipv6_is_left_to_the_kernel() -> None:
    program = (
        "from naproxy.controller.neighbour import Neighbour as N; N('2001:db8::7', 'lo').keep()"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def stranger(before: str, mac: str = MAC) -> str:
    """What is said of who answers at the address, where the server's card is `mac`."""
    program = "import sys; from naproxy.controller.neighbour import Neighbour\n"
    program += f"print(Neighbour('192.0.2.7', 'v0').stranger({mac!r}))"
    done = subprocess.run(
        [
            *("unshare", "-n", "sh", "-ec", f'{SETUP}{before} exec "$0" -c "$1"'),
            *(sys.executable, program),
        ],
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def test_the_servers_own_card_is_no_stranger() -> None:
    assert stranger(known("reachable")) == "None"
    assert stranger(known("reachable"), MAC.upper()) == "None"


def test_another_card_at_the_servers_address_is_a_stranger_and_named() -> None:
    said = stranger(known("reachable"), "02:00:00:00:00:08")
    assert f"another machine, {MAC}, answers at 192.0.2.7 instead of 02:00:00:00:00:08" in said
    assert "check_mac = false" in said


def test_where_the_kernel_knows_no_card_nobody_is_a_stranger() -> None:
    assert stranger("") == "None"
    assert stranger(known("failed").replace(f"lladdr {MAC}", "")) == "None"


def test_without_a_socket_left_nothing_is_changed_and_nothing_raised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(*_: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(socket, "socket", full)
    entry = Neighbour("192.0.2.7", "lo")
    entry.keep()
    entry.forget()
    assert entry.stranger(MAC) is None
    assert broadcast_of("lo") == "255.255.255.255"
