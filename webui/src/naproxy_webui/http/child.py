"""A bounded child process, for work that is too heavy for the web interface itself.

It has the lowest priority, limits on memory, processor time and file size, and a deadline. It
reports its progress on standard error, one JSON object a line.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

NICENESS: Final = 19
_MOST_LINE: Final = 4096
_MOST_WORDS: Final = 2000

RUNNING, DONE, FAILED, CANCELLED, NONE = "running", "done", "failed", "cancelled", "none"
"""States of a child's work."""

WHY: Final = ("memory", "time", "disk", "words")
"""Causes of a failure; `words`: unknown, see the child's own message."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a child; `memory_bytes` limits its address space."""

    memory_bytes: int
    processor_s: int
    file_bytes: int
    longest_s: float


@dataclass(frozen=True, slots=True)
class Ending:
    """How a child ended: `state` DONE, FAILED or CANCELLED, `why` of WHY if it failed."""

    state: str
    why: str | None = None
    status: int = 0
    words: str = ""
    """The end of its standard error, without the progress reports."""


class Child:
    """One that runs, in a session of its own."""

    def __init__(
        self,
        command: Sequence[str],
        limits: Limits,
        out: Path,
        *,
        question: bytes = b"",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start it: `question` is its standard input, `out` its output, beside its own files."""
        self._limits = limits
        self._ended_by: str | None = None
        with out.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.PIPE,
                env={**os.environ, "TMPDIR": str(out.parent), **(environment or {})},
                cwd=out.parent,
                start_new_session=True,
            )
        self._bound()
        assert self._process.stdin
        with suppress(BrokenPipeError), self._process.stdin as said:
            said.write(question)

    def _bound(self) -> None:
        limits, pid = self._limits, self._process.pid
        with suppress(ProcessLookupError, PermissionError):
            for what, most in (
                (resource.RLIMIT_AS, limits.memory_bytes),
                (resource.RLIMIT_CPU, limits.processor_s),
                (resource.RLIMIT_FSIZE, limits.file_bytes),
                (resource.RLIMIT_CORE, 0),
            ):
                resource.prlimit(pid, what, (most, most))
            os.setpriority(os.PRIO_PROCESS, pid, NICENESS)

    def follow(self, told: Callable[[dict[str, Any]], None]) -> Ending:
        """Wait until it ends; `told` gets each progress report, and raises if it is not one."""
        late = threading.Timer(self._limits.longest_s, self._end, ("time",))
        late.daemon = True
        late.start()
        try:
            assert self._process.stderr
            with self._process.stderr as said:
                words = _listen(said, told)
            status = self._process.wait()
        finally:
            late.cancel()
        if self._ended_by == CANCELLED:
            return Ending(CANCELLED)
        if status == 0:
            return Ending(DONE)
        return Ending(FAILED, self._ended_by or _why(status, words), status, words)

    def cancel(self) -> None:
        """End it, if it runs."""
        self._end(CANCELLED)

    def _end(self, why: str) -> None:
        if self._process.poll() is None:
            self._ended_by = why
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)


def _listen(said: IO[bytes], told: Callable[[dict[str, Any]], None]) -> str:
    words = ""
    while line := said.readline(_MOST_LINE):
        try:
            told(json.loads(line))
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
            words = (words + line.decode(errors="replace"))[-_MOST_WORDS:]
    return words


def _why(status: int, words: str) -> str:
    if "MemoryError" in words or "Cannot allocate memory" in words:
        return "memory"
    if "No space left" in words or "File too large" in words or status == -signal.SIGXFSZ:
        return "disk"
    return "time" if status == -signal.SIGXCPU else "words"
