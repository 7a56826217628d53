"""From the results of the cases to the tables of docs/cache-tests.md. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

BEGIN = "<!-- made by `make cache-tests`, from here -->\n"
END = "<!-- to here -->\n"

COLUMNS = {
    "default": "ours, `default`",
    "frozen": "ours, `frozen`",
    "aggressive": "ours, `aggressive`",
    "varnish": "plain Varnish",
    "nginx": "nginx",
    "ats": "Traffic Server",
}
_OURS = ("default", "frozen", "aggressive")
_KINDS = ("required", "optimal", "check")
_PASSED = ("pass", "yes")
_WORDS = {"pass": "yes", "fail": "no"}


@dataclass(frozen=True, slots=True)
class Case:
    """What one case gave with one proxy."""

    id: str
    group: str
    name: str
    kind: str
    verdict: str
    said: str

    @property
    def passed(self) -> bool:
        """Whether it did what the case looks for."""
        return self.verdict in _PASSED


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why these cases fail with ours, or give another result than with plain Varnish."""

    why: str
    cases: Sequence[str]


Runs = Mapping[str, Sequence[Case]]
"""The same cases in the same order for each of COLUMNS."""


def to_explain(runs: Runs) -> list[str]:
    """Return the required cases that fail with ours or with plain Varnish."""
    compared = [runs[column] for column in (*_OURS, "varnish")]
    return [
        each[0].id
        for each in zip(*compared, strict=True)
        if each[0].kind == "required" and not all(case.passed for case in each)
    ]


def complaints(runs: Runs, explanations: Sequence[Explanation]) -> list[str]:
    """Return what is wrong with the explanations: each case needs one, and none too many."""
    explained = [case for explanation in explanations for case in explanation.cases]
    needed = to_explain(runs)
    return [
        *(f"{case}: not explained" for case in needed if case not in explained),
        *(f"{case}: explained, but there is nothing to explain"
          for case in explained if case not in needed),
        *(f"{case}: explained twice" for case in set(explained) if explained.count(case) > 1),
    ]  # fmt: skip


def counts(runs: Runs) -> str:
    """Return the table of how many cases of each kind passed."""
    first = runs["default"]
    rows = [["", "cases", *COLUMNS.values()]]
    for kind in _KINDS:
        passed = [
            sum(case.passed for case in runs[column] if case.kind == kind) for column in COLUMNS
        ]
        rows.append([kind, *map(str, [sum(case.kind == kind for case in first), *passed])])
    return _table(rows)


def details(runs: Runs, explanations: Sequence[Explanation]) -> str:
    """Return, for each explanation, the cases it is about and their results."""
    results = {column: {case.id: case for case in runs[column]} for column in COLUMNS}
    parts = []
    for explanation in explanations:
        rows = [["case", *COLUMNS.values()]]
        for name in explanation.cases:
            verdicts = [results[column][name].verdict for column in COLUMNS]
            rows.append([f"`{name}`", *(_WORDS.get(verdict, "?") for verdict in verdicts)])
        parts.append(f"{explanation.why.strip()}\n\n{_table(rows)}")
    return "\n".join(parts)


def filled(page: str, made: str) -> str:
    """Return the page with `made` between its marks."""
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not (begin and end):
        raise ValueError("the page has lost its marks")
    return f"{head}{BEGIN}\n{made}\n{END}{tail}"


def _table(rows: Sequence[Sequence[str]]) -> str:
    head, *body = rows
    lines = [head, ["---"] * len(head), *body]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
