"""What was measured, judged: pure, so that it can be tested without a siege."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tests.bench.result import goal, quantile
from tests.siege.fair import TIMEOUT_S, Visit

P99_MS: Final = 250.0
MEMORY_MB: Final = 160.0


def latency(visits: Sequence[Visit]) -> dict[str, Any]:
    """Quantiles in ms of those of one kind; who was not served took as long as he would wait."""
    times_ms = [
        1000 * (visit.took_s if visit.served else TIMEOUT_S[visit.kind]) for visit in visits
    ]
    if not times_ms:
        return {"n": 0}
    return {
        "n": len(times_ms),
        "p50_ms": round(quantile(times_ms, 0.5), 1),
        "p99_ms": round(quantile(times_ms, 0.99), 1),
        "max_ms": round(max(times_ms), 1),
        "not_served": dict(
            Counter(visit.error or str(visit.status) for visit in visits if not visit.served)
        ),
    }


@dataclasses.dataclass(frozen=True, slots=True)
class Posts:
    """What became of the fair visitor's forms."""

    sent: int
    arrived: int
    """Answered by the server, which received them once."""
    refused: int
    """Told so in words, and the server never saw them."""
    lost: int
    """Neither."""
    twice: int
    """Reached the server more than once."""


def posts(visits: Iterable[Visit], received: Mapping[str, int]) -> Posts:
    """Compare what the visitor was told with what reached the server."""
    sent = [visit for visit in visits if visit.kind == "post"]
    arrived = sum(visit.served and received.get(visit.id, 0) == 1 for visit in sent)
    refused = sum(visit.refused and received.get(visit.id, 0) == 0 for visit in sent)
    twice = sum(received.get(visit.id, 0) > 1 for visit in sent)
    return Posts(len(sent), arrived, refused, len(sent) - arrived - refused - twice, twice)


def during(visits: Iterable[Visit], kind: str, begin_s: float, end_s: float) -> list[Visit]:
    """Those of a kind that were due in this stretch of time."""
    return [visit for visit in visits if visit.kind == kind and begin_s <= visit.due_s < end_s]


def beside_cache_mb(row: Mapping[str, Any]) -> float:
    """The programs' memory without what the cache has in it, which may be as much as is set."""
    cached_mb: float = row["varnish"]["SMA.default.g_bytes"] / 2**20
    all_mb: float = row["memory_mb"]["all"]
    return round(all_mb - cached_mb, 1)


def goals(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The goals of the attacks by connections: each row is one attack."""
    worst: list[dict[str, Any]] = []
    for kind in ("hit", "status"):
        value, where = max((row["during"][kind]["p99_ms"], row["attack"]) for row in rows)
        worst.append(goal(f"{kind}, p99 in ms, worst in {where}", value, P99_MS, "<="))
    memory, where = max((beside_cache_mb(row), row["attack"]) for row in rows)
    name = f"memory in MB beside what is in the cache, most in {where}"
    worst.append(goal(name, memory, MEMORY_MB, "<="))
    for name in ("lost", "twice"):
        value = sum(row["posts"][name] for row in rows)
        worst.append(goal(f"forms {name}", value, 0, "<="))
    worst.append(goal("ends of varnishd's worker", sum(row["panics"] for row in rows), 0, "<="))
    return worst


def table(rows: Iterable[Mapping[str, Any]]) -> str:
    """The attacks by connections as a table of docs/siege.md."""
    lines = [
        "| attack | addresses | hit, p99 | status path, p99 | memory | forms arrived | refused |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        hit, status = (f"{row['during'][kind]['p99_ms']:.0f} ms" for kind in ("hit", "status"))
        forms = f"{row['posts']['arrived']} | {row['posts']['refused']}"
        memory = f"{beside_cache_mb(row):.0f} MB"
        lines.append(
            f"| `{row['name']}` | {row['addresses']} | {hit} | {status} | {memory} | {forms} |"
        )
    return "\n".join(lines) + "\n"
