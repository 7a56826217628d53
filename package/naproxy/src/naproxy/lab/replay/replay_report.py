"""The result of a replay: the rows of the thesis' table 4.3, as text and as JSON."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from naproxy.core.page_h import SAID, SERVED, Outcome
from naproxy.core.state import Klass
from naproxy.lab.estimate.accesslog import Log
from naproxy.lab.replay.replay_visit import DIRECT, LOST, Visit

_FETCHED = (*SERVED, Outcome.PIPE)
BY_BACKEND = frozenset((DIRECT, *(word for word, outcome in SAID.items() if outcome in _FETCHED)))
BY_CACHE = frozenset(
    word for word, outcome in SAID.items() if outcome in (Outcome.HIT, Outcome.STALE)
)
# Upper bounds of the delay distribution: 1, 2, 5 a decade.
BOUNDS_S = tuple(m * 10.0**e for e in range(-4, 3) for m in (1, 2, 5))

# Names of the outcomes for people.
NAMES = {
    "hit": "from the cache, fresh",
    "stale": "from the cache, stale",
    "frozen": "from the cache, frozen",
    "kept": "from the cache, the last good",
    "fetch": "fetched for the cache",
    "pass": "passed, not cacheable",
    "pipe": "piped",
    DIRECT: "by the server, no proxy",
    "held": "held, then answered",
    "waiting_page": "waiting page, and back",
    "refused": "robot told to come back",
    "capped": "refused, too many at once",
    "limit": "refused, held too long",
    "gone": "hung up while held",
    "error": "server failed",
    "status": "status path",
    "spent": "refused, share used up",
    "other": "answered by the box itself",
    LOST: "lost",
}


def summarise(visits: Sequence[Visit], klass: Callable[[str], Klass]) -> dict[str, Any]:
    """Return the figures of a replay as JSON types; times are in seconds.

    `klass` says who is asking from a User-Agent. A request's delay runs until the visitor has
    what was asked for, over the waiting page if need be. Lost requests have no delay, and the
    refused ones count by outcome only: they are quick, and nobody was served by them.
    """
    outcomes = Counter(visit.outcome for visit in visits)
    statuses = Counter(visit.status for visit in visits if visit.status)
    robots = [v for v in visits if v.outcome == "refused"]
    served = [visit for visit in visits if visit.served]
    return {
        "requests": len(visits),
        "served_by_backend": sum(outcomes[name] for name in BY_BACKEND),
        "served_by_cache": sum(outcomes[name] for name in BY_CACHE),
        "status": {str(status): statuses[status] for status in sorted(statuses)},
        "crawler_503": len(robots),
        "waiting_pages": _waiting_pages([v for v in visits if v.outcome == "waiting_page"]),
        "held": outcomes["held"],
        "capped": outcomes["capped"],
        "limit": outcomes["limit"],
        "errors": outcomes["error"],
        "lost": sum(visit.lost for visit in visits),
        "lost_why": dict(Counter(visit.why_lost for visit in visits if visit.lost)),
        "outcomes": dict(outcomes),
        "delays": {
            "served": delays([v.wait_s for v in served]),
            "by_outcome": _delays_by([v for v in visits if not v.lost], lambda v: v.outcome),
            "by_class": _delays_by(served, lambda v: klass(v.entry.agent).name.lower()),
        },
        "delay_distribution": distribution([v.wait_s for v in served]),
        "late": delays([visit.late_s for visit in visits]),
    }


def log_summary(log: Log) -> dict[str, Any]:
    """Return the number of lines read from a log, and of those that are not requests."""
    return {
        "files": [str(name) for name in log.files],
        "lines_read": log.lines,
        "malformed": log.malformed.total(),
        "malformed_why": dict(log.malformed),
        "malformed_examples": [asdict(example) for example in log.examples],
    }


def delays(values_s: Iterable[float]) -> dict[str, float]:
    """Return count, mean, percentiles (nearest rank) and maximum; only the count if empty."""
    ordered = sorted(values_s)
    if not ordered:
        return {"requests": 0}
    ranks = {f"p{p}_s": ordered[math.ceil(len(ordered) * p / 100) - 1] for p in (50, 90, 99)}
    mean_s = math.fsum(ordered) / len(ordered)
    return {"requests": len(ordered), "mean_s": mean_s, **ranks, "max_s": ordered[-1]}


def distribution(values_s: Iterable[float]) -> list[dict[str, float | None]]:
    """Return how many delays are at most `up_to_s` and over the bound before; the last has none."""
    counts = Counter(bisect_left(BOUNDS_S, value) for value in values_s)
    return [
        {"up_to_s": BOUNDS_S[i] if i < len(BOUNDS_S) else None, "requests": counts[i]}
        for i in range(len(BOUNDS_S) + 1)
    ]


def _delays_by(visits: Sequence[Visit], key: Callable[[Visit], str]) -> dict[str, dict[str, float]]:
    groups: dict[str, list[float]] = {}
    for visit in visits:
        groups.setdefault(key(visit), []).append(visit.wait_s)
    return {name: delays(groups[name]) for name in sorted(groups)}


def _waiting_pages(visits: Sequence[Visit]) -> dict[str, Any]:
    returned = [v.returned for v in visits if v.returned and v.returned.outcome != LOST]
    return {
        "shown": len(visits),
        "returned": len(returned),
        "returned_status": dict(Counter(str(back.status) for back in returned)),
        "gave_up": len(visits) - len(returned),
        "reloads": sum(visit.returned.reloads for visit in visits if visit.returned),
        "after": delays(back.after_s for back in returned),
    }


def table(read: Mapping[str, Any], figures: Mapping[str, Any]) -> str:
    """Return the report for a terminal, from `log_summary` and `summarise`."""
    return "\n".join([*_rows(read, figures), "", *_delays(figures), "", *_bars(figures)]) + "\n"


def _rows(read: Mapping[str, Any], figures: Mapping[str, Any]) -> Iterator[str]:
    status = figures["status"]
    others = {code: n for code, n in status.items() if code not in ("200", "404", "503")}
    waiting = figures["waiting_pages"]
    rows: list[tuple[str, Any]] = [
        ("requests", figures["requests"]),
        ("malformed lines, skipped", read["malformed"]),
        ("served by the back end", figures["served_by_backend"]),
        ("served by the cache", figures["served_by_cache"]),
        ("200", status.get("200", 0)),
        ("404", status.get("404", 0)),
        ("503", status.get("503", 0)),
        *((f"{code}", n) for code, n in others.items()),
        ("robots told to come back (503)", figures["crawler_503"]),
        ("waiting pages (503)", waiting["shown"]),
        ("  came back and were served", waiting["returned"]),
        ("  gave up", waiting["gave_up"]),
        ("held", figures["held"]),
        ("refused, too many at once (503)", figures["capped"]),
        ("refused, held too long (503)", figures["limit"]),
        ("the server failed (503)", figures["errors"]),
        ("lost", figures["lost"]),
    ]
    for name, value in rows:
        yield f"{name:<34}{value:>10}"
    for why, count in figures["lost_why"].items():
        yield f"  lost: {count} times {why}"
    for example in read["malformed_examples"]:
        yield f"  {example['file']}, line {example['line']}: {example['why']}"
    if read["malformed"] > len(read["malformed_examples"]) > 0:
        yield f"  and {read['malformed'] - len(read['malformed_examples'])} more"


def _delays(figures: Mapping[str, Any]) -> Iterator[str]:
    yield f"{'delay in s':<34}{'requests':>10}{'mean':>9}{'median':>9}{'99 %':>9}{'max':>9}"
    found = figures["delays"]
    lines = [("all that were served", found["served"])]
    lines += [(NAMES[name], values) for name, values in found["by_outcome"].items()]
    lines += [(f"asked by: {name}", values) for name, values in found["by_class"].items()]
    for name, values in lines:
        if values["requests"]:
            numbers = "".join(
                f"{values[key]:>9.3f}" for key in ("mean_s", "p50_s", "p99_s", "max_s")
            )
            yield f"{name:<34}{values['requests']:>10}{numbers}"
    late = figures["late"]
    if late["requests"]:
        mean_s, max_s = late["mean_s"], late["max_s"]
        yield f"requests were sent {mean_s:.3f} s late on average, {max_s:.3f} s at most"


def _bars(figures: Mapping[str, Any]) -> Iterator[str]:
    found = figures["delay_distribution"]
    used = [i for i, bucket in enumerate(found) if bucket["requests"]]
    if not used:
        return
    total = sum(bucket["requests"] for bucket in found)
    yield "delay up to"
    for bucket in found[used[0] : used[-1] + 1]:
        bound = bucket["up_to_s"]
        label = f"{bound:g} s" if bound is not None else "longer"
        share = bucket["requests"] / total
        yield f"{label:>11} {bucket['requests']:>8} {'█' * math.ceil(share * 50)}"
