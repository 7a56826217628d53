"""The office around the box: DHCP, a server that sleeps, visitors. All real but the power."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Final

from tests.image_vm.board import Board
from tests.image_vm.machine import Machine
from tests.simulator.office import Office
from tests.simulator.office.box import ADDRESS, HOST
from tests.simulator.office.namespace import OfficeError
from tests.simulator.office.office import CLIENT_ADDRESS
from tests.simulator.office.tap import plug_in

BOX_MAC: Final = "00:00:5e:10:00:01"
"""Not a local one (02:...): with that Linux calls a card by USB usb0."""
USB_MAC: Final = f"40{BOX_MAC[2:]}"
"""What QEMU's card by USB makes of it."""
BY_VARNISH: Final = frozenset({"x-varnish", "x-vinyl"})
"""Headers of which Varnish, or Vinyl Cache, adds one."""
ASK_S: Final = 0.2
"""Between two looks whether the box serves."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the box answered a visitor; names of `headers` are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Visited(Office):
    """The virtual office, with visitors who look closely at what they get."""

    _numbers = itertools.count(1)

    def get(
        self, path: str, headers: Mapping[str, str] | None = None, *, timeout_s: float = 60.0
    ) -> Answer:
        """Ask the box as a visitor does; OSError or HTTPException if it does not answer."""
        connection = HTTPConnection(ADDRESS, timeout=timeout_s)
        connection.sock = self.client.connect(ADDRESS, 80, timeout_s=timeout_s)
        connection.sock.settimeout(timeout_s)
        with contextlib.closing(connection):
            connection.request("GET", path, headers={"Host": HOST, **(headers or {})})
            answer = connection.getresponse()
            said = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, said, answer.read())

    def served(self, *, timeout_s: float = 60.0) -> bool:
        """Whether a page that nobody has asked for yet comes from the server, through Varnish."""
        number = next(self._numbers)
        mark = f"{self.name}-{number}"
        answer = self.get(f"/?{mark}", {"X-Request-Id": mark}, timeout_s=timeout_s)
        front = (self.server.directory / "site/index.html").read_bytes()
        return (
            answer.status == 200
            and answer.body == front
            and not BY_VARNISH.isdisjoint(answer.headers)
            and self.server.received()[mark] == 1
        )


class Place(Visited):
    """The office with a machine in QEMU for a box."""

    def __init__(self, board: Board, keep: Path | None = None) -> None:
        super().__init__(keep=keep)
        self.machine = Machine(board, self.box, self.directory, self.logs, BOX_MAC)

    def _start(self) -> None:
        super()._start()
        plug_in(self.box.name)
        self.client.popen(dnsmasq(self.directory / "leases"), log="dnsmasq")

    def stop(self) -> None:
        """Pull the plug of the box, then end the office."""
        self.machine.cut_power()
        super().stop()

    def first_page(self, timeout_s: float) -> float:
        """Wait until the box serves; return CLOCK_MONOTONIC then."""
        deadline_s = time.monotonic() + timeout_s
        while time.monotonic() < deadline_s:
            if not self.machine.running:
                raise OfficeError("the machine has switched itself off")
            # A box that starts answers after a second or never: ask anew rather than wait.
            with contextlib.suppress(OSError, HTTPException):
                if self.served(timeout_s=2.0):
                    return time.monotonic()
            time.sleep(ASK_S)
        raise OfficeError(f"no page from the server within {timeout_s:g} s")


def dnsmasq(leases: Path) -> list[str | Path]:
    """Return the command of the office's router: DHCP with a fixed address for the box."""
    return [
        *("dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--pid-file", "--user=root"),
        *("--port=0", "--interface=eth0", "--bind-interfaces", "--dhcp-authoritative"),
        *("--dhcp-range=192.0.2.100,192.0.2.150,255.255.255.0,1h", f"--dhcp-leasefile={leases}"),
        *(
            f"--dhcp-host={BOX_MAC},{USB_MAC},{ADDRESS}",
            f"--dhcp-option=option:router,{CLIENT_ADDRESS}",
        ),
        *("--log-facility=-", "--log-dhcp"),
    ]
