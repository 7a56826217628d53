"""What a check says: a problem in words with how to mend it, or nothing.

A check is a function named by a noun; the first line of its docstring says what is so when
all is well. It looks at readings that were taken before, so it does nothing itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from naproxy.drivers.program import words

Readings = TypeVar("Readings")


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong, and what to do. A note may be as it should: it is worth a look."""

    what: str
    mend: str
    note: bool = False


class NotSeen(Exception):  # noqa: N818 - nothing failed: it could not be looked at
    """Why there is nothing to judge, in words."""


class NotUsed(NotSeen):
    """Why the check has nothing to do with this server."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One check's verdict: `ok`, `problem`, `note`, `not seen` or `not used`."""

    where: str
    name: str
    title: str
    verdict: str
    what: str = ""
    mend: str = ""

    def lines(self) -> list[str]:
        """Return it for a terminal; what is not used is left out."""
        if self.verdict == "not used":
            return []
        if self.verdict == "ok":
            return [f"  ok       {self.title}"]
        mark = {"problem": "PROBLEM", "note": "note", "not seen": "-"}[self.verdict]
        mend = [f"           -> {self.mend}"] if self.mend else []
        return [f"  {mark:<8} {self.name.replace('_', ' ')}: {self.what}", *mend]


@dataclass(frozen=True)
class Look(Generic[Readings]):
    """A list of checks that look at the same readings."""

    where: str
    checks: Sequence[Callable[[Readings], Problem | None]]

    def at(self, seen: Readings) -> list[Finding]:
        """Return what each check says."""
        return [self._one(check, seen) for check in self.checks]

    def _one(self, check: Callable[[Readings], Problem | None], seen: Readings) -> Finding:
        about: Any = check
        head = (self.where, about.__name__, str(about.__doc__).splitlines()[0].rstrip("."))
        try:
            problem = check(seen)
        except NotSeen as why:
            verdict = "not used" if isinstance(why, NotUsed) else "not seen"
            return Finding(*head, verdict, _shown(str(why)))
        if problem is None:
            return Finding(*head, "ok")
        verdict = "note" if problem.note else "problem"
        return Finding(*head, verdict, _shown(problem.what), _shown(problem.mend))


def _shown(text: str) -> str:
    """Return words that are safe to show: some come from the server."""
    return words(text.encode(errors="replace"))
