"""Magic packets over UDP: to another subnet's broadcast address too, and with a password.

The packet is that of AMD's white paper 20213, "Magic Packet Technology": six bytes of ones,
sixteen times the card's address, and the SecureOn password of 4 or 6 bytes if it has one.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from naproxy.core.interfaces import EVERYBODY, broadcast_of
from naproxy.core.reason import Reason
from naproxy.core.schema import fits, is_interface, option, or_empty, within
from naproxy.drivers import Target
from naproxy.drivers.wake import RungSettings

_is_password: Final = fits(
    "(([0-9a-fA-F]{2}:){3}|([0-9a-fA-F]{2}:){5})[0-9a-fA-F]{2}|",
    Reason("config.secure_on", name="00:11:22:33:44:55"),
)


def _is_ipv4(text: str) -> Reason | None:
    try:
        ipaddress.IPv4Address(text)
    except ValueError:
        return Reason("config.ipv4")
    return None


@dataclass(frozen=True, kw_only=True)
class Settings(RungSettings):
    """Where to send, and with which password."""

    driver: str = option("udp: magic packets by UDP", "udp")
    ports: tuple[int, ...] = option(
        "UDP ports; a packet goes to each", (9, 7), low=1, high=8, check=within(1, 65535)
    )
    address: str = option(
        "IPv4 address to send to, for example another subnet's broadcast address; empty: the"
        " interface's broadcast address",
        "",
        check=or_empty(_is_ipv4),
    )
    interface: str = option("Network interface; empty: the server's", "", check=is_interface)
    password: str = option(
        "SecureOn password of the card, such as 00:11:22:33:44:55; empty: none",
        "",
        check=_is_password,
        secret=True,
    )


class Driver:
    """Sends the packets itself."""

    def __init__(self, settings: Settings, target: Target) -> None:
        """Send to the settings' address, or to everybody on the target's interface."""
        interface = settings.interface or target.interface
        # To an address elsewhere the routes lead, not the interface; to everybody's they lead to
        # the internet.
        elsewhere = settings.address not in ("", EVERYBODY) and not settings.interface
        self._interface = "" if elsewhere else interface
        self._address = settings.address
        self._broadcast_of = interface
        self._ports = settings.ports
        self._packet = (
            b"\xff" * 6
            + bytes.fromhex(target.mac.replace(":", "")) * 16
            + bytes.fromhex(settings.password.replace(":", ""))
        )

    def send(self, failed: Callable[[Reason], None]) -> None:
        """Send one packet to each port."""
        # Asked for each time: the interface may get its address later.
        address = self._address or broadcast_of(self._broadcast_of)
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sock:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
                if self._interface:
                    name = self._interface.encode()
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, name)
                for port in self._ports:
                    sock.sendto(self._packet, (address, port))
        except OSError as error:
            failed(Reason("wake.no_packet", address=address, why=error.strerror))
