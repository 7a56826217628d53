"""Putting a server to sleep by a program of the box's administrator."""

from __future__ import annotations

from dataclasses import dataclass

from naproxy.core.reason import own_words
from naproxy.core.schema import option
from naproxy.drivers import own_command
from naproxy.drivers.sleep import SleepDriver, SleepResult, SleepSettings, by_exit_status


@dataclass(frozen=True, kw_only=True)
class Settings(own_command.CommandSettings, SleepSettings):
    """What to run."""

    driver: str = option("command: your own program on the box", "command")


class Driver(SleepDriver[Settings]):
    """Runs it once for each try: exit status 0 means yes; others mean no, with its output."""

    async def order(self) -> SleepResult:
        """Run it and return its answer."""
        ended = await own_command.run(self._settings, self._target, self._settings.timeout_s)
        return by_exit_status(ended, own_words(self._settings.call[0]))
