"""Savings in hindsight at this office: bounds and other rules over the recorded requests.

The same functions as those of `naproxy estimate`, fed by the history instead of a log. It takes
long on a small box, so `python -m naproxy.lab.estimate.hindsight DATA_DIR` is a process of its
own: a question as JSON on standard input, the answer as JSON on standard output,
`{"share": 0..1}` a line on standard error. A question with `"choices": true` is answered with the
three cards of waits, from the recorded requests or, without a day of them, from an example.

The recorded hits stay hits, even if another rule would have left other content in the cache.
Times are those at which requests came, also of people who had waited just before.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import sys
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from naproxy.core.energy import Power, idealised
from naproxy.core.hours import zone
from naproxy.core.rates import Rates, rates
from naproxy.core.state import Klass
from naproxy.core.waiting import DEFAULT
from naproxy.history.read import carbon, recorded
from naproxy.history.read.queries import open_history
from naproxy.history.read.recorded import Requests
from naproxy.history.visits import NEEDED, PAGE_LOAD, PROGRAM, SENT_AWAY
from naproxy.lab.estimate import choices
from naproxy.lab.estimate.cachemodel import NEVER, RECORDED
from naproxy.lab.estimate.example import example
from naproxy.lab.estimate.lineup import (
    BOUNDS,
    ENTRANTS,
    OURS,
    Case,
    Choice,
    Compared,
    Promise,
    Row,
    Server,
    Told,
    compare,
    outcome_row,
    simulation,
)
from naproxy.lab.estimate.progress import once_a_percent, say_json
from naproxy.lab.estimate.traffic import CHUNK, PAGE_LOAD_FLAG, Chunk, Traffic
from naproxy.policy import timeout

POLICIES: Final = tuple(ENTRANTS)

COUNTING: Final = "closed"
MOST_REQUESTS: Final = 150_000
"""Of more, only the newest are gone through."""

PAUSE_S: Final = 900.0
"""A shorter time that the box did not watch is taken for quiet: it was restarted."""

LEAST_S: Final = 3600.0
LEAST_FOR_CHOICES_S: Final = 86400.0
"""Less than a day does not know a night."""
BACK_S: Final = 60.0
"""The waiting page has brought a person back after so long."""

THRESHOLDS_S: Final = (
    *(5.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 90.0, 120.0, 180.0, 300.0, 450.0, 600.0),
    *(900.0, 1200.0, 1800.0, 2700.0, 3600.0, 5400.0, 7200.0, 14400.0, 28800.0),
)
FRACTIONS: Final = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)

_SHARES: Final = (0.55, 0.8, 1.0)
"""How far it is after the policies, the thresholds, the bounds."""


class NotEnoughError(ValueError):
    """Nothing can be said of this range, and why."""


@dataclass(frozen=True, slots=True)
class Question:
    """Which requests, and the server and promise that they are gone through with."""

    server: str
    from_s: float
    to_s: float
    setup: Server
    promise: Promise
    policies: Sequence[str] = POLICIES
    rates: Rates = field(default_factory=lambda: rates({}, UTC))
    price: float | None = None
    """Price of a kWh, mean of the coming year, for the choices' money."""

    @classmethod
    def read(cls, said: Mapping[str, Any], co2: Mapping[int, float] | None = None) -> Question:
        """Return the question in JSON; KeyError, TypeError or ValueError if it is malformed.

        `co2`: its recorded values, in the form of `core.rates`.
        """
        policies = tuple(said.get("policies") or POLICIES)
        unknown = set(policies) - set(POLICIES)
        if unknown:
            raise ValueError(f"there is no policy {min(unknown)}")
        return cls(
            server=str(said["server"]),
            from_s=float(said["from_s"]),
            to_s=float(said["to_s"]),
            setup=Server(
                Power(**{name: float(value) for name, value in said["power"].items()}),
                wake_s=float(said["wake_s"]),
                sleep_s=float(said["sleep_s"]),
                utc_offset=str(said.get("utc_offset", "+00:00")),
            ),
            promise=Promise(float(said["promise"]["f"]), float(said["promise"]["delta_s"])),
            policies=policies,
            rates=rates(said.get("rates", {}), zone(str(said.get("time_zone", ""))), co2),
            price=None if said.get("price") is None else float(said["price"]),
        )


def span_of(
    db: sqlite3.Connection, server: str, from_s: float, to_s: float
) -> tuple[float, float, float, bool]:
    """Return from, to, all seconds watched, and whether it was cut to the newest requests."""
    spans = recorded.watched(db, server, from_s, to_s, PAUSE_S)
    watched_s = sum(span.to_s - span.from_s for span in spans)
    if not spans:
        raise NotEnoughError("no requests were recorded in this time")
    longest = max(spans, key=lambda span: span.to_s - span.from_s)
    begin_s, end_s = longest.from_s, longest.to_s
    newest_s = recorded.newest(db, server, begin_s, end_s, MOST_REQUESTS)
    if end_s - max(begin_s, newest_s) < LEAST_S:
        raise NotEnoughError("less than an hour was recorded without a pause in this time")
    return max(begin_s, newest_s), end_s, watched_s, newest_s > begin_s


def without_returns(found: Requests) -> list[int]:
    """Return which requests people made themselves: not those of the waiting page.

    It comes back by itself once the server is up, and asks for the same page again.
    """
    kept: list[int] = []
    sent_s: dict[int, float] = {}  # client -> when it was sent to the waiting page
    rows = zip(found.t_s, found.client, found.flags, strict=True)
    for index, (t_s, client, flags) in enumerate(rows):
        back = bool(flags & PAGE_LOAD) and t_s - sent_s.get(client, -BACK_S) < BACK_S
        if flags & SENT_AWAY:
            sent_s[client] = t_s
        elif back:
            del sent_s[client]
        if not back:
            kept.append(index)
    return kept


def chunks(found: Requests, from_s: float, to_s: float) -> Iterator[Chunk]:
    """Yield the requests as a log's; its ends, which are nobody's requests, are robots'."""
    chunk = Chunk()
    chunk.append(from_s)
    for index in without_returns(found):
        flags = found.flags[index]
        chunk.append(
            found.t_s[index],
            found.client[index],
            klass=Klass.API if flags & PROGRAM else Klass.PERSON,
            flags=PAGE_LOAD_FLAG if flags & PAGE_LOAD else 0,
            age_s=NEVER if flags & NEEDED else 0.0,
        )
        if len(chunk) == CHUNK:
            yield chunk
            chunk = Chunk()
    chunk.append(to_s)
    yield chunk


@contextmanager
def traffic_of(
    db: sqlite3.Connection, server: str, from_s: float, to_s: float
) -> Iterator[Traffic]:
    """Return the recorded requests as the estimator's traffic; they are gone afterwards."""
    with Traffic.temporary(server) as traffic:
        for chunk in chunks(recorded.requests(db, server, from_s, to_s), from_s, to_s):
            traffic.add(chunk)
        traffic.trust.see(from_s)
        traffic.trust.see(to_s)
        yield traffic


def answer(db: sqlite3.Connection, asked: Question, told: Told = lambda _: None) -> dict[str, Any]:
    """Go through the requests; NotEnoughError, in words, if there are too few.

    `span` is the analysed time: the longest part of the range that was watched without a pause.
    `watched_s` is the watched time of the whole range. `cut` says that the range has more requests
    than can be analysed.
    """
    from_s, to_s, watched_s, cut = span_of(db, asked.server, asked.from_s, asked.to_s)
    with traffic_of(db, asked.server, from_s, to_s) as traffic:
        rows = compare(
            traffic,
            asked.setup,
            Choice([RECORDED.name], [COUNTING], [asked.promise], (*BOUNDS, *asked.policies)),
            told=lambda share: told(_SHARES[0] * share),
        )
        needs = _needs(traffic)
        curve = thresholds(traffic, needs, asked, lambda share: told(_between(0, share)))
        costs = compared(traffic, needs, asked, curve)
        promises = [Promise(f, asked.promise.delta_s) for f in FRACTIONS]
        budgets = compare(
            traffic,
            asked.setup,
            Choice([RECORDED.name], [COUNTING], promises, BOUNDS[:2]),
            told=lambda share: told(_between(1, share)),
        )
        requests = traffic.requests[Klass.PERSON] + traffic.requests[Klass.API]
    span = {"from_s": from_s, "to_s": to_s, "requests": requests, "needs": len(needs) - 2}
    return {
        "span": {**span, "watched_s": watched_s, "cut": cut},
        "rows": rows,
        "thresholds": curve,
        "costs": costs,
        "budgets": budgets,
    }


def cards(db: sqlite3.Connection, asked: Question, told: Told = lambda _: None) -> dict[str, Any]:
    """Return the gain of each choice of waits, and the source of its figures.

    Requests that an always-on server answered count as needing it: it makes no difference whether
    the box had ever put it to sleep.
    """
    try:
        from_s, to_s, _, _ = span_of(db, asked.server, asked.from_s, asked.to_s)
    except NotEnoughError:
        from_s = to_s = 0.0
    watched = to_s - from_s >= LEAST_FOR_CHOICES_S
    with traffic_of(db, asked.server, from_s, to_s) if watched else example() as traffic:
        offered = choices.promises(asked.setup.wake_s)
        choice = Choice(
            [RECORDED.name],
            [COUNTING],
            [offered[DEFAULT]],
            [OURS],
            list(offered.values()),
        )
        rows = compare(traffic, asked.setup, choice, told=told)
        found = choices.cards(Compared(traffic, asked.setup, choice, rows, asked.price))
        return {
            "source": "watched" if watched else "example",
            "days": traffic.span_s / 86400,
            "requests": traffic.requests[Klass.PERSON] + traffic.requests[Klass.API],
            "choices": [asdict(each) for each in found],
        }


def _between(stage: int, share: float) -> float:
    return _SHARES[stage] + (_SHARES[stage + 1] - _SHARES[stage]) * share


def _needs(traffic: Traffic) -> array[float]:
    """Return when the server was needed, and the ends of the time."""
    found = array("d", [traffic.trust.first_s])
    for chunk in traffic:
        rows = chunk.awaited(RECORDED)
        found.extend(t for t, end in zip(rows.t_s, rows.expires_s, strict=True) if end < t)
    found.append(traffic.trust.last_s)
    return found


def thresholds(
    traffic: Traffic, needs: Sequence[float], asked: Question, told: Told = lambda _: None
) -> list[Row]:
    """Return energy and delays over the threshold: the thesis' figures 4.8 and 4.9.

    The idealised model (section 4.4), and a server that sleeps after so long without need.
    """
    case = Case(RECORDED.name, COUNTING, asked.promise)
    server = asked.setup
    always_j = server.power.on_w * (needs[-1] - needs[0])
    gaps_s = [b - a for a, b in pairwise(needs)]
    found = []
    for number, threshold_s in enumerate(THRESHOLDS_S):
        sleeper = timeout.Timeout(timeout.Settings(idle_s=threshold_s))
        run = simulation(sleeper, RECORDED, server, case)
        for chunk in traffic:
            run.feed(chunk)
        times = idealised(gaps_s, threshold_s)
        row = outcome_row(run.finish(), server.power, case)
        ideal_j = server.power.saving_j(times.off_s, times.switches)
        found.append({"threshold_s": threshold_s, "idealised_gross": ideal_j / always_j, **row})
        told((number + 1) / len(THRESHOLDS_S))
    return found


Sleeps = Sequence[tuple[float, float]]


def cost(sleeps: Sleeps, span: tuple[float, float], asked: Question) -> dict[str, Any]:
    """Return `energy_j`, `money` and `co2_g` of a server that sleeps so, each time at its rates.

    Awake and waking it draws P_on, else P_off; E_switch is taken when it falls asleep.
    """
    power, known = asked.setup.power, asked.rates
    from_s, to_s = span
    energy_j = power.on_w * (to_s - from_s)
    worth = known.per_kwh(from_s, to_s).of(energy_j)
    for begin_s, up_s in sleeps:
        end_s = max(begin_s, min(up_s, to_s))
        saved_j = power.saved_w * (end_s - begin_s)
        energy_j += power.switch_j - saved_j
        worth += known.per_kwh(begin_s, begin_s).of(power.switch_j)
        worth -= known.per_kwh(begin_s, end_s).of(saved_j)
    return {"energy_j": energy_j, **asdict(worth)}


def compared(
    traffic: Traffic, needs: Sequence[float], asked: Question, curve: Sequence[Row]
) -> dict[str, Any]:
    """Return what the server would have drawn always on, by the idealised model (section 4.4), and
    with the best timeout that keeps the promise; None where none does.
    """
    span = needs[0], needs[-1]
    least_s = asked.setup.power.break_even_s
    gaps = [(a, b) for a, b in pairwise(needs) if b - a >= least_s]
    keep = [row for row in curve if row["delayed_fraction"] <= asked.promise.f]
    best = max(keep, key=lambda row: float(row["saving_gross"]), default=None)
    timeout_ = None
    if best is not None:
        sleeper = timeout.Timeout(timeout.Settings(idle_s=best["threshold_s"]))
        case = Case(RECORDED.name, COUNTING, asked.promise)
        run = simulation(sleeper, RECORDED, asked.setup, case)
        slept: list[tuple[float, float]] = []
        run.slept = lambda begin_s, up_s: slept.append((begin_s, up_s))
        for chunk in traffic:
            run.feed(chunk)
        run.finish()
        shown = {name: best[name] for name in ("threshold_s", "delayed_fraction")}
        timeout_ = {**cost(slept, span, asked), **shown}
    return {
        "always": cost((), span, asked),
        "idealised": cost(gaps, span, asked),
        "timeout": timeout_,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Answer the question on standard input."""
    parser = argparse.ArgumentParser(
        prog="python -m naproxy.lab.estimate.hindsight", description=__doc__
    )
    parser.add_argument("data_dir", type=Path, metavar="DATA_DIR", help="where history.db is")
    args = parser.parse_args(arguments)
    try:
        said = json.load(sys.stdin)
        with closing(open_history(args.data_dir)) as db:
            asked = Question.read(said, carbon.hours(db))
            told = once_a_percent(lambda share: say_json({"share": share}))
            found = (cards if said.get("choices") else answer)(db, asked, told)
    except NotEnoughError as error:
        found = {"not_enough": str(error)}
    except (AttributeError, KeyError, TypeError, ValueError, sqlite3.Error) as error:
        print(f"hindsight: {error!r}", file=sys.stderr)
        return 2
    json.dump(found, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
