"""Programs of the box's administrator, for what no driver does.

They must be in one folder that belongs to root: who may change the configuration, as the
web interface does, can choose among them, but cannot have just anything run as root.
"""

from __future__ import annotations

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


@dataclass(frozen=True, kw_only=True)
class CommandSettings:
    """What to run."""

    program: str = option(f"Name of a program in {DIRECTORY}", low=1, high=64, check=is_program)
    arguments: tuple[str, ...] = option("Its arguments", (), high=32)


async def run(settings: CommandSettings, target: Target, timeout_s: float) -> program.Ended:
    """Run it to its end, with the server's data in its environment; WrongError if it cannot be."""
    file = roots(settings.program)
    about_server = {
        "NAPROXY_SERVER": target.id,
        "NAPROXY_ADDRESS": target.address,
        "NAPROXY_MAC": target.mac,
        "NAPROXY_INTERFACE": target.interface,
    }
    return await program.run([str(file), *settings.arguments], timeout_s, about_server)


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
