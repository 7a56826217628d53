"""Count the sentences that break a rule of plain English, and refuse more of them than there were.

python -m tests.prose              what each kind of text has, for 1,000 words
python -m tests.prose --list KIND  each of them, with its place
python -m tests.prose --check      fail where a kind has more than tests/prose/ceilings.json
python -m tests.prose --lower      write lower ceilings there, never higher ones
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Final

from tests.prose.rules import broken
from tests.prose.texts import KINDS, Text, texts

CEILINGS: Final = Path(__file__).with_name("ceilings.json")


def main() -> int:
    """Do what the arguments say; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.prose")
    parser.add_argument("--list", choices=KINDS)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--lower", action="store_true")
    args = parser.parse_args()
    found = texts(Path.cwd())
    if args.list:
        for text in found[args.list]:
            for rule, words in broken(text.prose):
                print(f"{text.place}: {rule}: {words}")
        return 0
    counts = {kind: _count(found[kind]) for kind in KINDS}
    ceilings = json.loads(CEILINGS.read_text()) if CEILINGS.exists() else {}
    if args.lower:
        lower = {
            kind: {
                rule: min(number, ceilings.get(kind, {}).get(rule, number))
                for rule, number in sorted(count.items())
            }
            for kind, count in counts.items()
        }
        CEILINGS.write_text(json.dumps(lower, indent=2) + "\n")
        return 0
    if args.check:
        return _check(counts, ceilings)
    for kind, count in counts.items():
        length = sum(len(text.prose.split()) for text in found[kind])
        print(f"{kind}: {length} words")
        for rule, number in sorted(count.items()):
            print(f"  {rule}: {number}, {1000 * number / (length or 1):.1f} for 1,000 words")
    return 0


def _count(found: list[Text]) -> Counter[str]:
    return Counter(rule for text in found for rule, _ in broken(text.prose))


def _check(counts: dict[str, Counter[str]], ceilings: dict[str, dict[str, int]]) -> int:
    wrong = [
        f"{kind}: {number} of {rule}, {most} are allowed"
        for kind, count in counts.items()
        for rule, number in sorted(count.items())
        if number > (most := ceilings.get(kind, {}).get(rule, 0))
        and kind != "subjects"  # a commit cannot be changed any more
    ]
    for line in wrong:
        print(f"{line}: python -m tests.prose --list {line.partition(':')[0]}", file=sys.stderr)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
