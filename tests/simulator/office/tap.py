"""A machine in QEMU in place of one of the office's: its cable leads to QEMU's tap."""

from __future__ import annotations

from typing import Final

from tests.simulator.office.namespace import ip

WIRE: Final = "eth0"
TAP: Final = "tap0"
_OURS: Final = "02:00:5e:10:01"
"""Begins the addresses of the cable's and the bridge's own ends: the machine has its own."""


def plug_in(namespace: str) -> None:
    """Bridge the tap to the cable; the addresses are the machine's own."""
    commands = [
        f"addr flush dev {WIRE}",
        f"link set {WIRE} address {_OURS}:01",
        f"link add br0 address {_OURS}:02 type bridge forward_delay 0 mcast_snooping 0",
        f"tuntap add {TAP} mode tap",
        f"link set {WIRE} master br0",
        f"link set {TAP} master br0 up",
        "link set br0 addrgenmode none up",
    ]
    ip("-n", namespace, "-batch", "-", stdin="\n".join(commands) + "\n")
