"""`python -m naproxy.hindsight` in a bounded child process: one at a time, its answers kept.

An answer is kept by what was asked, and with the time of the newest request it knows of. The
child has the lowest priority, limits on memory and processor time, and is ended after a while.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path
from typing import IO, Any, Final

from flask import current_app

from naproxy_webui.errors import ApiError
from naproxy_webui.settings import Settings
from naproxy_webui.texts import t

LONGEST_S: Final = 1800.0
PROCESSOR_S: Final = 1800
MEMORY_BYTES: Final = 256 << 20
"""Of addresses; 230,000 requests took 36 MB of memory."""

FILE_BYTES: Final = 64 << 20
"""Of its temporary file: 22 bytes a request."""

NICENESS: Final = 19
KEPT: Final = 12
MOST_ANSWER_BYTES: Final = 1 << 20
_MOST_LINE: Final = 4096
_MOST_WORDS: Final = 2000

RUNNING, DONE, FAILED, CANCELLED, NONE = "running", "done", "failed", "cancelled", "none"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the answer to a question is."""

    state: str = NONE
    share: float = 0.0
    why: str | None = None
    """Of one that failed: memory, time, or words."""


def key_of(scope: Mapping[str, Any]) -> str:
    """Return the name under which an answer is kept."""
    return hashlib.sha256(json.dumps(scope, sort_keys=True).encode()).hexdigest()[:24]


class Hindsights:
    """The answer that is being worked out, and those that were."""

    def __init__(
        self,
        folder: Path,
        data_dir: Path,
        program: Sequence[str] = (),
        longest_s: float = LONGEST_S,
    ) -> None:
        """Keep answers in `folder`, which is ours alone."""
        self._folder = folder
        self._program = list(program) or [sys.executable, "-m", "naproxy.hindsight"]
        self._program.append(str(data_dir))
        self._longest_s = longest_s
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._ending: str | None = None
        self._key = ""
        self._progress = Progress()
        atexit.register(self.cancel)

    def progress(self, key: str) -> Progress:
        """Return how far the answer to this question is; NONE if another one is worked out."""
        return self._progress if key == self._key else Progress()

    @property
    def busy(self) -> bool:
        """Is any answer being worked out?"""
        return self._child is not None

    def kept(self, key: str) -> dict[str, Any] | None:
        """Return the answer that was kept, with what was asked."""
        try:
            found = json.loads((self._folder / f"{key}.json").read_text("utf-8"))
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def start(self, key: str, question: Mapping[str, Any], newest_s: float) -> None:
        """Begin to work out an answer; ApiError if another one is being worked out."""
        with self._lock:
            if self._child is not None:
                if key == self._key:
                    return
                raise ApiError(HTTPStatus.CONFLICT, t("savings.error_busy"))
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._key, self._ending, self._progress = key, None, Progress(RUNNING)
            self._child = child = self._run(question)
        about = {"question": question, "newest_s": newest_s, "made_s": time.time()}
        threading.Thread(target=self._watch, args=(child, key, about), daemon=True).start()

    def _run(self, question: Mapping[str, Any]) -> subprocess.Popen[bytes]:
        with (self._folder / "answer").open("wb") as out:
            child = subprocess.Popen(
                self._program,
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=subprocess.PIPE,
                env={**os.environ, "TMPDIR": str(self._folder)},
                start_new_session=True,
            )
        with suppress(ProcessLookupError, PermissionError):
            for what, most in (
                (resource.RLIMIT_AS, MEMORY_BYTES),
                (resource.RLIMIT_CPU, PROCESSOR_S),
                (resource.RLIMIT_FSIZE, FILE_BYTES),
                (resource.RLIMIT_CORE, 0),
            ):
                resource.prlimit(child.pid, what, (most, most))
            os.setpriority(os.PRIO_PROCESS, child.pid, NICENESS)
        assert child.stdin
        with suppress(BrokenPipeError):
            child.stdin.write(json.dumps(question).encode())
            child.stdin.close()
        return child

    def _watch(self, child: subprocess.Popen[bytes], key: str, about: dict[str, Any]) -> None:
        late = threading.Timer(self._longest_s, self._end, (child, "time"))
        late.daemon = True
        late.start()
        ended = Progress(FAILED, why="words")
        try:
            assert child.stderr
            words = self._listen(child.stderr)
            child.wait()
            ended = self._ended(child.returncode, words, key, about)
        finally:
            late.cancel()
            with self._lock:
                self._child = None
                self._progress = ended

    def _listen(self, said: IO[bytes]) -> str:
        words = ""
        while line := said.readline(_MOST_LINE):
            try:
                share = float(json.loads(line)["share"])
            except (ValueError, TypeError, KeyError):
                words = (words + line.decode(errors="replace"))[-_MOST_WORDS:]
                continue
            self._progress = replace(self._progress, share=min(1.0, max(0.0, share)))
        return words

    def _ended(self, status: int | None, words: str, key: str, about: dict[str, Any]) -> Progress:
        if self._ending == CANCELLED:
            return Progress(CANCELLED)
        if status == 0 and self._keep(key, about):
            return Progress(DONE, 1.0)
        memory = "MemoryError" in words or "Cannot allocate memory" in words
        slow = self._ending == "time" or status == -signal.SIGXCPU
        if not memory and not slow:
            current = f"hindsight ended with status {status}: {words}"
            print(current, file=sys.stderr, flush=True)
        return Progress(FAILED, why="memory" if memory else "time" if slow else "words")

    def _keep(self, key: str, about: dict[str, Any]) -> bool:
        answer = self._folder / "answer"
        try:
            if answer.stat().st_size > MOST_ANSWER_BYTES:
                return False
            made = json.loads(answer.read_bytes())
            fresh = self._folder / f"{key}.new"
            fresh.write_text(json.dumps({**about, "answer": made}), "utf-8")
            fresh.replace(self._folder / f"{key}.json")
            answer.unlink()
        except (OSError, ValueError, RecursionError):
            return False
        by_age = sorted(self._folder.glob("*.json"), key=lambda f: f.stat().st_mtime)
        for old in by_age[:-KEPT]:
            old.unlink(missing_ok=True)
        return True

    def cancel(self) -> None:
        """End the one that is being worked out, if any."""
        with self._lock:
            child = self._child
        if child is not None:
            self._end(child, CANCELLED)

    def _end(self, child: subprocess.Popen[bytes], why: str) -> None:
        if child.poll() is None:
            self._ending = why
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)


def hindsights() -> Hindsights:
    """Return that of this box."""
    extensions = current_app.extensions
    if "naproxy_hindsights" not in extensions:
        settings: Settings = extensions["naproxy_settings"]
        folder = settings.run_dir / "hindsight"
        extensions["naproxy_hindsights"] = Hindsights(folder, settings.data_dir)
    made: Hindsights = extensions["naproxy_hindsights"]
    return made
