"""A notice in words: the one place where notifications become text. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, tzinfo
from typing import Any, Final
from urllib.parse import quote

from naproxy.core.office_time import which_of_two
from naproxy.core.reason import Reason
from naproxy.core.words import sentences, words
from naproxy.notify.events import Notice

_MOST_PATH: Final = 80
_NAME: Final = re.compile(
    r"(?<=[^/])\.(?=[a-z])"
    r"(?!(?:aspx?|atom|cgi|css|gif|html?|ico|ics|jpe?g|js|json|jsp|pdf|php|png|rss|svg|txt|webp|xml)"
    r"(?![\w.%-]))",
    re.IGNORECASE,
)
"""A dot before a possible end of a host's name; the known ends of files are excluded."""


def letter(
    notice: Notice, t_s: float, *, office: str, language: str, where: tzinfo, page: str
) -> dict[str, Any]:
    """Return its title and text. `office` is its name, or the box's; `page` the box's address."""
    said = words(notice.reason, language, where)
    lines = sentences(notice.reason, language, where)
    if notice.more:
        lines += sentences(notice.more, language, where)
    then = datetime.fromtimestamp(t_s, where)
    time = f"{then:%Y-%m-%d %H:%M}{which_of_two(then)}"
    foot = words(Reason("notify.foot", time=time, page=page), language)
    return {
        "t_s": t_s,
        "event": notice.event,
        "title": f"{office}: {said[:1].upper()}{said[1:]}",
        "text": "\n".join([*lines, "", foot, ""]),
        "picture": "",
        "reason": notice.reason.plain(),
    }


def report(found: Mapping[str, Any], month: str, money: str) -> Notice:
    """Return the notice of a month; `money` is the amount saved, empty without a known price."""
    parts = [
        Reason(
            "notify.report_energy",
            used=kwh(found["used_j"]),
            box=kwh(found["box_j"]),
            saved=kwh(found["net_j"]),
        )
    ]
    if money:
        parts.append(Reason("notify.report_money", money=money))
    if found["co2_g"] is not None:
        parts.append(Reason("notify.report_co2", kg=round(found["co2_g"] / 1000, 1)))
    hours = round(found["asleep_s"] / 3600)
    parts.append(Reason("notify.report_sleep", hours=hours, number=found["switches"]))
    parts.append(Reason("notify.report_waits", number=found["requests"], delayed=found["delayed"]))
    if found["wakers"]:
        named = tuple(f"{_path(each['path'])} ({each['wakes']})" for each in found["wakers"])
        parts.append(Reason("notify.report_wakers", names=named))
    return Notice("report", Reason("notify.report", month=month), Reason("core.all", reasons=parts))


def _path(path: str) -> str:
    """Return a visitor's path: the same address, in which no mail program sees a link or a word.

    Visitors choose it, and programs turn a text that looks like an address into a link.
    """
    text = _NAME.sub("%2E", quote(path, safe="/%=&+"))
    return text if len(text) <= _MOST_PATH else f"{text[:_MOST_PATH]}…"


def kwh(energy_j: float) -> float:
    """Return kilowatt-hours from joules, as many digits as a reader needs."""
    return round(energy_j / 3.6e6, 1) + 0.0  # never -0.0
