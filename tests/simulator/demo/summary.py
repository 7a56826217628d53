"""The figures at the end."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from naproxy.core.classify import Agents
from naproxy.lab.replay.replay_report import summarise
from naproxy.lab.replay.replay_visit import Visit

from tests.simulator.demo.power import Energy
from tests.simulator.demo.screen import Screen


def totals(
    visits: Sequence[Visit],
    *,
    board: Mapping[str, Any],
    used: Energy,
    received: Counter[str],
    first_of_cast: int,
    by_http_2: Collection[str],
) -> dict[str, Any]:
    """Return the summary: what the visitors saw, what the mainboard did, what nginx was sent."""
    seen = summarise(visits, Agents().klass)
    transitions = Counter(change["state"] for change in board["transitions"])
    cast = sum(visit.number >= first_of_cast for visit in visits)
    answered = [visit for visit in visits if visit.status is not None]
    return {
        "duration_s": used.on_s + used.off_s,
        "requests": seen["requests"],
        "requests_from_log": seen["requests"] - cast,
        "requests_of_cast": cast,
        "by_https": len(answered),
        "by_http2": sum(visit.entry.host in by_http_2 for visit in answered),
        "cache_hits": seen["served_by_cache"],
        "backend_fetches": seen["served_by_backend"],
        "crawler_503": seen["crawler_503"],
        "waiting_pages": seen["waiting_pages"]["shown"],
        "held": seen["held"],
        "wakes": transitions["resuming"],
        "sleeps": transitions["off"],
        "asleep_s": used.off_s,
        "lost": seen["lost"],
        "sent_twice": sum(count > 1 for count in received.values()),
        "magic_packets": board["counts"]["magic"],
        "energy": used.as_json(),
        "visits": seen,
    }


def tell(summary: Mapping[str, Any], screen: Screen) -> None:
    """Print it."""
    energy, back = summary["energy"], summary["visits"]["waiting_pages"]
    rows = [
        ("requests", summary["requests"], f"{summary['requests_from_log']} from the log"),
        ("  by HTTPS", summary["by_https"], f"{summary['by_http2']} of them by HTTP/2"),
        ("  from the cache", summary["cache_hits"], ""),
        ("  by the server", summary["backend_fetches"], f"{summary['held']} of them held"),
        ("  robots told to come back", summary["crawler_503"], ""),
        ("  waiting pages", summary["waiting_pages"], f"{back['returned']} came back, and had it"),
        ("  lost", summary["lost"], ""),
        ("sent to the server twice", summary["sent_twice"], ""),
        ("the server fell asleep", summary["sleeps"], f"{summary['asleep_s']:.0f} s asleep"),
        (
            "the server was woken",
            summary["wakes"],
            f"{summary['magic_packets']} magic packets seen",
        ),
    ]
    screen.say()
    for name, value, note in rows:
        screen.say(f"{name:<30}{value:>6}  {note}".rstrip())
    saved = 1 - energy["server_j"] / energy["always_on_j"]
    net = 1 - (energy["server_j"] + energy["proxy_j"]) / energy["always_on_j"]
    screen.say()
    screen.say(
        f"By the model of table 4.2 the server took {energy['server_j']:.0f} J in "
        f"{summary['duration_s']:.0f} s, always on {energy['always_on_j']:.0f} J:"
    )
    screen.say(
        f"{_less(saved)}; with the box's own {energy['proxy_j']:.0f} J counted, {_less(net)}."
    )
    missing = [
        name
        for name in ("cache_hits", "crawler_503", "waiting_pages", "held", "wakes", "sleeps")
        if not summary[name]
    ]
    if missing:
        screen.say(f"Not seen in so short a time: {', '.join(missing)}.")


def _less(share: float) -> str:
    return f"{abs(share):.0%} {'less' if round(share, 2) >= 0 else 'more'}"
