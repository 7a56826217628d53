"""One estimate at a time: `naproxy estimate` over uploaded logs, in a bounded child process.

Its result stays until the next one, the logs only as long as their uploads.
"""

from __future__ import annotations

import atexit
import json
import re
import shutil
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from flask import current_app

from naproxy_webui.http.child import DONE, FAILED, NONE, RUNNING, Child, Ending, Limits
from naproxy_webui.http.errors import ApiError
from naproxy_webui.i18n.texts import t
from naproxy_webui.options import Settings

LIMITS: Final = Limits(
    memory_bytes=384 << 20, processor_s=3600, file_bytes=2 << 30, longest_s=3600.0
)
"""A million lines take 48 MB of memory (docs/deciding.md), a request 24 bytes of a file."""

_NO_VERDICT: Final = 3
"""NO_VERDICT of `naproxy.lab.estimate.verdict`, which is too much to import here."""

MOST_SUMMARY_BYTES: Final = 4 << 20
_NOT_PLAIN: Final = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of an estimate. `share`: of its stage; None if unknown."""

    state: str = NONE
    stage: str | None = None
    share: float | None = None
    entries: int = 0
    log: str = ""
    names: tuple[str, ...] = ()
    """Of the files, as the browser said."""
    begun_s: float | None = None
    ended_s: float | None = None
    why: str | None = None
    """Of one that failed: one of child.WHY."""
    words: str = ""
    """The end of the program's messages."""


@dataclass(frozen=True, slots=True)
class Question:
    """The question for a log: the office's figures, as options of the command."""

    on_w: float
    off_w: float
    proxy_w: float
    wake_s: float
    fraction: float
    delta_s: float
    utc_offset: str = "+00:00"
    price: float | None = None
    config: dict[str, Any] | None = None
    """Of the box, as its API says it: how its cache is set. None: as a new box's."""

    def options(self) -> list[str]:
        """Return the command's options."""
        found = {
            "--on-w": self.on_w,
            "--off-w": self.off_w,
            "--proxy-w": self.proxy_w,
            "--wake-s": self.wake_s,
        }
        if self.price:
            found["--price"] = self.price
        made = [f"{name}={value:.6g}" for name, value in found.items()]
        made.append(f"--utc-offset={self.utc_offset}")
        return [*made, f"--promise={self.fraction:.6f}:{self.delta_s:.3f}"]


class Estimates:
    """The estimate that runs, and the result of the last."""

    def __init__(self, folder: Path, program: Sequence[str] = (), limits: Limits = LIMITS):
        """`folder` is ours alone; the program is `naproxy`, if not given."""
        self._folder = folder.absolute()
        self._program = list(program) or [sys.executable, "-m", "naproxy.cli"]
        self._limits = limits
        self._lock = threading.Lock()
        self._child: Child | None = None
        self._progress = self._kept()
        atexit.register(self.stop)

    def _kept(self) -> Progress:
        try:
            said = json.loads((self._folder / "state.json").read_text("utf-8"))
            kept = Progress(**{**said, "names": tuple(said["names"])})
        except (OSError, ValueError, TypeError, KeyError):
            return Progress()
        return kept if kept.state == DONE and self.file("summary.json").exists() else Progress()

    @property
    def progress(self) -> Progress:
        """How far it is."""
        return self._progress

    def file(self, name: str) -> Path:
        """Return where a part of the result is."""
        return self._folder / "result" / name

    def start(self, logs: Sequence[tuple[str, Path]], question: Question) -> Progress:
        """Begin with these files, each with the name it was uploaded by; ApiError if one runs."""
        with self._lock:
            if self._child is not None:
                raise ApiError(HTTPStatus.CONFLICT, t("traffic.error.running"))
            work = self._folder / "work"
            shutil.rmtree(work, ignore_errors=True)
            (work / "logs").mkdir(mode=0o700, parents=True)
            files = _linked(logs, work / "logs")
            self._progress = Progress(
                RUNNING, "reading", 0.0, names=tuple(n for n, _ in logs), begun_s=time.time()
            )
            self._child = child = self._run(work, files, question)
        threading.Thread(target=self._watch, args=(child, work), daemon=True).start()
        return self._progress

    def _run(self, work: Path, files: Sequence[Path], question: Question) -> Child:
        command = [
            *(*self._program, "estimate", *question.options(), *_set(work, question.config)),
            *("--json", "--cache=box"),
            *("--counting=closed", "--jobs=1", "--progress-json"),
            *(f"--html={work / 'report.html'}", f"--summary={work / 'summary.json'}"),
            *("--", *map(str, files)),
        ]
        one_thread = {"OMP_NUM_THREADS": "1"}
        return Child(command, self._limits, work / "rows.json", environment=one_thread)

    def _watch(self, child: Child, work: Path) -> None:
        ended = self._ended(child.follow(self._told), work)
        shutil.rmtree(work, ignore_errors=True)
        with self._lock:
            self._child = None
            self._progress = ended

    def _told(self, told: dict[str, Any]) -> None:
        """Follow the progress, however odd."""
        stage, share = told.get("stage"), told.get("share")
        log, entries = str(told["log"]), int(told.get("entries", self._progress.entries))
        if stage in ("reading", "comparing"):
            known = float(share) if isinstance(share, (int, float)) else None
            self._progress = replace(
                self._progress, stage=stage, share=known, entries=entries, log=log
            )

    def _ended(self, ending: Ending, work: Path) -> Progress:
        ended = replace(
            self._progress, state=ending.state, ended_s=time.time(), share=None, stage=None
        )
        if ending.status == _NO_VERDICT:
            ending = Ending(DONE)  # the summary says why
            ended = replace(ended, state=DONE)
        if ending.state == DONE and not self._keep(work, ended):
            return replace(ended, state=FAILED, why="words", words=ending.words)
        return replace(ended, why=ending.why, words=ending.words)

    def _keep(self, work: Path, ended: Progress) -> bool:
        """Make this the result; whether it is whole."""
        parts = ("report.html", "summary.json", "rows.json")
        try:
            if (work / "summary.json").stat().st_size > MOST_SUMMARY_BYTES:
                return False
            result = self._folder / "result"
            shutil.rmtree(result, ignore_errors=True)
            result.mkdir(mode=0o700)
            for part in parts:
                (work / part).rename(result / part)
            state = json.dumps(asdict(ended))
            (self._folder / "state.json").write_text(state, "utf-8")
        except OSError:
            return False
        return True

    def cancel(self) -> None:
        """End the one that runs; or forget the result."""
        with self._lock:
            child = self._child
            if child is None:
                shutil.rmtree(self._folder, ignore_errors=True)
                self._progress = Progress()
                return
        child.cancel()

    def stop(self) -> None:
        """The web interface ends."""
        child = self._child
        if child is not None:
            child.cancel()


def _set(work: Path, config: dict[str, Any] | None) -> list[str]:
    """Leave what the cache is set to for the program; nothing else of the configuration."""
    if config is None:
        return []
    file = work / "config.json"
    own = [{"id": each["id"], "cache": each["cache"]} for each in config["server"]]
    file.write_text(json.dumps({"server": own, "cache_rule": config["cache_rule"]}), "utf-8")
    return [f"--config={file}"]


def _linked(logs: Sequence[tuple[str, Path]], folder: Path) -> list[Path]:
    """Give the files names by which rotated ones are known to belong together."""
    made: list[Path] = []
    for number, (name, path) in enumerate(logs):
        plain = _NOT_PLAIN.sub("_", Path(name.replace("\\", "/")).name).lstrip(".-")[-100:] or "log"
        target = folder / plain
        if target.exists():
            target = folder / f"{number}-{plain}"
        try:
            target.hardlink_to(path)
        except FileNotFoundError:
            raise ApiError(HTTPStatus.NOT_FOUND, t("upload.gone"), "uploads") from None
        made.append(target)
    return made


def estimates() -> Estimates:
    """Return that of this box."""
    settings: Settings = current_app.extensions["naproxy_settings"]
    made: Estimates = current_app.extensions.setdefault(
        "naproxy_estimates", Estimates(settings.state_dir / "estimate")
    )
    return made
