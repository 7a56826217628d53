#!/usr/bin/env python3
"""Say the page that the VMOD shares (`naproxy_page.h`) in Python: `page_h.py HEADER OUT`.

Reads the header as it is written: numbers (`#define`), enumerations, and structures of integers,
characters and other structures. What it cannot read it refuses, so that nothing is left out.
"""

import re
import sys
from pathlib import Path

HEAD = '''\
"""What the VMOD shares, made of `naproxy_page.h` by package/naproxy/page_h.py. Do not edit."""

import ctypes
from ctypes import c_char, c_uint8, c_uint16, c_uint32, c_uint64
from enum import IntEnum
from typing import Final
'''
ENUMERATIONS = {
    "state": ("State", ""),
    "class": ("Klass", ""),
    "reason": ("Cause", "WAKE_"),
    "rule_kind": ("RuleKind", "RULE_"),
    "listen": ("Listen", "LISTEN_"),
}
"""Name in C: name in Python, and how its members begin besides."""
STRUCTURES = {"page": "Layout"}
"""Those that are called otherwise in Python."""
MORE = {
    "Klass": '''
    @property
    def robot(self) -> bool:
        """Robots are told to come back later: they do not wake a server by default."""
        return not BUDGET >> self & 1
'''
}
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_FIELD = re.compile(r"(?:struct naproxy_(\w+)|(char)|(uint\d+)_t)\s+(\w+)((?:\[\w+\])*)")
_OUTCOME = re.compile(r"O\((\d+), (\w+), (\w+), (\w+), ([\w |]+)\)")
_CASE = re.compile(r"C\(\w+, (\w+), (\w+), (\w+)\)")


class HeaderError(Exception):
    """A line of the header that is not understood."""


def made_of(header: str) -> str:
    """Return the module's text."""
    source = _COMMENT.sub("", header)
    parts = [HEAD, _numbers(source), _enumerations(source)]
    parts += [
        _structure(name, body)
        for name, body in re.findall(r"^struct naproxy_(\w+) \{\n(.*?)^\};", source, re.M | re.S)
    ]
    return "\n".join(parts)


def _numbers(source: str) -> str:
    lines = []
    for name, value in re.findall(r"^#define\s+NAPROXY_(\w+)[ \t]+(\S.*)$", source, re.M):
        # 1U << 3, of classes too: 1U << NAPROXY_PERSON.
        if not re.fullmatch(r"[\w\s|<()]+", value):
            raise HeaderError(f"#define NAPROXY_{name} {value}")
        number = re.sub(r"\b(0x[0-9a-f]+|\d+)U\b", r"\1", value.strip())
        if "NAPROXY_" not in number:
            lines.append(f"{name}: Final = {number}")
    return "\n".join(lines) + "\n"


def _enumerations(source: str) -> str:
    made = []
    for name, body in re.findall(r"^enum naproxy_(\w+) \{\n(.*?)^\};", source, re.M | re.S):
        called, begins = ENUMERATIONS[name]
        members = re.findall(r"^\tNAPROXY_(\w+) = (\d+),", body, re.M)
        if len(members) != len(body.split(",")) - 1:
            raise HeaderError(f"enum naproxy_{name}")
        lines = [f"    {member.removeprefix(begins)} = {value}" for member, value in members]
        made.append(
            f'\nclass {called}(IntEnum):\n    """`enum naproxy_{name}`."""\n\n'
            + "\n".join(lines)
            + "\n"
            + MORE.get(called, "")
        )
    budget = re.search(r"^#define NAPROXY_BUDGET\s+\((.*)\)", source, re.M)
    if not budget:
        raise HeaderError("NAPROXY_BUDGET")
    klasses = re.sub(r"1U << NAPROXY_(\w+)", r"1 << Klass.\1", budget[1])
    made.append(_outcomes(source))
    return "\n".join(made) + f"\n\nBUDGET: Final = {klasses}\n"


def _outcomes(source: str) -> str:
    """Return the enumeration, and what is told of its members, by the list of outcomes."""
    lists = dict(re.findall(r"^#define NAPROXY_(\w+)_LIST\(\w\)((?:.*\\\n)+.*)$", source, re.M))
    listed, cases = (re.sub(r"\\?\s+", " ", lists.get(name, "")) for name in ("OUTCOME", "CASE"))
    outcomes = _OUTCOME.findall(listed)
    words = [(word, name) for _, name, word, _, _ in outcomes]
    told = _CASE.findall(cases)
    if not outcomes or _OUTCOME.sub("", listed).strip() or _CASE.sub("", cases).strip():
        raise HeaderError("NAPROXY_OUTCOME_LIST, NAPROXY_CASE_LIST")
    if any(word != name.lower() for word, name in words):
        raise HeaderError("an outcome whose word is not its name")
    words += [(word, outcome) for word, outcome, said in told if said == word]
    ends = dict.fromkeys(end for _, _, _, end, _ in outcomes)
    marks = dict.fromkeys(re.findall(r"#define NAPROXY_O_(\w+)", source))
    lines = [f"    {name} = {number}" for number, name, *_ in outcomes]
    return "\n".join(
        [
            '\nclass Outcome(IntEnum):\n    """`NAPROXY_OUTCOME_LIST`."""\n',
            *lines,
            "\n\nSAID: Final = {",
            *(f'    "{word}": Outcome.{name},' for word, name in words),
            '}\n"""What `X-Naproxy` says, and the outcome that it counts as."""\n\nENDS: Final = {',
            *(f'    "{end}": {_members(outcomes, 3, end)},' for end in ends),
            '}\n"""What became of a request, as people tell it apart."""\n',
            *(f"{mark}: Final = {_members(outcomes, 4, f'NAPROXY_O_{mark}')}" for mark in marks),
        ]
    )


def _members(outcomes: list[tuple[str, ...]], column: int, word: str) -> str:
    """Return the tuple of the outcomes that have this word in a column."""
    names = [each[1] for each in outcomes if word in re.findall(r"\w+", each[column])]
    return "(" + ", ".join(f"Outcome.{name}" for name in names) + ("," * (len(names) == 1)) + ")"


def _structure(name: str, body: str) -> str:
    called = STRUCTURES.get(name, name.title())
    lines = []
    for line in filter(None, (each.strip() for each in body.split(";"))):
        field = _FIELD.fullmatch(line)
        if not field:
            raise HeaderError(f"struct naproxy_{name}: {line}")
        inner, char, number, named, sizes = field.groups()
        kind = STRUCTURES.get(inner, inner.title()) if inner else f"c_{char or number}"
        for size in reversed(re.findall(r"\[(?:NAPROXY_)?(\w+)\]", sizes)):
            kind = f"({kind}) * {size}" if "*" in kind else f"{kind} * {size}"
        lines.append(f'        ("{named}", {kind}),')
    return (
        f'\nclass {called}(ctypes.Structure):\n    """`struct naproxy_{name}`."""\n\n'
        "    _fields_ = (\n" + "\n".join(lines) + "\n    )\n"
    )


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(made_of(Path(sys.argv[1]).read_text()))
