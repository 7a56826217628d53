"""Magic packets by `etherwake`, on the raw wire."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final

from naproxy.core import processes as program
from naproxy.core.reason import Reason
from naproxy.core.schema import is_interface, option
from naproxy.drivers import Target
from naproxy.drivers.needs import Needs
from naproxy.drivers.wake import RungSettings

_WORDS_BYTES: Final = 1000


@dataclass(frozen=True, kw_only=True)
class Settings(RungSettings):
    """Where to send, and to whom."""

    on_wire: ClassVar[bool] = True
    needs: ClassVar[Needs] = Needs(programs={"etherwake": "etherwake"}, kernel=("PACKET",))

    driver: str = option("etherwake: magic packets on the wire", "etherwake")
    interface: str = option("Network interface; empty: the server's", "", check=is_interface)


class Driver:
    """Runs etherwake, once for each packet.

    posix_spawn, because it costs the same however large this process is. The end of the
    output tells that the program has ended: no thread or signal is needed to know.
    """

    def __init__(self, settings: Settings, target: Target) -> None:
        """Send on the settings' interface or else the target's.

        To all: a switch may have forgotten where the card of a machine is that sleeps.
        """
        self._program = shutil.which("etherwake", path=os.defpath + ":/usr/sbin:/sbin")
        interface = settings.interface or target.interface
        self._arguments = ["etherwake", "-b", "-i", interface, target.mac]

    def send(self, failed: Callable[[Reason], None]) -> None:
        """Send one packet."""
        if self._program is None:
            failed(Reason("wake.no_etherwake"))
            return
        read, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            pid = os.posix_spawn(
                self._program,
                self._arguments,
                {},
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, write, 1),
                    (os.POSIX_SPAWN_DUP2, write, 2),
                ],
            )
        except OSError as error:
            os.close(read)
            failed(Reason("driver.cannot_run", program="etherwake", why=error.strerror))
            return
        finally:
            os.close(write)
        asyncio.get_running_loop().add_reader(read, self._ended, pid, read, [], failed)

    def _ended(
        self, pid: int, read: int, said: list[bytes], failed: Callable[[Reason], None]
    ) -> None:
        more = os.read(read, _WORDS_BYTES)
        if more:
            said.append(more)
            del said[8:]
            return
        asyncio.get_running_loop().remove_reader(read)
        os.close(read)
        _, status = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        if code:
            ended = program.Ended(code, program.words(b"".join(said)))
            failed(Reason("driver.program", program="etherwake", words=ended.why))
