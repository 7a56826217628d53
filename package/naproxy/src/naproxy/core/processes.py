"""Running a program for a driver: with a time limit, and with words that are safe to show."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from naproxy.core.reason import Reason, WrongError, own_words

MOST_WORDS: Final = 300
"""Longest text of a program that is shown, in characters."""

_MOST_BYTES: Final = 8192
_LAST_WORDS_S: Final = 0.2
"""Time to read the rest of the pipe after its end: a grandchild may keep the pipe open."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended: its exit status (None: not in time) and its words, both outputs."""

    code: int | None
    said: str

    @property
    def why(self) -> Reason:
        """Return why it failed, also when it said nothing."""
        if self.code is None:
            return Reason("driver.too_late")
        if self.said:
            return own_words(self.said)
        if self.code < 0:
            return Reason("driver.signal", signal=-self.code)
        return Reason("driver.exit_status", status=self.code)


@dataclass(frozen=True, slots=True)
class Printed:
    """How a program ended (None: not in time), and the start of each of its outputs."""

    code: int | None
    output: bytes
    complaint: bytes

    @property
    def why(self) -> Reason:
        """Return why it failed, in its own words if it said any."""
        return Ended(self.code, words(self.complaint or self.output)).why


class _Said(asyncio.Protocol):
    """Keeps the start of a pipe's output; `ended` when no more can come."""

    def __init__(self, most_bytes: int) -> None:
        self.data = bytearray()
        self.ended = asyncio.Event()
        self._most_bytes = most_bytes

    def data_received(self, data: bytes) -> None:
        self.data += data[: self._most_bytes - len(self.data)]

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()


async def run(
    argv: Sequence[str], timeout_s: float, environment: Mapping[str, str] | None = None
) -> Ended:
    """Run a program to its end, or kill it after `timeout_s` and when cancelled.

    With it goes what it started, unless that left its process group. WrongError if it cannot be
    started. However much it says, only the start is kept.
    """
    async with _pipe(_MOST_BYTES) as (said, write):
        try:
            code = await _spawn(argv, timeout_s, environment, (write, write))
        except OSError as error:
            raise WrongError("driver.cannot_run", program=argv[0], why=error.strerror) from None
        await _last_words(said)
        return Ended(code, words(bytes(said.data)))


async def printed(
    argv: Sequence[str], timeout_s: float, environment: Mapping[str, str], most_bytes: int
) -> Printed:
    """Do the same, with `most_bytes` of each output kept, and the two apart; OSError."""
    async with _pipe(most_bytes) as (said, out), _pipe(most_bytes) as (complaint, err):
        code = await _spawn(argv, timeout_s, environment, (out, err))
        await _last_words(said, complaint)
        return Printed(code, bytes(said.data), bytes(complaint.data))


@asynccontextmanager
async def _pipe(most_bytes: int) -> AsyncIterator[tuple[_Said, int]]:
    """Make a pipe of our own: its reader, and the end to write to, which the user closes.

    asyncio's would make the end of a program wait for the end of everything that has its
    output open.
    """
    read, write = os.pipe2(os.O_CLOEXEC)
    transport, said = await asyncio.get_running_loop().connect_read_pipe(
        lambda: _Said(most_bytes), os.fdopen(read, "rb", 0)
    )
    try:
        yield said, write
    finally:
        transport.close()


async def _spawn(
    argv: Sequence[str],
    timeout_s: float,
    environment: Mapping[str, str] | None,
    outputs: tuple[int, int],
) -> int | None:
    """Run a program with these as its outputs, and close them here."""
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=outputs[0],
            stderr=outputs[1],
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )
    finally:
        for write in set(outputs):
            os.close(write)
    as_others(process.pid)
    return await _end(process, timeout_s)


async def _last_words(*pipes: _Said) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LAST_WORDS_S):
            for said in pipes:
                await said.ended.wait()


async def _end(process: asyncio.subprocess.Process, timeout_s: float) -> int | None:
    """Wait for the end, or make it; None: it did not end in time."""
    try:
        async with asyncio.timeout(timeout_s):
            return await process.wait()
    except TimeoutError:
        return None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


def as_others(pid: int) -> None:
    """Take away the priority that the controller has: nobody waits for this program so much."""
    with contextlib.suppress(OSError):
        os.sched_setscheduler(pid, os.SCHED_OTHER, os.sched_param(0))


def words(said: bytes | str) -> str:
    """Return what a program said as one line that is safe to show."""
    text = said if isinstance(said, str) else said.decode(errors="replace")
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= MOST_WORDS else line[: MOST_WORDS - 3] + "..."


def why(error: BaseException) -> str:
    """Return what the system or a library said of an error, safe to show as well."""
    said = error.strerror.lower() if isinstance(error, OSError) and error.strerror else str(error)
    return words(said) or type(error).__name__
