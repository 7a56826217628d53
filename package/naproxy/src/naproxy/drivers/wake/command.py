"""Waking a server by a program of the box's administrator."""

from __future__ import annotations

from dataclasses import dataclass

from naproxy.core.reason import WrongError
from naproxy.core.schema import option
from naproxy.drivers import own_command
from naproxy.drivers.wake import SlowDriver, SlowRungSettings


@dataclass(frozen=True, kw_only=True)
class Settings(own_command.CommandSettings, SlowRungSettings):
    """What to run."""

    driver: str = option("command: your own program on the box", "command")
    presses: bool = option("It presses a button: do not run it while the machine may be on", False)


class Driver(SlowDriver[Settings]):
    """Runs it once for each try; an exit status other than 0 is a failure, with its words."""

    async def call(self) -> None:
        """Run it once."""
        ended = await own_command.run(self._settings, self._target, self._settings.timeout_s)
        if ended.code != 0:
            raise WrongError("driver.program", program=self._settings.call[0], words=ended.why)
