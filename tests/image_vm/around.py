"""What the office around the box asks of its services, and offers to them."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.image_vm import setup
from tests.image_vm.place import Visited
from tests.image_vm.ui import Ui
from tests.simulator.office.box import ADDRESS
from tests.simulator.office.namespace import OfficeError
from tests.simulator.office.office import CLIENT_ADDRESS

FLEET_PORT: Final = 8444
_MDNS: Final = ("224.0.0.251", 5353)
_PATIENCE_S: Final = 90.0
_TLS_HANDSHAKE: Final = b"\x16\x03"
"""RFC 8446, 5.1: how a connection by TLS begins."""


def named(place: Visited, name: str) -> None:
    """Ask the network for NAME.local; OfficeError unless the box says that it is there."""
    labels = b"".join(bytes([len(part)]) + part.encode() for part in (name, "local"))
    # RFC 1035, 4.1: a question for an address (A) in the class IN.
    query = struct.pack(">6H", 0, 0, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">2H", 1, 1)
    with place.client.entered():
        line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        here = socket.inet_aton(CLIENT_ADDRESS)
        line.bind(("", _MDNS[1]))
        group = socket.inet_aton(_MDNS[0]) + here
        line.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group)
        line.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, here)
        line.settimeout(1.0)
        deadline_s = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline_s:
            line.sendto(query, _MDNS)
            with contextlib.suppress(TimeoutError):
                while True:
                    answer, (sender, _) = line.recvfrom(9000)
                    if sender == ADDRESS and socket.inet_aton(ADDRESS) in answer:
                        return
    raise OfficeError(f"nobody says where {name}.local is")


@contextlib.contextmanager
def broker(place: Visited, ui: Ui, directory: Path) -> Iterator[None]:
    """Run mosquitto for the box; at the end the box has told it of the server, or OfficeError."""
    config = directory / "mosquitto.conf"
    config.write_text("listener 1883 0.0.0.0\nallow_anonymous true\n")
    place.client.popen(["mosquitto", "-c", config], log="mosquitto")
    setup.settings(ui, mqtt={"host": CLIENT_ADDRESS, "every_s": 1.0})
    yield
    subscriber = ("mosquitto_sub", "-h", "127.0.0.1", "-t", "naproxy/server/web", "-C", "1")
    heard = place.client.run([*subscriber, "-W", str(int(_PATIENCE_S))], timeout_s=_PATIENCE_S + 10)
    said: dict[str, Any] = json.loads(heard.stdout)
    if said["state"] not in ("awake", "asleep", "waking"):
        raise OfficeError(f"the broker heard {said}")


@contextlib.contextmanager
def fleet(place: Visited, ui: Ui) -> Iterator[None]:
    """Name a server for updates; at the end the box has come there by TLS, or OfficeError.

    It goes no further: it trusts no authority of this office. What a hawkBit server then hears is
    in `tests/many/test_fleet.py`.
    """
    with place.client.entered():
        listener = socket.create_server((CLIENT_ADDRESS, FLEET_PORT))
    with listener:
        url = f"https://{CLIENT_ADDRESS}:{FLEET_PORT}"
        setup.settings(ui, **{"fleet.url": url, "fleet.token": "image-test"})
        yield
        listener.settimeout(_PATIENCE_S)
        try:
            line, _ = listener.accept()
            with line:
                line.settimeout(_PATIENCE_S)
                first = line.recv(2)
        except TimeoutError:
            raise OfficeError("the box has not asked the server for updates") from None
    if first != _TLS_HANDSHAKE:
        raise OfficeError(f"the box began with {first!r} at the server for updates")


def nothing_around(ui: Ui) -> None:
    """Have the box ask neither broker nor fleet any more."""
    setup.settings(ui, **{"mqtt.host": "", "fleet.url": ""})
