"""How much of what could be saved each policy saves: build/bench/policy.json.

On the real logs, which are not part of the project, where they are there; and always on
traffic nobody tuned to (synthetic.py). The goals are means over the real logs with fewer than
45,000 requests of people a day.
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from naproxy.core.state import Klass
from naproxy.lab.estimate import estimate, verdict
from naproxy.lab.estimate.bounds import Bounds, Sleeps
from naproxy.lab.estimate.cachemodel import CACHES
from naproxy.lab.estimate.lineup import ENTRANTS, Case, Promise, Server, simulation
from naproxy.lab.estimate.simulate import Outcome
from naproxy.lab.estimate.traffic import Traffic
from naproxy.policy.timeout import Settings, Timeout

from tests.bench import synthetic
from tests.bench.result import goal, output_path, write

LOGS = Path(__file__).parents[3] / "shared" / "logs"
SYNTHETIC_DAYS = 42
# The best of these in hindsight is the best fixed timeout.
TIMEOUTS_S = [2.0 * 1.25**n for n in range(46)]  # 2 s to 13 h


class Question(NamedTuple):
    """One of the issue's conditions."""

    key: str
    case: Case
    wake_s: float
    of: str  # the share of this bound
    wanted: float


def _question(key: str, cache: str, counting: str, f: float, wanted: float) -> Question:
    return Question(key, Case(cache, counting, Promise(f, 0.05)), 5.0, "reactive", wanted)


QUESTIONS = (
    _question("open frozen 10 %", "frozen", "open", 0.10, 0.75),
    _question("open frozen 5 %", "frozen", "open", 0.05, 0.64),
    _question("open frozen 1 %", "frozen", "open", 0.01, 0.47),
    _question("closed pages 5 %", "frozen-pages", "closed", 0.05, 0.80),
    _question("closed pages 1 %", "frozen-pages", "closed", 0.01, 0.70),
    Question("fast wake 1 %", Case("frozen", "open", Promise(0.01, 1.0)), 0.2, "idealised", 0.82),
)


CONTEST = ("teacher", "thesis")
BEST = "best timeout in hindsight"


class Figures(NamedTuple):
    """A policy's part in the answer to a question."""

    saved: float  # gross, of the server's energy
    share: float
    delayed: float  # share of all requests
    since_day_2: float  # the same from the second day on, over what was promised
    worst_since_day_2: float  # its highest at the end of any later day


def answers(traffic: Traffic, questions: Sequence[Question]) -> dict[str, dict[str, Any]]:
    """Measure all policies under questions with the same cache and wake time, in one pass."""
    server = replace(Server(), wake_s=questions[0].wake_s)
    cache, power = CACHES[questions[0].case.cache], server.power

    contest = {
        (question.key, name): simulation(
            ENTRANTS[name].make(server, question.case), cache, server, question.case
        )
        for question in questions
        for name in CONTEST
    }
    timeouts = {
        idle_s: simulation(Timeout(Settings(idle_s=idle_s)), cache, server, questions[0].case)
        for idle_s in TIMEOUTS_S
    }
    # Questions asked together have the same delta, too.
    sleeps = Sleeps(
        cache,
        wake_s=server.wake_s,
        delta_s=questions[0].case.promise.delta_s,
        least_s=power.break_even_s,
    )
    for chunk in traffic:
        sleeps.feed(chunk)
        for made in (*contest.values(), *timeouts.values()):
            made.feed(chunk)
    bounds = Bounds(sleeps, power)
    ideal_j = bounds.idealised().saving_j
    fixed = {idle_s: made.finish() for idle_s, made in timeouts.items()}
    played = {key: made.finish() for key, made in contest.items()}
    energy_j = power.on_w * traffic.span_s
    found = {}
    for question in questions:
        case = question.case
        reactive_j = bounds.reactive(case.promise.f, closed=case.closed).saving_j
        whole_j = ideal_j if question.of == "idealised" else reactive_j

        def measured(outcome: Outcome) -> dict[str, Any]:
            return _measured(outcome, case, power, whole_j, energy_j)._asdict()  # noqa: B023

        answer: dict[str, Any] = {name: measured(played[question.key, name]) for name in CONTEST}
        kept = [
            (outcome.saving_j(power), idle_s)
            for idle_s, outcome in fixed.items()
            if outcome.delayed(case.promise.delta_s, closed=case.closed)
            <= case.promise.f * outcome.requests
        ]
        if kept:
            _, idle_s = max(kept)
            answer[BEST] = {"idle_s": idle_s, **measured(fixed[idle_s])}
        answer["bound"] = {"reactive": reactive_j / energy_j, "idealised": ideal_j / energy_j}
        found[question.key] = answer
    return found


def _measured(outcome: Outcome, case: Case, power: Any, whole_j: float, energy_j: float) -> Figures:
    delayed = outcome.delayed(case.promise.delta_s, closed=case.closed)
    days = [*outcome.days, (outcome.requests, delayed)]
    first_requests, first_delayed = days[0]
    since = [
        (late - first_delayed) / (requests - first_requests) / case.promise.f
        for requests, late in days[1:]
        if requests > first_requests
    ]
    saved_j = outcome.saving_j(power)
    return Figures(
        saved_j / energy_j,
        saved_j / whole_j if whole_j > 0 else 0.0,
        delayed / max(1, outcome.requests),
        since[-1] if since else 0.0,
        max(since, default=0.0),
    )


def real_logs(stack: ExitStack) -> list[Traffic]:
    """Return the logs beside the project."""
    return [
        stack.enter_context(estimate.traffic_of(name, files, "learned"))
        for name, files in estimate.group([str(p) for p in sorted(LOGS.glob("*.log.gz"))])
    ]


def unseen(
    real: Sequence[Traffic], stack: ExitStack, days: int = SYNTHETIC_DAYS, *, fewer: bool = False
) -> Iterator[Traffic]:
    """Yield traffic that no choice was made on; `fewer` leaves out what is nearly the real logs."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="naproxy-bench-")))

    def made(name: str, asked: Iterable[synthetic.Asked]) -> Traffic:
        path = folder / str(len(list(folder.iterdir())))
        file = stack.enter_context(path.open("w+b"))
        return synthetic.traffic(name, iter(asked), file, path)

    for seed, (name, process) in enumerate(synthetic.PROCESSES.items()):
        yield made(name, process(random.Random(seed), days))
    quiet = [log for log in real if eligible(log)]
    for log in quiet:
        yield made(f"{log.name}, every third client", synthetic.thinned(log, 3))
        if not fewer:
            yield made(f"{log.name}, 7.3 h later", synthetic.shifted(log, 7.3))
    if fewer:
        return
    for first, second in zip(quiet, quiet[1:] + quiet[:1], strict=True):
        if first is not second:
            yield made(f"{first.name} and {second.name}", synthetic.merged(first, second))


def eligible(log: Traffic) -> bool:
    """Is it quiet enough for the box to be of use?"""
    return log.daily(Klass.PERSON, Klass.API) < verdict.BUSY_PER_DAY


def mean(results: dict[str, dict[str, Any]], names: Sequence[str], key: str) -> dict[str, float]:
    """Return the mean share of each policy under a question."""
    policies = (*CONTEST, BEST)
    return {
        policy: statistics.fmean(
            results[name][key].get(policy, {"share": 0.0})["share"] for name in names
        )
        for policy in policies
    }


def main() -> None:
    """Measure, and write the file."""
    path = output_path()
    with ExitStack() as stack:
        real = real_logs(stack)
        if not real:
            sys.stdout.write(f"no real logs in {LOGS}: only made ones are measured\n")
        every = [*real, *unseen(real, stack)]
        found = all_answers(every)
        results = {log.name: found[log.name] for log in real}
        others = {log.name: found[log.name] for log in every if log.name not in results}
        quiet = [log.name for log in real if eligible(log)]
    goals = []
    broken = 0
    for question in QUESTIONS:
        if quiet:
            value = mean(results, quiet, question.key)["teacher"]
            goals.append(
                goal(f"{question.key}: share of {question.of}", value, question.wanted, ">=")
            )
    for found in (results | others).values():
        broken += sum(found[q.key]["teacher"]["since_day_2"] > 1 for q in QUESTIONS)
    goals.append(goal("promises broken from the second day on", broken, 0, "<="))
    write(
        path,
        goals,
        {
            "logs": results,
            "unseen": others,
            "mean": {q.key: mean(results, quiet, q.key) for q in QUESTIONS if quiet},
            "mean_unseen": {q.key: mean(others, list(others), q.key) for q in QUESTIONS},
            "averaged": quiet,
        },
    )


_logs: list[Traffic] = []  # inherited by the processes that work


def all_answers(logs: list[Traffic]) -> dict[str, dict[str, Any]]:
    """Ask all questions of all logs, in as many processes as there are cores."""
    _logs[:] = logs
    asked: dict[tuple[str, float], list[Question]] = {}
    for question in QUESTIONS:
        asked.setdefault((question.case.cache, question.wake_s), []).append(question)
    jobs = [(n, together) for n in range(len(logs)) for together in asked.values()]
    found: dict[str, dict[str, Any]] = {
        log.name: {"requests_a_day": log.daily(Klass.PERSON, Klass.API)} for log in logs
    }
    with ProcessPoolExecutor(mp_context=get_context("fork")) as pool:
        for (n, _), made in zip(jobs, pool.map(_job, jobs), strict=True):
            found[logs[n].name] |= made
            for key, answer in made.items():
                _tell(logs[n].name, key, answer)
    return found


def _job(job: tuple[int, list[Question]]) -> dict[str, dict[str, Any]]:
    number, questions = job
    return answers(_logs[number], questions)


def _tell(log: str, key: str, answer: dict[str, Any]) -> None:
    ours, best = answer["teacher"], answer.get(BEST, {"share": 0.0})
    sys.stdout.write(
        f"{log:<34}{key:<18}share {ours['share']:.3f}"
        f"  spent {ours['since_day_2']:.2f}  worst {ours['worst_since_day_2']:.2f}"
        f"  thesis {answer['thesis']['share']:.3f}  best timeout {best['share']:.3f}\n"
    )
    sys.stdout.flush()


if __name__ == "__main__":
    main()
