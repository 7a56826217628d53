"""Tables like the thesis' table 4.3 of its five configurations, and its figures 4.10 and 4.11."""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from naproxy.core.energy import Power
from naproxy.lab.papers.numbers import caption
from naproxy.lab.replay.replay_report import delays
from naproxy.lab.replay.virtual import THESIS, Found, rows
from naproxy.lab.svg import Bars, Line, bar_chart, line_chart

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


def beside(found: Sequence[Found]) -> str:
    """Return the 17 rows of table 4.3: each configuration's figure, and the thesis' below it."""
    names = [name for name, _ in rows(found[0])]
    cells = [dict(rows(each)) for each in found]
    lines = [("", [each.configuration.short for each in found])]
    for name in names:
        lines.append((name, [_cell(each[name]) for each in cells]))
        lines.append(("    the thesis", [_cell(cell) for cell in THESIS[name]]))
    power = Power()
    lines.append(("saving with the box counted", [f"{e.net_saving(power):.1%}" for e in found]))
    lines.append(("    the thesis, about", ["0%", "-", "-", "25%", "25%"]))
    return "\n".join(
        f"{name:<{_NAME_W}}" + "".join(f"{cell:>{_CELL_W}}" for cell in row) for name, row in lines
    )


def _cell(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def found_result(found: Found) -> dict[str, Any]:
    """Return a pass in virtual time as a result of the office has it, as far as it goes."""
    power = Power()
    on_s = found.span_s - found.off_s
    energy = {
        "switches": found.switches,
        "off_s": found.off_s,
        "on_j": on_s * power.on_w,
        "off_j": found.off_s * power.off_w,
        "switch_j": found.switches * power.switch_j,
        "server_j": found.server_j(power),
        "always_on_j": found.span_s * power.on_w,
    }
    returned = sum(found.replayed.values())
    # The office counts a visitor who came back once, and not as served by the back end.
    counts: dict[str, Any] = {
        "requests": found.requests - returned,
        "served_by_backend": found.by_server - returned,
        "served_by_cache": found.by_cache,
        "status": {str(status): n for status, n in found.status.items()},
        "crawler_503": found.robots,
        "waiting_pages": {"shown": found.surveys, "returned": returned},
        "held": len(found.waits_s),
        "delays": {"served": delays(found.delays_s()), "by_class": {}},
    }
    return {
        "name": found.configuration.name,
        "short": found.configuration.short,
        "seen": counts,
        "sent_twice": 0,
        "energy": energy,
        "proxy_j": found.proxy_j(power),
    }


def _at(found: Any, path: Sequence[str]) -> float:
    for key in path:
        found = found.get(key, {})
    return found if isinstance(found, int | float) else 0


def _number(value: float, digits: int) -> str:
    return f"{value:.{digits}f}"


def draw(
    results: Sequence[Mapping[str, Any]],
    delays_s: Sequence[Sequence[float]],
    to: Path,
    prefix: str = "",
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
    (to / f"{prefix}energy.svg").write_text(
        bar_chart(
            caption("4.10"),
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
        f"{result['name']} {_at(result, ('seen', 'delays', 'served', 'max_s')):.2f} s"
        for result in results
    )
    (to / f"{prefix}delays.svg").write_text(
        line_chart(
            caption("4.11"),
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
