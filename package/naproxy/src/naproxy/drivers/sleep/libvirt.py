"""Putting a virtual machine to sleep, by `virsh` on its host.

In its host's memory it draws next to nothing, but the host stays on until all its guests sleep.
This saves the host's processor, and in `disk` and `off` its memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from naproxy.core.reason import own_words
from naproxy.core.schema import option
from naproxy.drivers import virsh
from naproxy.drivers.sleep import ACCEPTED, SleepDriver, SleepResult, SleepSettings
from naproxy.drivers.virsh import LibvirtSettings
from naproxy.server.machine_io import Answer

_VERBS: Final = {
    "ram": ("dompmsuspend", "mem"),
    "disk": ("managedsave",),
    "off": ("shutdown",),
}


@dataclass(frozen=True, kw_only=True)
class Settings(LibvirtSettings, SleepSettings):
    """Which virtual machine."""

    # No magic packet wakes a virtual machine.
    woken_by: ClassVar[tuple[str, ...]] = ("libvirt", "command")

    driver: str = option("libvirt: a virtual machine, by virsh over ssh", "libvirt")
    pause: bool = option(
        'With state = "ram": stop its processors from outside. This needs no guest agent, and the'
        " machine's own system does not notice",
        False,
    )


class Driver(SleepDriver[Settings]):
    """Runs `virsh` once for each try."""

    async def order(self) -> SleepResult:
        """Give the command."""
        settings = self._settings
        pause = settings.pause and settings.state == "ram"
        verb = ("suspend",) if pause else _VERBS[settings.state]
        said = await virsh.run(settings, settings.timeout_s, *verb)
        return SleepResult(Answer.ACCEPTED, own_words(said) if said else ACCEPTED)
