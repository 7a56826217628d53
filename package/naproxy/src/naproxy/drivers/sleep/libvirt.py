"""Putting a virtual machine to sleep, by `virsh` on its host.

In its host's memory it draws next to nothing, but the host stays on: what this saves is
the host's processor, and in `disk` and `off` its memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from naproxy.core.reason import own_words
from naproxy.core.schema import option
from naproxy.drivers import Target
from naproxy.drivers.sleep import ACCEPTED, SleepResult, SleepSettings
from naproxy.drivers.virsh import LibvirtSettings, Virsh, VirshError
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


class Driver:
    """Runs `virsh` once for each try."""

    def __init__(self, settings: Settings, target: Target) -> None:
        """Manage the settings' domain."""
        pause = settings.pause and settings.state == "ram"
        self._verb = ("suspend",) if pause else _VERBS[settings.state]
        self._virsh = Virsh(settings, settings.timeout_s)

    async def sleep(self) -> SleepResult:
        """Give the command."""
        try:
            said = await self._virsh.run(*self._verb)
        except VirshError as error:
            return SleepResult(Answer.FAILED, error.reason)
        return SleepResult(Answer.ACCEPTED, own_words(said) if said else ACCEPTED)
