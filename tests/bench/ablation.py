"""What each part of the teacher is worth: python -m tests.bench.ablation OUTPUT.json [NAME...]

Every variant answers the questions of tests.bench.policy, on the real logs and on traffic
nobody tuned to (three weeks of each kind, and a third of the real clients); docs/deciding.md has
the table. Names narrow the variants.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest import mock

from naproxy.lab.estimate.bounds import Bounds, Sleeps
from naproxy.lab.estimate.cachemodel import CACHES
from naproxy.lab.estimate.lineup import Server, simulation
from naproxy.lab.estimate.traffic import Traffic
from naproxy.policy import Setup, teacher
from naproxy.policy.teacher import Candidates, Kind, ShadowPolicy

from tests.bench.policy import LOGS, QUESTIONS, Question, eligible, real_logs, unseen

DAYS = 21


@contextmanager
def _with(**constants: object) -> Iterator[None]:
    with ExitStack() as stack:
        for name, value in constants.items():
            stack.enter_context(mock.patch.object(teacher, name, value))
        yield


def kinds(*exponents: float, presence: tuple[bool, ...] = (False, True)) -> dict[str, Any]:
    """Return the constants for classes of all these exponents."""
    return {"KINDS": tuple(Kind(e, p) for p in presence for e in exponents)}


class _Crowd(Candidates):
    """Idle times grow with the number of clients seen within five minutes before the last need."""

    power = 1.0

    def __init__(self, kind: Kind, setup: Setup, *, closed: bool) -> None:
        super().__init__(kind, setup, closed=closed)
        self._around: OrderedDict[int, float] = OrderedDict()
        self._usual_s = list(self.idle_s)

    def see(self, t_s: float, client: int, *, needs: bool) -> None:
        super().see(t_s, client, needs=needs)
        around = self._around
        around[client] = t_s
        around.move_to_end(client)
        while t_s - next(iter(around.values())) > 300:
            around.popitem(last=False)
        if needs or self.kind.presence:
            scale = min(len(around), 16) ** self.power
            self.idle_s = [idle_s * scale for idle_s in self._usual_s]

    def best(self, most_delayed: float, most_cycles: float) -> tuple[float, float] | None:
        found = super().best(most_delayed, most_cycles)
        # The rule is kept in idle times of a lone client.
        return found and (found[0], self._usual_s[self.idle_s.index(found[1])])


class _CrowdPolicy(ShadowPolicy):
    """Scales the rule in force, too."""

    def decide(self, t_s: float) -> Any:
        kept = [(s, s.factor) for s in self._classes]
        self._time(t_s)
        for candidates, _ in kept:
            candidates.factor *= candidates.idle_s[0] / teacher.SHORTEST_S
        made = super().decide(t_s)
        for candidates, factor in kept:
            candidates.factor = factor
        return made


class _Untaught(ShadowPolicy):
    """The first day is like any other: nothing is spent before it was earned."""

    def __init__(self, settings: teacher.Settings, setup: Setup) -> None:
        super().__init__(settings, setup)
        self._lapsed = True


class _NoStore(ShadowPolicy):
    """Spends what there is, without anything in store against bad luck."""

    def _choose(self) -> None:
        with mock.patch.object(math, "sqrt", return_value=0.0):
            super()._choose()


class _Forgetful(ShadowPolicy):
    """The budget fades over four weeks, what is owed as well as what is saved up."""

    def _end_hour(self) -> None:
        super()._end_hour()
        self._budget *= math.exp(-3600 / (28 * 86400))


class _Steady(ShadowPolicy):
    """Aims at the promised share all the time, whatever was spent before."""

    def _choose(self) -> None:
        kept, self._budget = self._budget, math.sqrt(self._fraction * self._requests)
        super()._choose()
        self._budget = kept


Variant = tuple[Callable[[], Any], type[ShadowPolicy]]

VARIANTS: dict[str, Variant] = {
    "as it is": (_with, ShadowPolicy),
    "plain timeouts only": (lambda: _with(**kinds(0.0, presence=(False,))), ShadowPolicy),
    "no presence": (lambda: _with(**kinds(0.0, 3.0, presence=(False,))), ShadowPolicy),
    "no rhythm": (lambda: _with(**kinds(0.0)), ShadowPolicy),
    "rhythm to the power of 2": (lambda: _with(**kinds(0.0, 2.0)), ShadowPolicy),
    "rhythm to the powers of 1, 2, 3": (lambda: _with(**kinds(0.0, 1.0, 2.0, 3.0)), ShadowPolicy),
    "a first day like any other": (_with, _Untaught),
    "idle times up to 6 h": (lambda: _with(TIMEOUTS=28, LONGEST_S=6 * 3600.0), ShadowPolicy),
    "records of 4 days": (lambda: _with(_RECORD_S=4 * 86400.0), ShadowPolicy),
    "records of 14 days": (lambda: _with(_RECORD_S=14 * 86400.0), ShadowPolicy),
    "nothing in store": (_with, _NoStore),
    "a budget that fades": (_with, _Forgetful),
    "no catching up": (_with, _Steady),
    "patience with a crowd": (lambda: _with(Candidates=_Crowd), _CrowdPolicy),
}


def shares(
    traffic: Traffic, question: Question, whole_j: float, variant: Variant
) -> dict[str, float]:
    """Return share and what was spent of the promise from the second day on."""
    patched, kind = variant
    server = replace(Server(), wake_s=question.wake_s)
    case = question.case
    with patched():
        made = kind(teacher.Settings(counting=case.counting), server.setup(case.promise))
        run = simulation(made, CACHES[case.cache], server, case)
        for chunk in traffic:
            run.feed(chunk)
        outcome = run.finish()
    late = outcome.delayed_share_since_day_2(case.promise.delta_s, closed=case.closed)
    return {
        "share": outcome.saving_j(server.power) / whole_j if whole_j > 0 else 0.0,
        "spent": (late or 0.0) / case.promise.f,
    }


def whole(traffic: Traffic, question: Question) -> float:
    """Return the bound a question is about, in joules."""
    server = replace(Server(), wake_s=question.wake_s)
    found = Sleeps(
        CACHES[question.case.cache],
        wake_s=server.wake_s,
        delta_s=question.case.promise.delta_s,
        least_s=server.power.break_even_s,
    )
    for chunk in traffic:
        found.feed(chunk)
    bounds = Bounds(found, server.power)
    if question.of == "idealised":
        return bounds.idealised().saving_j
    return bounds.reactive(question.case.promise.f, closed=question.case.closed).saving_j


_logs: list[Traffic] = []  # inherited by the processes that work


def _job(job: tuple[int, Question, list[str]]) -> dict[str, dict[str, float]]:
    number, question, names = job
    most_j = whole(_logs[number], question)
    return {name: shares(_logs[number], question, most_j, VARIANTS[name]) for name in names}


def main() -> None:
    """Measure, and write the file."""
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        raise SystemExit("usage: python -m tests.bench.ablation OUTPUT.json [NAME...]")
    names = sys.argv[2:] or list(VARIANTS)
    results: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in names}
    with ExitStack() as stack:
        real = real_logs(stack)
        if not real:
            sys.stdout.write(f"no real logs in {LOGS}\n")
        quiet = [log for log in real if eligible(log)]
        _logs[:] = [*quiet, *unseen(real, stack, DAYS, fewer=True)]
        jobs = [(n, question, names) for question in QUESTIONS for n in range(len(_logs))]
        with ProcessPoolExecutor(mp_context=get_context("fork")) as pool:
            for (n, question, _), found in zip(jobs, pool.map(_job, jobs), strict=True):
                for name, made in found.items():
                    results[name].setdefault(question.key, {})[_logs[n].name] = made
                sys.stdout.write(f"{question.key}: {_logs[n].name}\n")
                sys.stdout.flush()
    means = {}
    real_names = {log.name for log in quiet}
    for name, asked in results.items():
        means[name] = {
            key: {
                "real": _mean([v for k, v in logs.items() if k in real_names]),
                "unseen": _mean([v for k, v in logs.items() if k not in real_names]),
                "broken": sum(v["spent"] > 1 for v in logs.values()),
            }
            for key, logs in asked.items()
        }
        line = "  ".join(
            f"{key} {m['real']:.3f}/{m['unseen']:.3f}{'!' * m['broken']}"
            for key, m in means[name].items()
        )
        sys.stdout.write(f"{name:<32}{line}\n")
    Path(sys.argv[1]).write_text(json.dumps({"means": means, "all": results}, indent=1) + "\n")


def _mean(found: list[dict[str, float]]) -> float:
    return statistics.fmean(v["share"] for v in found) if found else 0.0


if __name__ == "__main__":
    main()
