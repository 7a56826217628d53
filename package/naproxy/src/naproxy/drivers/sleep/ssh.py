"""Putting a server to sleep by a command over OpenSSH.

The server decides: a forced command in authorized_keys says no by its exit status and in
its own words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from naproxy.drivers import Target
from naproxy.drivers.openssh import Session, Ssh, SshSettings
from naproxy.drivers.sleep import THE_SERVER, SleepResult, SleepSettings, by_exit_status
from naproxy.machine_io import Answer
from naproxy.reason import Reason
from naproxy.schema import option

_CONNECTION_ENDED: Final = 255


@dataclass(frozen=True, kw_only=True)
class Settings(SshSettings, SleepSettings):
    """Where to log in, and what to say there."""

    driver: str = option("ssh: a command by OpenSSH", "ssh")
    command: str = option("Command; a forced command on the server overrides it", "naproxy-sleep")


class Driver:
    """Logs in once for each try."""

    def __init__(self, settings: Settings, target: Target) -> None:
        """Log in to the settings' host, or else the target's address."""
        self._settings = settings
        self._ssh = Ssh(settings, target.address)

    async def sleep(self) -> SleepResult:
        """Give the command and return the server's answer."""
        try:
            session = await self._ssh.run(self._settings.command, self._settings.timeout_s)
        except OSError as error:
            reason = Reason("driver.cannot_run", program="ssh", why=error.strerror)
            return SleepResult(Answer.FAILED, reason)
        return self._judge(session)

    def _judge(self, session: Session) -> SleepResult:
        """Tell the answers apart."""
        code = session.ended.code
        if code is not None and 0 <= code < _CONNECTION_ENDED:
            return by_exit_status(session.ended, THE_SERVER)
        if session.let_in:
            return SleepResult(Answer.ACCEPTED, Reason("sleep.connection_ended"))
        return SleepResult(Answer.FAILED, self._ssh.failure(session.log))
