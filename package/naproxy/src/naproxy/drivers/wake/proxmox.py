"""Waking a virtual machine or a container of Proxmox VE from any state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from naproxy.core.schema import fixed, option
from naproxy.drivers.proxmox import Guest, Order, Proxmox, ProxmoxSettings
from naproxy.drivers.wake import SlowDriver, SlowRungSettings

_WAY_BACK: Final = {"stopped": "start", "paused": "resume", "suspended": "resume"}
"""Verb by state; one that was suspended to disk is stopped, start restores it."""


@dataclass(frozen=True, kw_only=True)
class Settings(ProxmoxSettings, SlowRungSettings):
    """Which machine."""

    driver: str = option("proxmox: a machine of Proxmox VE, by its API", "proxmox")
    timeout_s: float = fixed(300.0)
    """A machine that was suspended to disk reads its memory back first."""


class Driver(SlowDriver[Settings]):
    """Asks for the state and gives the order that leads out of it."""

    async def call(self) -> None:
        """Wake it once; one that runs already needs nothing."""
        await Proxmox(self._settings, self._settings.timeout_s).order(_choose)


def _choose(guest: Guest) -> Order | None:
    verb = _WAY_BACK.get(guest.state)
    return Order(verb, {}) if verb else None
