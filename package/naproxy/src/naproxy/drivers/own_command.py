"""Programs of the box's administrator, for what no driver does.

They must be in one folder that belongs to root: who may change the configuration, as the
web interface does, can choose among them, but cannot have just anything run as root.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from naproxy.core import processes as program
from naproxy.core.reason import Reason, WrongError
from naproxy.core.schema import option
from naproxy.drivers import Target

DIRECTORY: Final = Path("/etc/naproxy/commands")


class CommandError(WrongError):
    """The program cannot be run."""


def is_program(text: str) -> Reason | None:
    """Check the name of a program in the folder."""
    ok = re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", text)
    return None if ok else Reason("config.file_in", name=str(DIRECTORY))


@dataclass(frozen=True, kw_only=True)
class CommandSettings:
    """What to run."""

    program: str = option(f"Name of a program in {DIRECTORY}", low=1, high=64, check=is_program)
    arguments: tuple[str, ...] = option("Its arguments", (), high=32)


class OwnCommand:
    """Runs the program, with the server's data in its environment."""

    def __init__(self, settings: CommandSettings, target: Target) -> None:
        """`target` becomes NAPROXY_SERVER, NAPROXY_ADDRESS, NAPROXY_MAC, NAPROXY_INTERFACE."""
        self._argv = [str(DIRECTORY / settings.program), *settings.arguments]
        self._environment = {
            "NAPROXY_SERVER": target.id,
            "NAPROXY_ADDRESS": target.address,
            "NAPROXY_MAC": target.mac,
            "NAPROXY_INTERFACE": target.interface,
        }

    async def run(self, timeout_s: float) -> program.Ended:
        """Run it to its end; CommandError if it cannot be run."""
        file = Path(self._argv[0])
        try:
            for path in (file.parent, file):
                about = path.stat()
                if about.st_uid != 0 or about.st_mode & 0o022:
                    raise CommandError("driver.not_roots", file=str(path))
            return await program.run(self._argv, timeout_s, self._environment)
        except OSError as error:
            why = error.strerror
            raise CommandError("driver.cannot_run", program=str(file), why=why) from None
