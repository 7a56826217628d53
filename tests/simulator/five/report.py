"""One table like the thesis' table 4.3, and pictures like its figures 4.10 and 4.11."""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from naproxy.lab.estimate.svg import Bars, Line, bar_chart, line_chart

_POINTS = 400
_FASTEST_S = 1e-4
_NAME_W = 30
_CELL_W = 13


def table(results: Sequence[Mapping[str, Any]], malformed: int) -> str:
    """Return all configurations beside each other, as text."""
    rows = [("", [result["short"] for result in results]), *_rows(results, malformed)]
    return "\n".join(
        f"{name:<{_NAME_W}}" + "".join(f"{cell:>{_CELL_W}}" for cell in cells)
        for name, cells in rows
    )


def _rows(results: Sequence[Mapping[str, Any]], malformed: int) -> Iterator[tuple[str, list[str]]]:
    def row(name: str, *path: str, digits: int = 0) -> tuple[str, list[str]]:
        return name, [_number(_at(result, path), digits) for result in results]

    yield row("requests", "seen", "requests")
    yield "malformed lines, skipped", [str(malformed)] * len(results)
    yield row("served by the back end", "seen", "served_by_backend")
    yield row("served by the cache", "seen", "served_by_cache")
    for status in ("200", "404", "503"):
        yield row(status, "seen", "status", status)
    yield row("robots told to come back", "seen", "crawler_503")
    yield row("waiting pages", "seen", "waiting_pages", "shown")
    yield row("  came back and were served", "seen", "waiting_pages", "returned")
    yield row("held", "seen", "held")
    yield row("refused, too many held", "seen", "capped")
    yield row("lost", "seen", "lost")
    yield row("sent to the server twice", "sent_twice")
    for klass, name in (("all", "delay"), ("person", "people's delay")):
        where = ("served",) if klass == "all" else ("by_class", klass)
        for key, words in (("mean_s", "mean"), ("p99_s", "99 %"), ("max_s", "max")):
            yield row(f"{name}, {words}, s", "seen", "delays", *where, key, digits=3)
    yield row("times it fell asleep", "energy", "switches")
    yield row("asleep, s", "energy", "off_s")
    yield row("server, J", "energy", "server_j")
    yield row("box, J", "proxy_j")
    saved = [1 - (r["energy"]["server_j"] / r["energy"]["always_on_j"]) for r in results]
    yield "server's saving", [f"{share:.1%}" for share in saved]
    net = [
        1 - (r["energy"]["server_j"] + r["proxy_j"]) / r["energy"]["always_on_j"] for r in results
    ]
    yield "saving with the box counted", [f"{share:.1%}" for share in net]


def _at(found: Any, path: Sequence[str]) -> float:
    for key in path:
        found = found.get(key, {})
    return found if isinstance(found, int | float) else 0


def _number(value: float, digits: int) -> str:
    return f"{value:.{digits}f}"


def draw(
    results: Sequence[Mapping[str, Any]], delays_s: Sequence[Sequence[float]], to: Path
) -> None:
    """Write energy.svg and delays.svg; `delays_s` are each configuration's, in any order."""
    parts = ("on_j", "off_j", "switch_j")
    names = ("awake", "asleep", "falling asleep and waking")
    series = [
        Bars(name, [result["energy"][part] for result in results])
        for name, part in zip(names, parts, strict=True)
    ]
    series.append(Bars("the box", [result["proxy_j"] for result in results]))
    totals = ", ".join(
        f"{result['name']} {result['energy']['server_j'] + result['proxy_j']:.0f} J"
        for result in results
    )
    (to / "energy.svg").write_text(
        bar_chart(
            "Energy by configuration",
            f"Model of the thesis' table 4.2 over observed transitions: {totals}.",
            [result["short"] for result in results],
            series,
            y_label="energy, J",
            stacked=True,
        )
    )
    lines = [
        Line(result["short"], _shares(values))
        for result, values in zip(results, delays_s, strict=True)
    ]
    slowest = ", ".join(
        f"{result['name']} {_at(result, ('seen', 'delays', 'all', 'max_s')):.2f} s"
        for result in results
    )
    (to / "delays.svg").write_text(
        line_chart(
            "Delay distribution by configuration",
            f"Share of the requests served that had waited so long. The longest: {slowest}.",
            lines,
            x_label="delay at most, s",
            y_label="share of requests served",
            log_x=True,
            steps=True,
            y_max=1.0,
        )
    )


def _shares(values_s: Sequence[float]) -> list[tuple[float, float]]:
    """Return the cumulative distribution, thinned out but for its tail."""
    ordered = sorted(max(value, _FASTEST_S) for value in values_s)
    count = len(ordered)
    every = max(1, math.ceil(count / _POINTS))
    kept = [i for i in range(count) if i % every == 0 or i >= count - 20]
    return [(ordered[i], (i + 1) / count) for i in kept]
