"""Has haproxy live by a new configuration; the last good one stays where that fails.

FOLDER/gen-DIGEST/     what `render` made
FOLDER/current         a link to the one in force; haproxy starts from it, also without us
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from naproxy.core import files as disk
from naproxy.core.processes import printed, words
from naproxy.core.reason import Reason
from naproxy.edge.render import CONFIGURATION, Here, digest_of

PROGRAM: Final = "haproxy"
_CURRENT: Final = "current"
_NEXT: Final = "current.next"
_GENERATION: Final = "gen-"
_CHECK_S: Final = 30.0
_TAKES_S: Final = 20.0
_DEAF_S: Final = 2
"""A master that has just started its worker hears no signal yet. Never tell it twice: a try that
fails makes the old worker pause for the moment."""
_LOOK_S: Final = 0.1
_ANSWER_S: Final = 2.0
_MOST_BYTES: Final = 1 << 16

Info = Mapping[str, str]
"""haproxy's answer to `show info`."""


class Haproxy:
    """The program: its master process, and its socket."""

    def __init__(self, here: Here, program: str = PROGRAM) -> None:
        self.here = here
        self._program = program

    async def check(self, file: Path) -> Reason | None:
        """Return what is wrong with a configuration."""
        try:
            done = await printed(
                (self._program, "-c", "-f", str(file)), _CHECK_S, {"LC_ALL": "C"}, _MOST_BYTES
            )
        except FileNotFoundError:
            return Reason("https.no_haproxy")
        said = _alerts(done.complaint.decode(errors="replace"), file.parent)
        return None if done.code == 0 else Reason("https.not_good", why=said or done.why)

    async def info(self) -> Info | None:
        """Return what it says of itself; None if it does not run."""
        try:
            async with asyncio.timeout(_ANSWER_S):
                reader, writer = await asyncio.open_unix_connection(self.here.stats)
                with contextlib.closing(writer):
                    writer.write(b"show info\n")
                    said = await reader.read(_MOST_BYTES)
                    while more := await reader.read(_MOST_BYTES - len(said)):
                        said += more
        except (OSError, TimeoutError):
            return None
        lines = said.decode(errors="replace").splitlines()
        return dict(line.partition(": ")[::2] for line in lines)

    def master(self) -> int | None:
        """Return the process id of its master, if it runs."""
        try:
            pid = int(self.here.pid_file.read_text())
            name = Path(f"/proc/{pid}/comm").read_text().strip()
        except (OSError, ValueError):
            return None
        return pid if name == Path(self._program).name else None

    def tell(self, number: signal.Signals) -> None:
        """Send its master a signal, if it runs."""
        pid = self.master()
        with contextlib.suppress(OSError):
            if pid:
                os.kill(pid, number)


class Generations:
    """The folders that haproxy starts from. The disk is written in threads: it may take long."""

    def __init__(self, folder: Path, haproxy: Haproxy, takes_s: float = _TAKES_S) -> None:
        self._folder = folder
        self._haproxy = haproxy
        self._takes_s = takes_s

    @property
    def current(self) -> str:
        """Return the digest of the configuration in force; empty if there is none."""
        try:
            return (self._folder / _CURRENT).readlink().name.removeprefix(_GENERATION)
        except OSError:
            return ""

    def applied_s(self) -> float | None:
        """Return since when it is."""
        try:
            return (self._folder / _CURRENT).lstat().st_mtime
        except OSError:
            return None

    async def apply(self, files: Mapping[str, bytes]) -> Reason | None:
        """Load these into haproxy; return the reason if it keeps its old configuration. OSError."""
        digest, before = digest_of(files), self.current
        if digest != before:
            made = await asyncio.to_thread(self._write, digest, files)
            if wrong := await self._haproxy.check(made / CONFIGURATION):
                await asyncio.to_thread(shutil.rmtree, made)
                return wrong
            await asyncio.to_thread(self._switch, digest)
        wrong = await self.follow()
        if wrong and before and before != digest:
            await asyncio.to_thread(self._switch, before)
            await self.follow()
        await asyncio.to_thread(self._forget, {self.current, before})
        return wrong

    async def follow(self) -> Reason | None:
        """Have a haproxy that runs take what is in force; return why it does not."""
        digest, told, gone = self.current, False, 0
        for _ in range(round(self._takes_s / _LOOK_S)):
            info = await self._haproxy.info()
            if info and info.get("description") == digest:
                return None
            # On a reload haproxy rewrites its file, which is empty for a moment.
            gone = 0 if self._haproxy.master() else gone + 1
            if gone == 2:
                return None  # a later start uses this configuration
            if not told and _listens(info):
                self._haproxy.tell(signal.SIGUSR2)
                told = True
            await asyncio.sleep(_LOOK_S)
        return Reason("https.not_taken")

    async def check(self, files: Mapping[str, bytes]) -> Reason | None:
        """Return why haproxy could not live by these; nothing changes. OSError."""
        made = await asyncio.to_thread(self._write, f"{digest_of(files)}.try", files)
        try:
            return await self._haproxy.check(made / CONFIGURATION)
        finally:
            await asyncio.to_thread(shutil.rmtree, made)

    def stop(self) -> None:
        """HTTPS is not wanted any more: connections may end, no new one begins.

        Say it again while it runs: one that only just starts is deaf.
        """
        (self._folder / _CURRENT).unlink(missing_ok=True)
        self._haproxy.tell(signal.SIGUSR1)
        self._forget(set())

    def _write(self, digest: str, files: Mapping[str, bytes]) -> Path:
        made = self._folder / f"{_GENERATION}{digest}"
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(mode=0o700, parents=True)
        self._folder.chmod(0o700)
        for name, data in files.items():
            disk.write(made / name, data, 0o600)
        return made

    def _switch(self, digest: str) -> None:
        link = self._folder / _NEXT
        link.unlink(missing_ok=True)
        link.symlink_to(f"{_GENERATION}{digest}")
        link.replace(self._folder / _CURRENT)
        disk.sync(self._folder)

    def _forget(self, but: set[str]) -> None:
        for path in self._folder.glob(f"{_GENERATION}*"):
            if path.name.removeprefix(_GENERATION) not in but:
                shutil.rmtree(path, ignore_errors=True)


def _alerts(said: str, folder: Path) -> str:
    """Return what is wrong of all that haproxy says, without where the files are."""
    lines = [line.partition(" : ")[2] for line in said.splitlines() if "[ALERT]" in line]
    return words("; ".join(lines[:1]).replace(f"{folder}/", ""))


def _listens(info: Info | None) -> bool:
    uptime = info.get("Uptime_sec", "") if info else ""
    return uptime.isdigit() and int(uptime) >= _DEAF_S
