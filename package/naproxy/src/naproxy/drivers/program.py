"""Running a program for a driver: with a time limit, and with words that are safe to show."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

MOST_WORDS: Final = 300
"""Longest text of a program that is shown, in characters."""

_MOST_BYTES: Final = 8192
_CHUNK_BYTES: Final = 65536


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended: its exit status (None: not in time) and its words, both outputs."""

    code: int | None
    said: str

    @property
    def words(self) -> str:
        """Return why it failed, as one line, also when it said nothing."""
        if self.code is None:
            return "it did not end in time"
        return self.said or f"exit status {self.code}, without a word"


async def run(
    argv: Sequence[str], timeout_s: float, environment: Mapping[str, str] | None = None
) -> Ended:
    """Run a program to its end, or kill it after `timeout_s` and when cancelled.

    OSError if it cannot be started. However much it says, only the start is kept.
    """
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, **(environment or {})},
    )
    _as_others(process.pid)
    assert process.stdout is not None
    said = bytearray()
    late = False
    try:
        async with asyncio.timeout(timeout_s):
            while chunk := await process.stdout.read(_CHUNK_BYTES):
                said += chunk[: _MOST_BYTES - len(said)]
            await process.wait()
    except TimeoutError:
        late = True
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    return Ended(None if late else process.returncode, words(bytes(said)))


def _as_others(pid: int) -> None:
    """Take away the priority that the controller has: nobody waits for this program so much."""
    with contextlib.suppress(OSError):
        os.sched_setscheduler(pid, os.SCHED_OTHER, os.sched_param(0))


def words(said: bytes) -> str:
    """Return what a program said as one line that is safe to show."""
    text = said.decode(errors="replace")
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= MOST_WORDS else line[: MOST_WORDS - 3] + "..."
