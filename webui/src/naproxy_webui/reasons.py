"""What the controller says, in plain words of the user's language.

The controller, its policies and the servers say in English why something is so, for logs too.
Known words are told as texts `reasons.*`; what is not known, such as a server's own refusal, is
told as it came.
"""

from __future__ import annotations

import re
from typing import Any, Final

from naproxy_webui.texts import t

MOST_CHARS: Final = 600

_N: Final = r"[0-9]{1,12}(?:\.[0-9]{1,6})?"
_KNOWN: Final[tuple[tuple[str, str], ...]] = (
    # Policies
    (rf"idle (?P<idle_s>{_N}) s of (?P<least_s>{_N}) s", "idle_of"),
    (rf"idle (?P<idle_s>{_N}) s", "idle"),
    (rf"awake (?P<awake_s>{_N}) s of (?P<least_s>{_N}) s", "awake_of"),
    (rf"outside office hours, idle (?P<idle_s>{_N}) s of (?P<least_s>{_N}) s", "outside_hours"),
    (r"office hours", "office_hours"),
    (r"nobody needed it so far", "nobody_yet"),
    (
        rf"a request every (?P<gap_s>{_N}) s expected, sleeping pays from (?P<pays_s>{_N}) s",
        "too_busy",
    ),
    (rf"a request every (?P<gap_s>{_N}) s expected, too many for the delays left", "too_many"),
    (rf"(?P<used>{_N}) of (?P<allowed>{_N}) allowed delays used", "budget"),
    (rf"(?P<used>{_N}) of (?P<allowed>{_N}) allowed delays used today", "budget_today"),
    (rf"learning on the first day, (?P<used>{_N}) delayed today", "first_day"),
    (r"nothing learned yet that keeps the promise", "nothing_learned"),
    (r"somebody is here", "somebody_here"),
    (r"the first day is over and no delay is allowed yet", "first_day_over"),
    (r"no allowed delay is left to spend", "no_budget"),
    (rf"slept (?P<times>{_N}) times today, which is the limit", "enough_sleeps"),
    (r"not decided yet", "undecided"),
    # Vetoes
    (r"it is (?:unknown|asleep|waking|falling asleep|trouble), not awake", "not_awake"),
    (r"it has just failed to answer", "just_failed"),
    (r"kept awake by hand", "by_hand"),
    (r"kept awake by hand until (?P<until>[0-9-]{10} [0-9:]{5})", "by_hand_until"),
    (rf"(?P<words>.+); asked again in (?P<again_s>{_N}) s", "refused"),
    (rf"requests at the server: (?P<number>{_N})", "at_server"),
    (rf"open connections \(WebSocket\) to the server: (?P<number>{_N})", "connections"),
    (rf"work behind (?P<paths>.+) (?P<ago_s>{_N}) s ago; (?P<left_s>{_N}) s left", "work"),
    (r"office hours until (?P<until>[0-9: -]{5,16})", "office_hours_until"),
    (r"the box's clock is not set: it cannot know the office hours", "no_clock"),
    (rf"it woke (?P<ago_s>{_N}) s ago; (?P<left_s>{_N}) s left", "woke_lately"),
    (r"no way to sleep is configured: set sleep.driver", "no_way"),
    (r"not commissioned: run naproxy commission \S+", "not_commissioned"),
    (
        r"commissioned with another network card or other ways to sleep and wake: run naproxy"
        r" commission \S+ again",
        "commissioned_otherwise",
    ),
    (
        r"stays awake since it did not wake: (?P<words>.+); mend that, then run naproxy arm \S+",
        "tripped",
    ),
    (rf"it is being commissioned: cycle (?P<cycle>{_N}) of (?P<cycles>{_N})", "commissioning"),
    # States
    (r"not looked at yet", "not_looked_at"),
    (r"it answers", "answers"),
    (r"it woke by itself", "woke_itself"),
    (rf"up after (?P<took_s>{_N}) s(?:, woken by \S+)?", "up_after"),
    (r"commissioning", "commissioning_now"),
    (r"by hand", "hand"),
    (r"its wake was cut off", "cut_off"),
    (r"its commissioning was cut off", "cut_off_commissioning"),
    (r"it fell asleep after the sleep was called off", "fell_asleep_after_all"),
    (r"it woke again before it was seen asleep", "woke_again"),
    (rf"requests at the server while it was about to sleep: (?P<number>{_N})", "came_before"),
    (rf"still not asleep (?P<took_s>{_N}) s after the command to sleep", "not_asleep"),
    (r"silent, and put to sleep before the controller started", "slept_before"),
    (r"it stopped answering: (?P<words>.+)", "stopped_answering"),
    (r"the machine is on, its web server is not: (?P<words>.+)", "web_server_down"),
    (
        r"it does not answer \((?P<words>.+)\), and Naproxy did not put it to sleep",
        "silent_at_start",
    ),
    (
        rf"not up after (?P<calls>{_N}) calls to wake in (?P<took_s>{_N}) s(?: \(.+\))?:"
        r" (?P<words>.+)",
        "not_up",
    ),
    (r"still not up: (?P<words>.+)", "still_not_up"),
    (
        r"(?P<detail>.+?): the machine is on, its web server is not well; look at that on the"
        r" machine",
        "why_web_server",
    ),
    (
        rf"(?P<detail>.+?); it draws (?P<w>{_N}) W: it is unplugged, or its supply is off or"
        r" broken",
        "why_unplugged",
    ),
    (
        r"(?P<detail>.+?); .+: it woke but hangs \(a hung resume\); look at its screen,"
        r" and restart it by its button if it stays so",
        "why_hangs",
    ),
    (
        rf"(?P<detail>.+?); it draws (?P<w>{_N}) W, as when asleep: the wake failed; check"
        r" wake-on-LAN, its cable and the switch, or press its button",
        "why_failed",
    ),
    (
        r"(?P<detail>.+?); (?:pings are not answered either; )?it is off, asleep, cut off or hung,"
        r" and without a meter nobody can tell which; look at the machine, and press its button",
        "why_unclear",
    ),
    (r"asked for while it fell asleep: (?P<words>.+)", "asked_falling"),
    (
        r"wanted before the command to sleep was given: (?P<words>.+)",
        "wanted_before",
    ),
    # Why nobody was let in by ssh
    (r"no host key of the server is pinned in \S+: naproxy key pin", "ssh_no_pin"),
    (r"the server's host key is not the one pinned in .+", "ssh_other_key"),
    (r"the server does not let (?P<name>\S+) in with \S+", "ssh_not_let_in"),
    (r"not reached by ssh: (?P<words>.+)", "ssh_not_reached"),
    (
        r"(?P<request>[A-Z]+ .*) by (?P<who>\S+)"
        r" \((?P<klass>person|crawler|monitor|feed|api|scanner)\)",
        "request",
    ),
)
_RULES: Final = tuple((re.compile(pattern, re.DOTALL), key) for pattern, key in _KNOWN)
_WOULD: Final = re.compile(r"would sleep \((?P<reason>.+)\), but: (?P<vetoes>.+)", re.DOTALL)


def plain(words: str) -> str:
    """Return one reason in plain words; several, joined by `;`, become sentences."""
    return " ".join(sentences(words))


def sentences(words: str) -> list[str]:
    """Return what a reason says, a sentence each, those that are not known as they came."""
    words = words[:MOST_CHARS].strip()
    if not words:
        return []
    if would := _WOULD.fullmatch(words):
        return sentences(would["vetoes"])
    pieces = words.split("; ")
    said: list[str] = []
    while pieces:
        taken, sentence = _longest(pieces)
        said.append(sentence)
        pieces = pieces[taken:]
    return said


def _longest(pieces: list[str]) -> tuple[int, str]:
    """Return how many pieces make the longest known reason, and it; else the first as it came."""
    for taken in range(min(len(pieces), 6), 0, -1):
        if (known := _known("; ".join(pieces[:taken]))) is not None:
            return taken, known
    return 1, _as_sentence(pieces[0])


def _known(words: str) -> str | None:
    for rule, key in _RULES:
        if found := rule.fullmatch(words):
            return t(f"reasons.{key}", **_values(found.groupdict()))
    return None


def _values(found: dict[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, text in found.items():
        if name.endswith("_s"):
            values[name.removesuffix("_s")] = duration(float(text))
        elif name == "words":
            values[name] = plain(text).rstrip(".")
        elif name == "klass":
            values[name] = t(f"kit.one.{text}")
        else:
            values[name] = text
    return values


def _as_sentence(words: str) -> str:
    said = words[0].upper() + words[1:]
    return said if said[-1] in ".!?" else f"{said}."


def duration(s: float) -> str:
    """Return a length of time in words, as `duration` of format.js does for whole seconds."""
    if s < 90:
        return (
            f"{s:.0f}\N{NO-BREAK SPACE}s"
            if s >= 10 or s == int(s)
            else f"{s:.1f}\N{NO-BREAK SPACE}s"
        )
    minutes = round(s / 60)
    if minutes < 60:
        return f"{minutes}\N{NO-BREAK SPACE}min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}\N{NO-BREAK SPACE}h" + (f" {minutes}\N{NO-BREAK SPACE}min" if minutes else "")
