"""Hindsight in a bounded child process: one at a time, its answers kept.

An answer is kept under its question, with the time of the newest request that it covers.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from flask import current_app

from naproxy_webui.http.child import DONE, FAILED, NONE, RUNNING, Child, Ending, Limits
from naproxy_webui.http.errors import ApiError
from naproxy_webui.i18n.texts import t
from naproxy_webui.options import Settings

LIMITS: Final = Limits(
    memory_bytes=256 << 20, processor_s=1800, file_bytes=64 << 20, longest_s=1800.0
)
"""230,000 requests took 36 MB of memory, a request takes 24 bytes of a file."""

KEPT: Final = 12
MOST_ANSWER_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the answer to a question is."""

    state: str = NONE
    share: float = 0.0
    why: str | None = None
    """Of one that failed: one of child.WHY."""


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
        limits: Limits = LIMITS,
    ) -> None:
        """Keep answers in `folder`, which is ours alone."""
        self._folder = folder.absolute()
        self._program = list(program) or [sys.executable, "-m", "naproxy.lab.estimate.hindsight"]
        self._program.append(str(data_dir.absolute()))
        self._limits = limits
        self._lock = threading.Lock()
        self._child: Child | None = None
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
        """Return the kept answer with its question."""
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
            self._key, self._progress = key, Progress(RUNNING)
            self._child = child = Child(
                self._program,
                self._limits,
                self._folder / "answer",
                question=json.dumps(question).encode(),
            )
        about = {"question": question, "newest_s": newest_s, "made_s": time.time()}
        threading.Thread(target=self._watch, args=(child, key, about), daemon=True).start()

    def _watch(self, child: Child, key: str, about: dict[str, Any]) -> None:
        ended = Progress(FAILED, why="words")
        try:
            ended = self._ended(child.follow(self._told), key, about)
        finally:
            with self._lock:
                self._child = None
                self._progress = ended

    def _told(self, told: dict[str, Any]) -> None:
        self._progress = Progress(RUNNING, min(1.0, max(0.0, float(told["share"]))))

    def _ended(self, ending: Ending, key: str, about: dict[str, Any]) -> Progress:
        if ending.state == DONE and self._keep(key, about):
            return Progress(DONE, 1.0)
        if ending.state in (DONE, FAILED):
            why = ending.why or "words"
            if why == "words":
                said = f"hindsight ended with status {ending.status}: {ending.words}"
                print(said, file=sys.stderr, flush=True)
            return Progress(FAILED, why=why)
        return Progress(ending.state)

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
            child.cancel()


def hindsights() -> Hindsights:
    """Return that of this box."""
    extensions = current_app.extensions
    if "naproxy_hindsights" not in extensions:
        settings: Settings = extensions["naproxy_settings"]
        folder = settings.run_dir / "hindsight"
        extensions["naproxy_hindsights"] = Hindsights(folder, settings.data_dir)
    made: Hindsights = extensions["naproxy_hindsights"]
    return made
