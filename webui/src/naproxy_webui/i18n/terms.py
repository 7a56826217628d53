"""Words of the glossary, marked in the texts of a page: a button opens the meaning of each.

The meaning of a word is the text `term.WORD`; a test compares the English one with
docs/glossary.md. A second text has the forms in which the word is found, with `|` between them.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from flask import g
from markupsafe import Markup, escape

from naproxy_webui.i18n.texts import language, text

TERMS: Final = (
    ("term.agent", "term.agent.words"),
    ("term.bmc", "term.bmc.words"),
    ("term.bound", "term.bound.words"),
    ("term.estimated", "term.estimated.words"),
    ("term.fingerprint", "term.fingerprint.words"),
    ("term.fixed_ip_address", "term.fixed_ip_address.words"),
    ("term.frozen", "term.frozen.words"),
    ("term.idle_timeout", "term.idle_timeout.words"),
    ("term.mac_address", "term.mac_address.words"),
    ("term.magic_packet", "term.magic_packet.words"),
    ("term.meter", "term.meter.words"),
    ("term.modelled", "term.modelled.words"),
    ("term.monitor", "term.monitor.words"),
    ("term.passed_on_unopened", "term.passed_on_unopened.words"),
    ("term.program", "term.program.words"),
    ("term.promise", "term.promise.words"),
    ("term.robot", "term.robot.words"),
    ("term.search_engine_let_in", "term.search_engine_let_in.words"),
    ("term.waiting_page", "term.waiting_page.words"),
)

_MARKED: Final = Markup(
    '<button type="button" class="term" popovertarget="{id}">{word}</button>'
    '<span class="term-text" id="{id}" popover>{means} <a href="/help/glossary" target="_blank"'
    ' rel="noopener">{more}</a></span>'
)


@lru_cache
def _finder(spoken: str) -> tuple[re.Pattern[str], dict[str, str]]:
    """Return what finds the words of a language, and which term each of them is."""
    of = {
        word.lower(): key for key, words in TERMS for word in text(spoken, words).split("|") if word
    }
    longest = sorted(of, key=len, reverse=True)
    return re.compile(rf"(?<!\w)({'|'.join(map(re.escape, longest))})(?!\w)", re.IGNORECASE), of


def terms(words: str) -> Markup:
    """Return a text as HTML; each term is marked where the page has it first."""
    spoken = language()
    pattern, of = _finder(spoken)
    seen: set[str] = g.setdefault("terms_seen", set())
    made, done = Markup(), 0
    for found in pattern.finditer(words):
        key = of[found[0].lower()]
        if key in seen:
            continue
        seen.add(key)
        made += escape(words[done : found.start()]) + _MARKED.format(
            id=key.replace(".", "-"),
            word=found[0],
            means=text(spoken, key),
            more=text(spoken, "help.glossary"),
        )
        done = found.end()
    return made + escape(words[done:])
