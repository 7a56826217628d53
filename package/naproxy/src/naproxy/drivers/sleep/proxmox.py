"""Putting a virtual machine or a container of Proxmox VE to sleep, by its API.

In its host's memory it draws next to nothing, but the host stays on until all that need it sleep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from naproxy.core.findings import Problem
from naproxy.core.reason import Reason, WrongError
from naproxy.core.schema import option, redefault
from naproxy.drivers import Target, checks
from naproxy.drivers.proxmox import Guest, Order, Proxmox, ProxmoxSettings
from naproxy.drivers.sleep import ACCEPTED, SleepDriver, SleepResult, SleepSettings
from naproxy.server.machine_io import Answer

_LOOK_S: Final = 10.0


@dataclass(frozen=True, kw_only=True)
class Settings(ProxmoxSettings, SleepSettings):
    """Which machine."""

    # No magic packet wakes a virtual machine.
    woken_by: ClassVar[tuple[str, ...]] = ("proxmox", "command")

    driver: str = option("proxmox: a machine of Proxmox VE, by its API", "proxmox")
    timeout_s: float = redefault(SleepSettings, "timeout_s", 120.0)

    def conflicts(self) -> Iterator[tuple[str, Reason]]:
        """Proxmox forgets that a container was suspended, so nothing could resume it."""
        if "/lxc/" in self.machine and self.state != "off":
            yield "state", Reason("config.container")


class Driver(SleepDriver[Settings]):
    """Gives one order for each try, if the machine is not asleep already."""

    def __init__(self, settings: Settings, target: Target) -> None:
        """Manage the settings' machine."""
        super().__init__(settings, target)
        paused = {"paused", "suspended"} if settings.state == "ram" else set()
        self._asleep = {"stopped", *paused}
        # In a shutdown Proxmox gives up first, so that its words are heard.
        patience_s = max(1, int(0.8 * settings.timeout_s))
        self._order = {
            "ram": Order("suspend", {}),
            "disk": Order("suspend", {"todisk": 1}),
            "off": Order("shutdown", {"timeout": patience_s}),
        }[settings.state]

    async def order(self) -> SleepResult:
        """Give the order, unless the machine is locked, by a backup for example."""
        guest = await Proxmox(self._settings, self._settings.timeout_s).order(self._choose)
        if guest.state in self._asleep:
            return SleepResult(Answer.ACCEPTED, Reason("proxmox.already", state=guest.state))
        if guest.lock:
            return SleepResult(Answer.REFUSED, Reason("proxmox.locked", lock=guest.lock))
        return SleepResult(Answer.ACCEPTED, ACCEPTED)

    def _choose(self, guest: Guest) -> Order | None:
        return None if guest.state in self._asleep or guest.lock else self._order


# For the doctor


@dataclass(frozen=True, slots=True)
class Shown:
    """Why Proxmox does not show the machine; None: it does."""

    problem: Reason | None
    there: ClassVar[Reason | None] = None
    """A machine that runs does not show that its system does."""


async def see(settings: Settings, target: Target) -> Shown:
    """Ask what the machine is, and give no order."""
    try:
        await Proxmox(settings, _LOOK_S).order(lambda _: None)
    except WrongError as error:
        return Shown(error.reason)
    return Shown(None)


def proxmox(seen: checks.FromBox) -> Problem | None:
    """Look whether Proxmox shows the machine to the box."""
    problem = seen.way.problem
    return Problem(problem, Reason("doctor.do_see_proxmox")) if problem else None


CHECKS: Final[Mapping[str, tuple[Callable[[Any], Problem | None], ...]]] = {"box": (proxmox,)}
