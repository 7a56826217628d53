"""Rules that keep a client from waking a server: which one to suggest, and its effect.

Pure: wakes, servers and rules are arguments. A `[[rule]]` assigns a class to the requests that
match it; the first match decides. Robots do not wake a server, and do not count as visitors who
had to wait.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from naproxy.core.page_h import RULE_LEN, RULES
from naproxy.history.read.ledger import Tally, bare, matcher

from naproxy_webui.office.equipment import Server
from naproxy_webui.office.figures import middle

MOST_BYTES: Final = RULE_LEN - 1
MOST_RULES: Final = RULES
MOST_EXAMPLES: Final = 4

ROBOTS: Final = ("feed", "monitor", "crawler", "scanner")
_FEED: Final = re.compile(r"\b(feeds?|rss|atom)\b|\.(rss|atom)$", re.IGNORECASE)
_CRAWLER: Final = re.compile(r"bot\b|crawl|spider|slurp", re.IGNORECASE)
_COMMON: Final = re.compile(
    r"(?i)mozilla|applewebkit|khtml|gecko|chrome|chromium|crios|fxios|safari|firefox|version|"
    r"mobile|opera|opr|edge?|edga|edgios|windows|linux|macintosh|compatible|like|build|trident|"
    r"android|samsungbrowser|ubuntu|presto|x86.*|win64|wow64|rv|[a-z]{2}-[a-z]{2}"
)
_TOKEN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{2,}(?=[/ ;)]|$)")
_LEAST_REGULAR: Final = 6
_REGULAR: Final = 0.15
"""Median deviation of the gaps between wakes, as a share of the usual gap."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A rule to make with one click, or in `why_not` the name of the text that says why not."""

    kind: str
    text: str = ""
    why_not: str = ""


def suggest(kind: str, key: str) -> Suggestion:
    """Return the rule for a group of wakes: by path without query, by address, or by agent."""
    if kind == "class":
        return Suggestion(kind, why_not="class")
    if kind == "path":
        return _for_path(key)
    if kind == "agent":
        return _for_agent(key)
    try:
        address = ipaddress.ip_address(key)
    except ValueError:
        return Suggestion(kind, why_not="no_address")
    return Suggestion(kind, str(address))


def _for_path(path: str) -> Suggestion:
    path = bare(path)
    if not path.startswith("/"):
        return Suggestion("path", why_not="no_path")
    if path == "/":
        return Suggestion("path", why_not="front_page")
    return Suggestion("path", _cut(path))


def _cut(text: str) -> str:
    """Return as much of a text as fits a rule; the beginning matches what the whole does."""
    return text.encode()[:MOST_BYTES].decode(errors="ignore")


def _for_agent(agent: str) -> Suggestion:
    """Return the distinctive part of a User-Agent, which usual browsers do not have.

    The ledger has `?` for characters outside plain ASCII, so the part must not contain one.
    """
    if not agent.strip("?- "):
        return Suggestion("agent", why_not="no_agent")
    if not agent.startswith(("Mozilla/", "Opera/")):
        name = max(agent.split("?"), key=len).strip()
        product = re.match(r"[^/(;]+/?", name)
        text = product.group() if product and len(product.group()) > 3 else name
        return Suggestion("agent", _cut(text.strip()))
    for token in _TOKEN.findall(agent.partition(" ")[2]):
        own = _CRAWLER.search(token) or f"{token}/" in agent
        if own and not _COMMON.fullmatch(token):
            return Suggestion("agent", _cut(token))
    return Suggestion("agent", why_not="browser")


def treat_as(server: Server, kind: str, text: str, matched: Sequence[dict[str, Any]]) -> str | None:
    """Return the class that fits best of those that may not wake a server; None if all may."""
    free = [name for name in ROBOTS if name not in server.wake_classes]
    if not free:
        return None
    wanted = "monitor"
    agents, paths = [w["agent"] for w in matched], [bare(w["path"]) for w in matched]
    if _FEED.search(text) or _most(agents, _FEED) or _most(paths, _FEED):
        wanted = "feed"
    elif not regular([w["t_s"] for w in matched]) and (
        (kind == "agent" and _CRAWLER.search(text)) or _most(agents, _CRAWLER)
    ):
        wanted = "crawler"
    return wanted if wanted in free else free[0]


def _most(words: Sequence[str], pattern: re.Pattern[str]) -> bool:
    return sum(bool(pattern.search(word)) for word in words) * 2 > len(words) > 0


def regular(times_s: Sequence[float]) -> float | None:
    """Return the usual gap in seconds if the times are periodic, else None."""
    gaps = [later - sooner for sooner, later in pairwise(times_s)]
    if len(gaps) < _LEAST_REGULAR:
        return None
    usual = middle(gaps)
    spread = middle([abs(gap - usual) for gap in gaps])
    return usual if usual >= 1 and spread <= _REGULAR * usual else None


@dataclass(slots=True)
class Effect(Tally):
    """The effect that a rule would have had: the wakes it would have prevented, and by class.

    `shadowed`: wakes that also match, but an earlier rule decides about them.
    """

    shadowed: int = 0


def effect(
    kind: str, text: str, wakes: Iterable[dict[str, Any]], rules: Iterable[dict[str, Any]]
) -> tuple[Effect, list[dict[str, Any]]]:
    """Return what a rule after these would have done, and the wakes it would have prevented.

    ValueError if the rule cannot be. Wakes are of one server, with `awake_s` and `extra_j`.
    """
    ours = matcher(kind, text)
    earlier = [matcher(rule["kind"], rule["text"]) for rule in rules]
    made, matched = Effect(), []
    for wake in filter(ours, wakes):
        if any(matches(wake) for matches in earlier):
            made.shadowed += 1
            continue
        matched.append(wake)
        made.add(wake)
    return made, matched


def for_server(rules: Iterable[dict[str, Any]], server: str) -> list[dict[str, Any]]:
    """Return the rules that hold for a server, in their order."""
    return [rule for rule in rules if rule["server"] in ("", server)]


def decider(rules: Sequence[dict[str, Any]]) -> Callable[[dict[str, Any]], int | None]:
    """Return what tells the index of the rule that would decide about a wake now, if any."""
    each = [(rule["server"], matcher(rule["kind"], rule["text"])) for rule in rules]

    def decides(wake: dict[str, Any]) -> int | None:
        for index, (server, matches) in enumerate(each):
            if server in ("", wake["server"]) and matches(wake):
                return index
        return None

    return decides


def number(rules: Sequence[dict[str, Any]], wanted: dict[str, Any]) -> int | None:
    """Return a rule's number from 1, the last if there are several alike; None if it is gone."""
    for index in range(len(rules), 0, -1):
        if rules[index - 1] == wanted:
            return index
    return None
