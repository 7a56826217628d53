"""How well the lists tell who asks, against corpus.txt: a table of precision and recall.

    corpus.py [--wrong]

`--wrong` also prints every User-Agent that is taken for something else.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import generate  # noqa: E402 - it lies beside the tests' folder

VISITOR = "visitor"
ROBOTS = ("crawler", "monitor", "feed", "scanner")
_GROUP = re.compile(r"\[(\w+)\] (.+)")


def read() -> Iterator[tuple[str, str, str]]:
    """Yield group, what it is, and a User-Agent."""
    group = what = ""
    for line in (HERE / "corpus.txt").read_text("ascii").splitlines():
        if found := _GROUP.fullmatch(line):
            what, group = found.groups()
            if what not in (VISITOR, *ROBOTS):
                raise ValueError(f"no such kind: {line}")
        elif line and not line.startswith("#"):
            yield group, what, line


def taken_for() -> list[tuple[str, str, str, str]]:
    """Return group, what it is, what the lists take it for, and the User-Agent."""
    agents = generate.read_lists()
    automaton = generate.Automaton(list(generate.literals_of(agents)))
    rows = []
    for group, what, text in read():
        index = automaton.match(agents, text)
        klass = agents[index].klass if index >= 0 else VISITOR
        rows.append((group, what, klass if klass in ROBOTS else VISITOR, text))
    return rows


def table(rows: list[tuple[str, str, str, str]]) -> str:
    """Return precision and recall of each kind, and of "a robot" against "none", as Markdown."""
    pairs = Counter((what, taken) for _, what, taken, _ in rows)
    lines = [
        "| | in the corpus | taken for it | precision | recall |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, kinds in (
        *((kind, (kind,)) for kind in (VISITOR, *ROBOTS)),
        ("any robot", ROBOTS),
    ):
        there = sum(n for (what, _), n in pairs.items() if what in kinds)
        taken = sum(n for (_, said), n in pairs.items() if said in kinds)
        right = sum(n for (what, said), n in pairs.items() if what in kinds and said in kinds)
        precision, recall = 100 * right / taken, 100 * right / there
        lines.append(f"| {name} | {there} | {taken} | {precision:.1f} % | {recall:.1f} % |")
    return "\n".join(lines)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Precision and recall of the lists of robots.")
    parser.add_argument("--wrong", action="store_true", help="print what is taken for another")
    wrong = parser.parse_args().wrong
    rows = taken_for()
    print(table(rows))
    for group, what, taken, text in rows if wrong else ():
        if what != taken:
            print(f"{group}: {what}, taken for {taken}: {text}")


if __name__ == "__main__":
    main()
