"""Keys that older files have: each is still read, with a warning that says what became of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from naproxy.config.installation import Installation, argument
from naproxy.core.reason import Reason
from naproxy.core.schema import Problem, label

OLD: Final[dict[str, str | None]] = {
    **{f"box.{field.name}": argument(field.name) for field in fields(Installation)},
    "server.redirect_robots": "defer_crawlers",
    "server.awake.time_zone": "office.time_zone",
    "server.policy.utc_offset": None,
    "server.cache.warm_sla": None,
    "server.hold.release_batch": None,
    "server.hold.release_ms": None,
}
"""What became of each: an argument of the service, another name in its section, a key of another
section (with a dot), or nothing."""


@dataclass(frozen=True, slots=True)
class Old:
    """An old key that a file has, at the path `where`, in the table `section`."""

    section: dict[str, Any]
    key: str
    where: str
    now: str | None

    @property
    def is_argument(self) -> bool:
        """Does the file keep it, for where the argument is not given?"""
        return self.now is not None and self.now.startswith("--")

    @property
    def is_elsewhere(self) -> bool:
        """Is it another section's now? Then what is given there holds."""
        return self.now is not None and "." in self.now

    def warning(self) -> Problem:
        """Say what became of it."""
        if self.now is None:
            return Problem(self.where, Reason("config.now_gone"))
        code = "config.now_argument" if self.is_argument else "config.now_called"
        return Problem(self.where, Reason(code, name=self.now))


def found(data: dict[str, Any]) -> Iterator[Old]:
    """Yield the old keys in the plain data of a file."""
    for path, now in OLD.items():
        *above, key = path.split(".")
        for section, where in _sections(data, above, ""):
            if key in section:
                yield Old(section, key, f"{where}.{key}", now)


def _sections(here: Any, path: Sequence[str], where: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the tables at a path, each member of an array, with where they are."""
    if isinstance(here, list):
        for number, member in enumerate(here, 1):
            yield from _sections(member, path, label(where, member, number))
    elif isinstance(here, dict):
        if not path:
            yield here, where
        elif path[0] in here:
            below = f"{where}.{path[0]}" if where else path[0]
            yield from _sections(here[path[0]], path[1:], below)


def take(data: dict[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    """Bring the data up to date; return what old keys say of arguments, and warnings."""
    every, arguments = list(found(data)), {}
    for old in every:
        value = old.section.pop(old.key)
        if old.is_argument:
            arguments[old.key] = value
        elif old.now and old.is_elsewhere:
            section, _, key = old.now.rpartition(".")
            table = data.setdefault(section, {})
            if value and isinstance(table, dict):
                table.setdefault(key, value)
        elif old.now:
            old.section.setdefault(old.now, value)
    return arguments, [old.warning() for old in every]
