"""Results of checks: a problem and its remedy, as reasons, or nothing.

A check is a function named by a noun; the catalogues' text `doctor.title_NAME` states the good
case. It judges readings that were taken before and has no effects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from naproxy.core.processes import words
from naproxy.core.reason import Reason, WrongError


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem and its remedy. A note need not be a problem, but is worth a look."""

    what: Reason
    mend: Reason
    note: bool = False


Check = Callable[[Any], Problem | None]


class NotSeen(WrongError):  # noqa: N818 - nothing failed: it could not be looked at
    """Why there is nothing to judge."""


class NotUsed(NotSeen):
    """Why the check has nothing to do with this server."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One check's verdict: `ok`, `problem`, `note`, `not seen` or `not used`."""

    where: str
    name: str
    verdict: str
    what: Reason | None = None
    mend: Reason | None = None

    @property
    def title(self) -> Reason:
        """The statement of the good case."""
        return Reason(f"doctor.title_{self.name}")

    def lines(self) -> list[str]:
        """Return it for a terminal, without unused fields."""
        if self.verdict == "not used":
            return []
        if self.verdict == "ok":
            return [f"  ok       {self.title}"]
        mark = {"problem": "PROBLEM", "note": "note", "not seen": "-"}[self.verdict]
        mend = [f"           -> {self.mend}"] if self.mend else []
        return [f"  {mark:<8} {self.name.replace('_', ' ')}: {self.what}", *mend]

    def json(self) -> dict[str, Any]:
        """Return it as JSON: its reasons, and each in English beside it."""
        said: dict[str, Any] = {"where": self.where, "name": self.name, "verdict": self.verdict}
        for key, reason in (("title", self.title), ("what", self.what), ("mend", self.mend)):
            said |= {key: str(reason or ""), f"{key}_reason": reason and reason.plain()}
        return said


def look(where: str, checks: Sequence[Check], seen: Any) -> list[Finding]:
    """Return the result of each check for the readings `seen`."""
    return [_finding(where, check, seen) for check in checks]


def _finding(where: str, check: Check, seen: Any) -> Finding:
    about: Any = check
    head = (where, about.__name__)
    try:
        problem = check(seen)
    except NotSeen as why:
        verdict = "not used" if isinstance(why, NotUsed) else "not seen"
        return Finding(*head, verdict, _shown(why.reason))
    if problem is None:
        return Finding(*head, "ok")
    verdict = "note" if problem.note else "problem"
    return Finding(*head, verdict, _shown(problem.what), _shown(problem.mend))


def let_in(door: tuple[int, str]) -> Reason:
    """Say that the server's firewall must let the box in at a port, and its protocol."""
    return Reason("doctor.let_in", port=door[0], protocol=door[1])


def _shown(value: Any) -> Any:
    """Return a reason whose texts are short and one line: some come from the server."""
    match value:
        case Reason():
            return Reason(value.code, **{n: _shown(each) for n, each in value.params.items()})
        case list() | tuple():
            return [_shown(each) for each in value]
        case str():
            return words(value.encode(errors="replace"))
    return value
