"""The rules that a program can check; docs/contributing.md has all of them, with examples."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

LONG: Final = 30
"""Words of the longest sentence."""

_BARE: Final = re.compile(
    r"(?:^|[,;:(]\s|\b(?:and|or|but|of|for|to|by|with|from|than|as|if|that|is|are|on|at|in|about)\s)"
    r"(?:who|whoever|whatever|what)\s+(?!if\b|to\b|else\b)\w+",
    re.IGNORECASE,
)
_WORDS: Final = {
    "bare who or what": _BARE,
    "is none, is no": re.compile(
        r"(?<!there )\b(?:is|are|was|were) (?:none|no)\b(?! longer| more)", re.I
    ),
    "calque": re.compile(
        r"\b(?:for nothing|anew|reckon\w*|mend\w*|in clear|by HTTPS?|by ssh|but for|had been had"
        r"|is to be had|as ever|stands? in for|whosoever)\b",
        re.I,
    ),
    "he for a thing": re.compile(
        r"\b(?:program|server|client|browser|robot|crawler|box|controller|monitor)s?\b"
        r"[^.;]{0,60}\b(?:he|him|his)\b",
        re.I,
    ),
}
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"'(*`])|\n\n+")


def sentences(prose: str) -> Iterator[str]:
    """Split prose: a paragraph ends a sentence, too."""
    for sentence in _SENTENCE.split(prose):
        if plain := " ".join(sentence.split()):
            yield plain


def broken(prose: str) -> Iterator[tuple[str, str]]:
    """Yield the rules that a text breaks, each with the words around it."""
    for sentence in sentences(prose):
        for rule, pattern in _WORDS.items():
            # A question may begin with Who or What.
            if rule == "bare who or what" and sentence.endswith("?"):
                continue
            for match in pattern.finditer(sentence):
                yield rule, sentence[max(0, match.start() - 30) : match.end() + 30]
        if len(sentence.split()) > LONG:
            yield f"more than {LONG} words", sentence[:80]
        if sentence.count(";") > 1:
            yield "several semicolons", sentence[:80]
