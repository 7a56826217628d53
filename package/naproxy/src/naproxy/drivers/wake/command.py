"""Waking a server by a program of the box's administrator."""

from __future__ import annotations

from dataclasses import dataclass

from naproxy.core.schema import option
from naproxy.drivers import Target, own_command
from naproxy.drivers.wake import SlowDriver, SlowRungSettings, WakeError


@dataclass(frozen=True, kw_only=True)
class Settings(own_command.CommandSettings, SlowRungSettings):
    """What to run."""

    driver: str = option("command: your own program on the box", "command")
    presses: bool = option("It presses a button: do not run it while the machine may be on", False)


class Driver(SlowDriver):
    """Runs it once for each try; an exit status other than 0 is a failure, with its words."""

    def __init__(self, settings: Settings, target: Target) -> None:
        """Tell the program of this server."""
        self._settings = settings
        self._command = own_command.OwnCommand(settings, target)

    async def call(self) -> None:
        """Run it once."""
        ended = await self._command.run(self._settings.timeout_s)
        if ended.code != 0:
            raise WakeError("driver.program", program=self._settings.program, words=ended.why)
