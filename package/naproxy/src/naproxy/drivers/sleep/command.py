"""Putting a server to sleep by a program of the box's administrator."""

from __future__ import annotations

from dataclasses import dataclass

from naproxy.core.reason import own_words
from naproxy.core.schema import option
from naproxy.drivers import Target, own_command
from naproxy.drivers.sleep import SleepResult, SleepSettings, by_exit_status
from naproxy.server.machine_io import Answer


@dataclass(frozen=True, kw_only=True)
class Settings(own_command.CommandSettings, SleepSettings):
    """What to run."""

    driver: str = option("command: your own program on the box", "command")


class Driver:
    """Runs it once for each try: exit status 0 is yes, another no, with what it prints."""

    def __init__(self, settings: Settings, target: Target) -> None:
        """Tell the program of this server."""
        self._settings = settings
        self._command = own_command.OwnCommand(settings, target)

    async def sleep(self) -> SleepResult:
        """Run it and return its answer."""
        try:
            ended = await self._command.run(self._settings.timeout_s)
        except own_command.CommandError as error:
            return SleepResult(Answer.FAILED, error.reason)
        return by_exit_status(ended, own_words(self._settings.program))
