"""The thesis' figures of a log, against calculations of their own over its lines."""

import random
import time
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from statistics import mean, median
from typing import NamedTuple

import pytest
from naproxy.core.classify import THESIS_CRAWLERS, Agents
from naproxy.core.energy import Power
from naproxy.lab.estimate.chapter4 import KINDS, as_json, figures
from naproxy.lab.estimate.estimate import traffic_of
from naproxy.lab.estimate.figures import gather

START_S = 1_700_470_800  # a Monday, 9:00
SPAN_S = 16 * 86400
CHROME = "Mozilla/5.0 (X11; Linux x86_64) Chrome/126.0.0.0"
AGENTS = (CHROME, CHROME, "Googlebot/2.1", "AhrefsBot/7.0", "bingbot/2.0", "Uptime-Kuma/1.23.3")


class Line(NamedTuple):
    """One request."""

    t_s: int
    path: str
    agent: str

    @property
    def robot(self) -> bool:
        return self.agent != CHROME

    def text(self) -> str:
        when = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(self.t_s))
        return f'192.0.2.1 - - [{when}] "GET {self.path} HTTP/1.1" 200 100 "-" "{self.agent}"\n'


@pytest.fixture(scope="module")
def lines() -> list[Line]:
    chance = random.Random(4)
    found, t_s = [], START_S
    while t_s < START_S + SPAN_S:
        path = chance.choice(("/", "/news", "/a.css", "/b.png", "/c.js"))
        # People come later than robots, and are gone before: the ends of the log are pauses, too.
        quiet = t_s < START_S + 20_000 or t_s > START_S + SPAN_S - 20_000
        found.append(Line(t_s, path, chance.choice(AGENTS[2:] if quiet else AGENTS)))
        t_s += 1 + int(chance.expovariate(1 / chance.choice((3, 60, 900))))
    return found


def needing(lines: list[Line], *, robots: bool, cached: bool) -> list[int]:
    """Return when the server is needed, by the words of the thesis."""
    fetched_s: dict[str, int] = {}
    found = []
    for line in lines:
        if line.robot and not robots:
            continue
        if cached and line.path.endswith((".css", ".png", ".js")):
            if line.t_s - fetched_s.get(line.path, -1000) < 120:
                continue
            fetched_s[line.path] = line.t_s
        found.append(line.t_s)
    return found


def test_figures_of_a_log_are_those_of_an_independent_calculation(
    lines: list[Line], tmp_path: Path
) -> None:
    log = tmp_path / "log"
    log.write_text("".join(line.text() for line in lines))
    power = Power()
    with traffic_of("log", [str(log)], "declared") as traffic:
        data = gather(traffic).chapter4
        found = as_json(data, traffic.span_s, power)
        drawn = list(figures(data, traffic.span_s, power))
    assert [f"Figure {n}:" in svg for n, svg in zip(found, drawn, strict=False)] == [True] * 7

    for number, robots, cached in (
        ("4.4", True, False),
        ("4.5", True, True),
        ("4.6", False, False),
    ):
        times = needing(lines, robots=robots, cached=cached)
        counts = Counter(b - a for a, b in pairwise(times) if b > a)
        assert {gap: n for gap, n in found[number] if gap < 1000} == {
            gap: n for gap, n in counts.items() if gap < 1000
        }, number
        assert sum(n for _, n in found[number]) == counts.total(), number

    first, last = lines[0].t_s, lines[-1].t_s
    for number, kinds in (("4.8", KINDS[:2]), ("4.9", KINDS)):
        assert list(found[number]) == [kind.name for kind in kinds]
        for kind in kinds:
            times = [first, *needing(lines, **kind._asdict()), last]
            for threshold, kwh in found[number][kind.name]:
                joules = 0.0
                for a, b in pairwise(times):
                    slept = b - a >= threshold
                    joules += (b - a) * 1.6 + 170.7 if slept else (b - a) * 43.3
                # Lengths of 1,000 s and more are kept to three digits.
                assert kwh == pytest.approx(joules / 3.6e6, rel=2e-3), (number, kind, threshold)

    for number, middle in (("4.2", median), ("4.3", mean)):
        for name, robots_only in (("all", False), ("robots", True)):
            by_hour = Counter(line.t_s // 3600 for line in lines if line.robot or not robots_only)
            weekly = defaultdict(list)
            for hour in range(first // 3600, last // 3600 + 1):
                when = time.gmtime(hour * 3600)
                weekly[when.tm_wday * 24 + when.tm_hour].append(by_hour[hour])
            expected = [middle(weekly[n]) for n in range(168)]
            assert found[number][name] == pytest.approx(expected), (number, name)

    rest = [line for line in lines if not line.agent.startswith(("Googlebot", "bingbot"))]
    robots = sum(line.robot for line in rest)
    expected_share = pytest.approx(robots / len(rest))
    assert found["unlisted"] == {
        "requests": len(rest),
        "robots": robots,
        "share": expected_share,
    }
    assert all(Agents.thesis().klass(name).robot for name in THESIS_CRAWLERS)
