"""Names of machines: from DNS, and from installed tools for mDNS and NetBIOS."""

from __future__ import annotations

import asyncio
import re
import shutil
import socket
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from naproxy.core import processes as program
from naproxy.setup.web import one_line

LOOKUP_S: Final = 3.0
_AT_ONCE: Final = 4
_NETBIOS: Final = re.compile(r"^\s*(\S{1,15})\s+<00>\s+-\s+(?!<GROUP>)", re.MULTILINE)
_PREFIX: Final = re.compile(r"[0-9A-Fa-f]{2}[:-]?[0-9A-Fa-f]{2}[:-]?[0-9A-Fa-f]{2}")

VENDOR_TABLES: Final = (
    "/usr/share/nmap/nmap-mac-prefixes",
    "/usr/share/ieee-data/oui.txt",
    "/var/lib/ieee-data/oui.txt",
    "/usr/share/hwdata/oui.txt",
    "/usr/share/arp-scan/ieee-oui.txt",
)
"""Where distributions keep who made which network card; on most boxes there is none."""


class Names:
    """Looks names up; an address without an answer in time has no name."""

    def __init__(self) -> None:
        """A pool of its own: the resolver may take long, and nobody else must wait for it."""
        self._pool = ThreadPoolExecutor(_AT_ONCE, "names")
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._tools = [
            argv
            for argv in (("avahi-resolve-address",), ("nmblookup", "-A"))
            if shutil.which(argv[0])
        ]

    def close(self) -> None:
        """Start without waiting."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def of(self, address: str) -> str:
        """Return the best name of an address; empty if nobody knows one."""
        async with self._slots:
            name = await self._by_dns(address)
            for argv in self._tools:
                name = name or await self._by_tool(argv, address)
        return name

    async def _by_dns(self, address: str) -> str:
        loop = asyncio.get_running_loop()
        asked = loop.run_in_executor(
            self._pool, socket.getnameinfo, (address, 0), socket.NI_NAMEREQD
        )
        try:
            async with asyncio.timeout(LOOKUP_S):
                return one_line((await asked)[0])
        except (OSError, TimeoutError, UnicodeError):
            return ""

    async def _by_tool(self, argv: tuple[str, ...], address: str) -> str:
        try:
            done = await program.printed([*argv, address], LOOKUP_S, {"LC_ALL": "C"}, 4096)
        except OSError:
            return ""
        said = done.output.decode(errors="replace") if done.code == 0 else ""
        return from_tool(said, address)


def from_tool(said: str, address: str) -> str:
    """Return the name in the output of avahi-resolve-address or nmblookup; empty without one."""
    for line in said.splitlines():
        parts = line.split("\t")
        if len(parts) == 2 and parts[0] == address:
            return one_line(parts[1])
    found = _NETBIOS.search(said)
    return one_line(found[1]) if found else ""


def vendors(cards: Iterable[str], tables: Iterable[str] = VENDOR_TABLES) -> dict[str, str]:
    """Return {Ethernet address: the card's vendor} for vendors in a local table."""
    wanted: dict[str, list[str]] = {}
    for card in cards:
        # A locally administered address is nobody's.
        if not int(card[:2], 16) & 2:
            wanted.setdefault(card.replace(":", "").upper()[:6], []).append(card)
    found: dict[str, str] = {}
    for table in tables if wanted else ():
        try:
            with Path(table).open(encoding="utf-8", errors="replace") as lines:
                for line in lines:
                    prefix = _PREFIX.match(line)
                    key = re.sub(r"[:-]", "", prefix[0]).upper() if prefix else ""
                    if key in wanted:
                        assert prefix
                        name = line[prefix.end() :].replace("(hex)", "").replace("(base 16)", "")
                        found |= dict.fromkeys(wanted[key], one_line(name, 40))
        except OSError:
            continue
        break
    return found
