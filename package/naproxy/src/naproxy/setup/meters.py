"""Looking for meters: serial ports that name one, chips of this machine, plugs of the last scan.

Only devices that identify themselves as a meter are opened; a serial port may be anything, even a
modem. A meter counts as found once it gives a reading.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from naproxy import drivers
from naproxy.api.jobs import Progress
from naproxy.core.reason import Reason
from naproxy.drivers.meter import Fault, Reading, Site
from naproxy.setup import web

READING_S: Final = 15.0
"""The EnviR speaks every 6 s, an Arduino starts for 2 s when its port is opened."""

SERIAL: Final = Path("/dev/serial/by-id")
HWMON: Final = Path("/sys/class/hwmon")

_NAMES: Final = (
    (re.compile(r"micropython|raspberry_pi_pico", re.IGNORECASE), "ina219"),
    (re.compile(r"arduino", re.IGNORECASE), "energino"),
    (re.compile(r"prolific|pl2303", re.IGNORECASE), "currentcost"),
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A possible meter: its configuration, and a label for people."""

    driver: str
    name: str
    keys: Mapping[str, Any]
    needs_password: bool = False


def serial_ports(folder: Path = SERIAL) -> Iterator[tuple[str, str]]:
    """Yield each USB serial port with the driver its name speaks for; empty: for none."""
    with contextlib.suppress(OSError):
        for port in sorted(folder.iterdir()):
            found = (driver for pattern, driver in _NAMES if pattern.search(port.name))
            yield str(port), next(found, "")


def chips(folder: Path = HWMON) -> Iterator[Candidate]:
    """Yield the chips that the kernel reads; its own shunt stays as it is set."""
    with contextlib.suppress(OSError):
        for chip in sorted(folder.iterdir()):
            with contextlib.suppress(OSError, ValueError):
                if (chip / "name").read_text().strip() == "ina219":
                    shunt_uohm = int((chip / "shunt_resistor").read_text())
                    keys = {"device": str(chip), "shunt_uohm": shunt_uohm}
                    yield Candidate("ina219", chip.name, keys)


def wired(taken: Iterable[str]) -> Iterator[Candidate]:
    """Yield what is plugged into this box and not configured yet."""
    used = {str(Path(each).resolve()) for each in taken}
    for port, driver in serial_ports():
        if driver and str(Path(port).resolve()) not in used:
            yield Candidate(driver, web.one_line(Path(port).name), {"device": port})
    for chip in chips():
        if str(Path(str(chip.keys["device"])).resolve()) not in used:
            yield chip


def unknown_ports() -> list[str]:
    """Return the serial ports that do not say what they are."""
    return [web.one_line(Path(port).name) for port, driver in serial_ports() if not driver]


Shelly = Callable[[str], Any]


async def plugs(
    hosts: Sequence[Mapping[str, Any]], taken: Iterable[str], ask: Shelly = web.look_for_shelly
) -> list[Candidate]:
    """Return the plugs among the machines of a scan."""
    used = set(taken)
    found: list[Candidate] = []
    for host in hosts:
        address, kind = str(host["address"]), host["http"]["meter"]
        if not kind or address in used:
            continue
        name = str(host["name"]) or address
        if kind == "tasmota":
            found.append(Candidate("tasmota", name, {"host": address}))
        elif said := await ask(address):
            found += _shelly(address, name, said)
    return found


def _shelly(address: str, name: str, said: Mapping[str, Any]) -> Iterator[Candidate]:
    shown = f"{name} ({said['model']})"
    kinds = ("meter", "emeter") if said["gen"] == 1 else ("switch", "pm1", "em1", "em")
    for kind in kinds:
        keys = {"host": address, "kind": kind}
        yield Candidate("shelly", shown, keys, needs_password=bool(said["auth"]))


async def reading(candidate: Candidate, limit_s: float = READING_S) -> Reading:
    """Return the first reading of a candidate; Fault of the last try."""
    settings = drivers.settings("meter", candidate.driver)(
        id="found", of="box", driver=candidate.driver, **candidate.keys
    )
    site = Site(str(candidate.keys.get("host", "")), lambda: None)
    readings = drivers.driver("meter", settings, site).readings()
    try:
        async with asyncio.timeout(limit_s):
            return await _first(readings)
    except TimeoutError:
        raise Fault("silence", "meter.no_reading", limit_s=limit_s) from None
    except OSError as error:
        raise Fault("lost", "core.own_words", text=str(error)) from None
    finally:
        await readings.aclose()


async def _first(readings: AsyncGenerator[Reading | Fault, None]) -> Reading:
    async for item in readings:
        if isinstance(item, Reading):
            return item
    raise Fault("silence", "meter.only_ended")


async def search(
    hosts: Sequence[Mapping[str, Any]],
    taken: Sequence[str],
    progress: Progress,
    read: Callable[[Candidate], Any] = reading,
) -> dict[str, Any]:
    """Return the meters that gave a reading, and the possible ones that did not."""
    progress.part = "meters"
    candidates = [*wired(taken), *await plugs(hosts, taken)]
    progress.of = len(candidates)
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for candidate in candidates:
        where = str(candidate.keys.get("host") or candidate.keys.get("device") or candidate.name)
        before = found.get((candidate.driver, where))
        if before is None or before["power_w"] is None:
            found[candidate.driver, where] = await _tried(candidate, where, read)
        progress.done += 1
    return {"meters": list(found.values()), "unknown_ports": unknown_ports()}


async def _tried(
    candidate: Candidate, where: str, read: Callable[[Candidate], Any]
) -> dict[str, Any]:
    power_w, problem = None, None
    if candidate.needs_password:
        problem = Reason("setup.meter_password")
    else:
        try:
            power_w = (await read(candidate)).power_w
        except Fault as fault:
            problem = fault.reason
    return {
        "driver": candidate.driver,
        "name": candidate.name,
        "where": where,
        "keys": dict(candidate.keys),
        "power_w": power_w,
        "problem": str(problem or ""),
        "problem_reason": problem and problem.plain(),
    }
