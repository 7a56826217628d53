"""Waking a virtual machine from any state, by `virsh` on its host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from naproxy.core.schema import option, redefault
from naproxy.drivers import virsh
from naproxy.drivers.virsh import LibvirtSettings
from naproxy.drivers.wake import SlowDriver, SlowRungSettings

_WAY_BACK: Final = {
    "pmsuspended": "dompmwakeup",
    "paused": "resume",
    "shut off": "start",
    "crashed": "start",
}
"""Verb by the state that `virsh domstate` says; a managed save is shut off, start restores it."""


@dataclass(frozen=True, kw_only=True)
class Settings(LibvirtSettings, SlowRungSettings):
    """Which virtual machine."""

    driver: str = option("libvirt: a virtual machine, by virsh over ssh", "libvirt")
    spacing_s: float = redefault(SlowRungSettings, "spacing_s", 2.0)


class Driver(SlowDriver[Settings]):
    """Asks for the state and gives the command that leads out of it."""

    async def call(self) -> None:
        """Wake it once; one that runs already needs nothing."""
        settings = self._settings
        verb = _WAY_BACK.get(await virsh.run(settings, settings.timeout_s, "domstate"))
        if verb:
            await virsh.run(settings, settings.timeout_s, verb)
