"""Settings that worked: what the box starts with if those in the file cannot be used.

They lie beside the file, for each release, as another release may know other keys. The file itself
is a person's: nothing here changes it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from naproxy import __version__
from naproxy.config import document, edit
from naproxy.config.document import Found
from naproxy.core import files
from naproxy.core.reason import Reason
from naproxy.core.schema import ConfigError, Problem

_LOG: Final = logging.getLogger(__name__)
PROVED_S: Final = 60.0
"""Settings with which the controller ran so long have worked."""
MOST_STARTS: Final = 3
"""So many starts that ended otherwise than by an order, and the settings are not used again."""
_MOST_PROBLEMS: Final = 5
_MOST_BYTES: Final = document.MAX_BYTES + 1


@dataclass(frozen=True, slots=True)
class Refused:
    """Settings in the file that are not used, and those that are."""

    problems: tuple[Problem, ...]
    since_s: float
    """When those in use were kept."""
    text: bytes
    """Of those in use."""

    def reason(self, file: Path) -> Reason:
        """Say that they are not used, why, and what is."""
        named = [_named(each) for each in self.problems[:_MOST_PROBLEMS]]
        if rest := len(self.problems) - len(named):
            named.append(Reason("config.more_problems", number=rest))
        return Reason("config.not_used", file=str(file), problems=named, since_at_s=self.since_s)


def _named(problem: Problem) -> Reason:
    if not problem.where:
        return problem.reason
    return Reason("config.problem", where=problem.where, why=problem.reason)


@dataclass(frozen=True, slots=True)
class Chosen:
    """What to start with."""

    found: Found
    text: bytes
    """Of the file, as it was read; nothing if there is none."""
    refused: Refused | None = None

    @property
    def used(self) -> bytes:
        """Return the text of the settings to start with."""
        return self.refused.text if self.refused else self.text


@dataclass(frozen=True, slots=True)
class _Kept:
    text: bytes
    found: Found
    since_s: float


class Worked:
    """Keeps them, and counts the starts with settings that have not worked yet."""

    def __init__(self, file: Path, release: str = __version__) -> None:
        """`file` is the configuration's."""
        self._file = file
        self._own = file.with_name(f"{file.stem}.worked-{release}.toml")
        self._starts = file.with_name(f"{file.stem}.starts")

    def choose(self) -> Chosen:
        """Return the file's settings, or those that worked last if these cannot be used.

        ConfigError or OSError if there are no others either.
        """
        text = b""
        try:
            text = document.text_or_new(self._file)
            found = document.look(text)
        except (ConfigError, OSError) as error:
            kept = self._newest()
            if kept is None:
                raise
            return Chosen(kept.found, text, Refused(_problems(error), kept.since_s, kept.text))
        starts = self._counted(text)
        kept = self._newest() if starts >= MOST_STARTS else None
        if kept is None or kept.text == text:
            return Chosen(found, text)
        ended = Problem("", Reason("config.ends_controller", times=starts))
        return Chosen(kept.found, text, Refused((ended,), kept.since_s, kept.text))

    def begin(self, text: bytes) -> None:
        """Count a start with these settings: it may be their fault if it does not go well."""
        if not text or self._is_kept(text):
            return
        count = {"version": edit.version(text), "starts": self._counted(text) + 1}
        self._write(self._starts, json.dumps(count).encode())

    def end(self, text: bytes) -> None:
        """Keep these settings: with them the controller ran well.

        Not those of a box that has no file: Varnish would forget the servers it knows.
        """
        if text and not self._is_kept(text):
            self._write(self._own, text)
            for other in self._others()[1:]:
                self._remove(other)
        self._remove(self._starts)

    def _is_kept(self, text: bytes) -> bool:
        try:
            return files.peek(self._own, _MOST_BYTES)[0] == text
        except OSError:
            return False

    def _write(self, path: Path, text: bytes) -> None:
        """Passwords may be in it: nobody may read it who may not read the file."""
        try:
            mode = self._file.stat().st_mode & 0o777 if self._file.exists() else 0o600
            files.write(path, text, mode)
        except OSError as error:
            _LOG.warning("%s: not written: %s", path, error.strerror)

    def _remove(self, path: Path) -> None:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            _LOG.warning("%s: not removed: %s", path, error.strerror)

    def _counted(self, text: bytes) -> int:
        """Return how many starts with these settings have not gone well."""
        try:
            said = json.loads(files.peek(self._starts, 1024)[0])
            version, starts = said["version"], said["starts"]
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return 0
        return starts if version == edit.version(text) and type(starts) is int else 0

    def _newest(self) -> _Kept | None:
        """Return what this release kept, else what another did, if this one takes it."""
        return next(self._all(), None)

    def _all(self) -> Iterator[_Kept]:
        for path in (self._own, *self._others()):
            try:
                text, about = files.peek(path, _MOST_BYTES)
                yield _Kept(text, document.look(text), about.st_mtime)
            except (ConfigError, OSError):
                continue

    def _others(self) -> list[Path]:
        """Return those of other releases, the latest first."""
        ours = f"{self._file.stem}.worked-"
        try:
            found = [
                (path.stat().st_mtime, path)
                for path in self._file.parent.iterdir()
                if path.name.startswith(ours) and path.suffix == ".toml" and path != self._own
            ]
        except OSError:
            return []
        return [path for _, path in sorted(found, reverse=True)]


def _problems(error: ConfigError | OSError) -> tuple[Problem, ...]:
    if isinstance(error, ConfigError):
        return tuple(error.problems)
    why = error.strerror or str(error)
    return (Problem("", Reason("config.unreadable", why=why)),)
