"""Programs of the box's administrator, for tasks without a driver.

They must be in one folder that belongs to root. The web interface changes the configuration, so it
can choose among these programs, but it cannot run any other program as root.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from naproxy.core import processes as program
from naproxy.core.reason import Reason, WrongError
from naproxy.core.schema import fits, option
from naproxy.drivers import Target

DIRECTORY: Final = Path("/etc/naproxy/commands")
is_program: Final = fits(
    r"[A-Za-z0-9_][A-Za-z0-9_.-]*", Reason("config.file_in", name=str(DIRECTORY))
)


def _is_call(text: str) -> Reason | None:
    try:
        name, *_ = shlex.split(text) or [""]
    except ValueError:
        return Reason("config.quotes")
    return is_program(name)


@dataclass(frozen=True, kw_only=True)
class CommandSettings:
    """What to run."""

    program: str = option(
        f"Name of a program in {DIRECTORY}, and its arguments, those with spaces in quotes",
        low=1,
        high=1000,
        check=_is_call,
    )

    @property
    def call(self) -> list[str]:
        """The program's name and its arguments. No shell reads them."""
        return shlex.split(self.program)


async def run(settings: CommandSettings, target: Target, timeout_s: float) -> program.Ended:
    """Run it to its end, with the server's data in its environment; WrongError if it cannot be."""
    name, *arguments = settings.call
    file = roots(name)
    about_server = {
        "NAPROXY_SERVER": target.id,
        "NAPROXY_ADDRESS": target.address,
        "NAPROXY_MAC": target.mac,
        "NAPROXY_INTERFACE": target.interface,
    }
    return await program.run([str(file), *arguments], timeout_s, about_server)


def roots(name: str) -> Path:
    """Return a program's file; WrongError if anybody but root could have put it there."""
    file = DIRECTORY / name
    for path in (file.parent, file):
        try:
            about = path.stat()
        except OSError as error:
            why = error.strerror
            raise WrongError("driver.cannot_run", program=str(file), why=why) from None
        if about.st_uid != 0 or about.st_mode & 0o022:
            raise WrongError("driver.not_roots", file=str(path))
    return file
