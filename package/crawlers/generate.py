"""Turn the lists of robots into the VMOD's matcher and the controller's crawlers.json.

    generate.py --table crawlers_table.c --json crawlers.json [--check]

README.md here says what the lists are and how a match is decided. The matcher is an
Aho-Corasick automaton (Aho and Corasick, 1975) with its transitions completed, over
the byte classes that occur in the literals.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

# The parser of `re`, which has no public name and no types.
sre: Any = import_module("re._constants")
sre_parse: Any = import_module("re._parser")

HERE = Path(__file__).resolve().parent
# Highest precedence first; the numbers are those of `enum naproxy_class`.
CLASSES = {"monitor": 2, "feed": 3, "scanner": 5, "crawler": 1, "api": 4}
RANK = {name: len(CLASSES) - i for i, name in enumerate(CLASSES)}
CATCH_ALL = 0  # whoever has a name is what it says
TAGS = {
    "monitoring": "monitor",
    "feed-reader": "feed",
    "scanner": "scanner",
    "http-library": "api",
}
START, END = 256, 257  # virtual symbols before the first and after the last byte
WORD = "\\b"
SHORT = 5  # literals up to this long are tied to the beginning of a word
MOST = 64  # most literals one pattern may expand to


class ListError(Exception):
    """The lists contradict themselves or hold what cannot be expanded."""


@dataclass
class Agent:
    """One kind of client: its name, its class and the literals that betray it."""

    name: str
    klass: str
    literals: list[str] = field(default_factory=list)
    catch_all: bool = False
    engine: str = ""
    domains: list[str] = field(default_factory=list)

    @property
    def rank(self) -> int:
        """Of several that match the highest wins."""
        return CATCH_ALL if self.catch_all else RANK[self.klass]


# --- regular expressions to literals -------------------------------------------------


def expand(pattern: str) -> list[str]:
    """All literals a simple regular expression stands for, lower-cased.

    Raises ListError for what has no short finite list of literals.
    """
    found = sorted(set(_sequence(sre_parse.parse(pattern.lower()))))
    if not found or len(found) > MOST:
        raise ListError(f"expands to {len(found)} literals")
    return [_anchored(text) for text in found]


def _anchored(text: str) -> str:
    if "^" in text[1:] or "$" in text[:-1]:
        raise ListError("has an anchor in its middle")
    if len(text.strip("^$")) < 3:
        raise ListError(f"is too short: {text!r}")
    return text


def _sequence(parts: Iterable[Any]) -> list[str]:
    found = [""]
    for part in parts:
        more = _part(part)
        found = [a + b for a in found for b in more]
        if len(found) > MOST:
            raise ListError("expands to too many literals")
    return found


def _part(part: Any) -> list[str]:
    kind, value = part
    if kind is sre.LITERAL:
        char = chr(value)
        if char in "^$\\" or not 32 <= value < 127:
            raise ListError(f"holds the character {char!r}")
        return [char]
    if kind is sre.IN:
        return [text for item in value for text in _member(item)]
    if kind is sre.BRANCH:
        return [text for branch in value[1] for text in _sequence(branch)]
    if kind is sre.SUBPATTERN:
        return _sequence(value[3])
    if kind is sre.AT and value is sre.AT_BEGINNING:
        return ["^"]
    if kind is sre.AT and value is sre.AT_END:
        return ["$"]
    raise ListError(f"holds {kind}")


def _member(item: Any) -> list[str]:
    if item[0] is sre.LITERAL:
        return [chr(item[1])]
    raise ListError(f"holds a set with {item[0]}")


# --- the lists ---------------------------------------------------------------------------


def read_lists(folder: Path = HERE) -> list[Agent]:
    """The three lists as one, ours first, then the thesis', then the npm list."""
    ours = json.loads((folder / "ours.json").read_text("utf-8"))
    npm = json.loads((folder / "crawler-user-agents.json").read_text("utf-8"))
    agents: dict[tuple[str, str], Agent] = {}
    taken: dict[str, str] = {}

    def add(name: str, klass: str, literals: Iterable[str]) -> None:
        if klass not in CLASSES:
            raise ListError(f"{name}: no class is called {klass!r}")
        for text in literals:
            literal = _tied(text.lower())
            if literal in taken:
                continue  # an earlier list has said what it is
            taken[literal] = name
            agent = agents.setdefault((name.lower(), klass), Agent(name, klass))
            agent.literals.append(literal)

    for entry in ours["add"]:
        add(entry["name"], entry["class"], entry["literals"])
    for line in (folder / "table-4.1.txt").read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            add(line, "crawler", [line])
    unused = set(ours["instead"]) | set(ours["drop"])
    for entry in npm:
        pattern = entry["pattern"]
        unused.discard(pattern)
        if pattern in ours["drop"]:
            continue
        instead = ours["instead"].get(pattern, {})
        klass = instead.get("class") or _class_of(entry["tags"])
        try:
            literals = instead.get("literals") or expand(pattern)
        except ListError as problem:
            raise ListError(f"crawler-user-agents.json: {pattern!r} {problem}") from None
        add(_name_of(pattern), klass, literals)
    _name_engines(ours["engines"], {agent.name: agent for agent in agents.values()})
    if unused:
        raise ListError(f"ours.json speaks of patterns the list does not have: {sorted(unused)}")
    rest = ours["catch_all"]
    literals = [text.lower() for text in rest["literals"]]
    return [*agents.values(), Agent(rest["name"], rest["class"], literals, catch_all=True)]


def _name_engines(engines: list[dict[str, Any]], agents: dict[str, Agent]) -> None:
    """Say which agents fetch for a search engine, and where their addresses' names end."""
    for entry in engines:
        for name in entry["agents"]:
            if name not in agents or agents[name].klass != "crawler":
                raise ListError(f"ours.json: no crawler is called {name!r}")
            agents[name].engine = entry["engine"]
            agents[name].domains = entry["domains"]


def _class_of(tags: list[str]) -> str:
    classes = {TAGS.get(tag, "crawler") for tag in tags} or {"crawler"}
    return max(classes, key=RANK.__getitem__)


def _name_of(pattern: str) -> str:
    """The pattern as a reader would say it: `[pP]ingdom` is Pingdom."""
    name = re.sub(r"\[(.)\W?(.)\]", lambda m: max(m[1], m[2]).upper(), pattern)
    name = re.sub(r"\(\^\| \)|\(?\[.*$|(?<!\\)[()^$]", "", name)
    return name.replace("\\", "").split("|")[0].strip(" /(")


def _tied(literal: str) -> str:
    if literal[0] in "^ " or literal.startswith(WORD) or len(literal) > SHORT:
        return literal
    return WORD + literal


# --- the automaton -----------------------------------------------------------------------


@dataclass
class Literal:
    """A literal as the automaton knows it."""

    agent: int
    symbols: list[int]
    word: bool


def literals_of(agents: list[Agent]) -> Iterator[Literal]:
    """Every literal of every agent, its anchors as symbols."""
    for index, agent in enumerate(agents):
        for text in agent.literals:
            word = text.startswith(WORD)
            body = text.removeprefix(WORD)
            symbols = list(body.removeprefix("^").removesuffix("$").encode("ascii"))
            if body.startswith("^"):
                symbols.insert(0, START)
            if body.endswith("$"):
                symbols.append(END)
            yield Literal(index, symbols, word)


class Automaton:
    """Complete transitions, and for each state the literals that end there."""

    def __init__(self, literals: list[Literal]) -> None:
        self.literals = literals
        self.alphabet = sorted({s for lit in literals for s in lit.symbols} | {START, END})
        self.goto: list[dict[int, int]] = [{}]
        self.own: list[int] = [-1]
        for number, literal in enumerate(literals):
            self._insert(number, literal.symbols)
        self.suffix = self._complete()

    def _insert(self, number: int, symbols: list[int]) -> None:
        state = 0
        for symbol in symbols:
            if symbol not in self.goto[state]:
                self.goto[state][symbol] = len(self.goto)
                self.goto.append({})
                self.own.append(-1)
            state = self.goto[state][symbol]
        self.own[state] = number

    def _complete(self) -> list[int]:
        fail = [0] * len(self.goto)
        first = [-1] * len(self.goto)  # the literal to report first in this state
        self.next = [-1] * len(self.literals)  # and the one after it
        queue = deque([0])
        while queue:
            state = queue.popleft()
            above = first[fail[state]] if state else -1
            if self.own[state] >= 0:
                self.next[self.own[state]] = above
                first[state] = self.own[state]
            else:
                first[state] = above
            for symbol in self.alphabet:
                down = self.goto[state].get(symbol)
                over = self.goto[fail[state]][symbol] if state else 0
                if down is None:
                    self.goto[state][symbol] = over
                else:
                    fail[down] = over
                    queue.append(down)
        return first

    def match(self, agents: list[Agent], text: str) -> int:
        """Index of the agent that `text` names, or -1; what the C matcher does."""
        data = text.lower().encode("utf-8", "replace")
        best, found, state = (0, 0), -1, 0
        known = set(self.alphabet)
        for at, symbol in enumerate([START, *data, END], -1):
            state = self.goto[state][symbol] if symbol in known else 0
            number = self.suffix[state]
            while number >= 0:
                literal = self.literals[number]
                before = at - len(literal.symbols)
                inside = literal.word and before >= 0 and chr(data[before]).isascii()
                weight = (agents[literal.agent].rank, len(literal.symbols))
                if weight > best and not (inside and chr(data[before]).isalnum()):
                    best, found = weight, literal.agent
                number = self.next[number]
        return found


# --- output ------------------------------------------------------------------------------


def c_rows(values: Iterable[int], width: int = 76) -> str:
    """Numbers as the body of a C initialiser."""
    lines, line = [], ""
    for value in values:
        text = f"{value},"
        if len(line) + len(text) > width:
            lines.append(line)
            line = ""
        line += text
    return "\n".join([*lines, line])


def c_string(text: str) -> str:
    """A C string literal."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def write_table(agents: list[Agent], automaton: Automaton, path: Path) -> None:
    """The automaton as C, for classify.c."""
    column = {symbol: i + 1 for i, symbol in enumerate(automaton.alphabet)}
    folded = [column.get(ord(chr(b).lower()) if b < 128 else b, 0) for b in range(256)]
    columns = len(automaton.alphabet) + 1
    if len(automaton.goto) > 65535 or len(automaton.literals) > 65534:
        raise ListError("too many literals for 16 bits")
    rows = (
        automaton.goto[s].get(automaton.alphabet[c - 1], 0) if c else 0
        for s in range(len(automaton.goto))
        for c in range(columns)
    )
    text = f"""/* Made by crawlers/generate.py. */

#include <stdint.h>

#include "crawlers.h"

const unsigned crawlers_columns = {columns};
const unsigned crawlers_start = {column[START]};
const unsigned crawlers_end = {column[END]};
const unsigned crawlers_count = {len(agents)};

const uint8_t crawlers_column[256] = {{
{c_rows(folded)}
}};

const uint16_t crawlers_goto[] = {{
{c_rows(rows)}
}};

/* The literal to report in a state, plus one. */
const uint16_t crawlers_found[] = {{
{c_rows(n + 1 for n in automaton.suffix)}
}};

const struct crawlers_literal crawlers_literal[] = {{
"""
    for number, literal in enumerate(automaton.literals):
        rank = agents[literal.agent].rank
        fields = (literal.agent, automaton.next[number] + 1, len(literal.symbols), rank)
        text += "{" + ",".join(map(str, (*fields, int(literal.word)))) + "},\n"
    text += "};\n\nconst struct crawlers_agent crawlers_agent[] = {\n"
    for agent in agents:
        engine = c_string(agent.engine) if agent.engine else 0
        row = (c_string(agent.name), CLASSES[agent.klass], int(agent.catch_all), engine)
        text += f"{{{', '.join(map(str, row))}}},\n"
    path.write_text(text + "};\n", "utf-8")


def as_json(agents: list[Agent]) -> str:
    """The list for the Python side; an agent's index is that of events."""
    rows = (
        json.dumps(
            {"name": a.name, "class": a.klass, "literals": a.literals}
            | ({"catch_all": True} if a.catch_all else {})
            | ({"engine": a.engine, "domains": a.domains} if a.engine else {})
        )
        for a in agents
    )
    return "[\n" + ",\n".join(rows) + "\n]\n"


def misread(agents: list[Agent], automaton: Automaton, folder: Path = HERE) -> list[str]:
    """Examples of the npm list that no literal recognises."""
    ours = json.loads((folder / "ours.json").read_text("utf-8"))
    npm = json.loads((folder / "crawler-user-agents.json").read_text("utf-8"))
    return [
        f"{entry['pattern']!r}: {example!r}"
        for entry in npm
        if entry["pattern"] not in ours["drop"]
        for example in entry["instances"]
        if automaton.match(agents, example) < 0
    ]


def main() -> int:
    """Command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--table", type=Path, help="C file to write")
    parser.add_argument("--json", type=Path, help="JSON file to write, or to check")
    parser.add_argument("--check", action="store_true", help="compare --json, do not write it")
    args = parser.parse_args()
    try:
        agents = read_lists()
    except ListError as problem:
        print(f"crawlers: {problem}", file=sys.stderr)
        return 1
    automaton = Automaton(list(literals_of(agents)))
    if args.table:
        write_table(agents, automaton, args.table)
    if args.json and not args.check:
        args.json.write_text(as_json(agents), "utf-8")
    if args.check:
        if args.json.read_text("utf-8") != as_json(agents):
            print(f"{args.json} is out of date: run `make -C package/crawlers`", file=sys.stderr)
            return 1
        missed = misread(agents, automaton)
        for line in missed:
            print(f"crawlers: not recognised: {line}", file=sys.stderr)
        return 1 if missed else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
