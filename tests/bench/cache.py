"""What the cache is worth: build/bench/cache.json.

Every log under the box's own policy at two promises, and under a plain timeout, with each cache:
the thesis' (`thesis`), the box as it was before it froze anything (`box-default`), a new box
(`box-frozen`: files warmed and frozen), one whose office says that pages do not change by
themselves (`box-pages`), and mode aggressive. Without warming nothing is frozen: `box-default` is
also what warming is compared with.

Wakes can be compared in three ways, and all are given. *A day*: under the box's own policy that is
what the promise allows, whatever the cache; a better cache makes longer sleeps of it. *For each
hour asleep*: the wakes that the sleep costs. *At the same idle time*: the server falls asleep after
60 s in which nobody needed it.

Judged on the real logs, where they are there, and on traffic that no choice was made on.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from naproxy.lab.estimate.lineup import ENTRANTS, Case, Promise, Server, simulation
from naproxy.lab.estimate.traffic import Traffic
from naproxy.policy.timeout import Settings, Timeout

from tests.bench.policy import LOGS, eligible, real_logs, unseen
from tests.bench.result import goal, output_path, write

DAYS = 21
CACHES = ("thesis", "box-default", "box-frozen", "box-pages", "box-aggressive")
PROMISES = {"1 %, 1 s": Promise(0.01, 1.0), "5 %, 50 ms": Promise(0.05, 0.05)}
FIRST = "1 %, 1 s"
IDLE = "idle 60 s"
NEW, SHIPPED, THESIS = "box-frozen", "box-default", "thesis"


def measured(log: Traffic) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the figures of each cache under each policy, in one pass over the log."""
    server = Server()
    runs = {}
    for cache in CACHES:
        for name, promise in (*PROMISES.items(), (IDLE, PROMISES[FIRST])):
            case = Case(cache, "closed", promise)
            made = ENTRANTS["teacher"].make(server, case)
            if name == IDLE:
                made = Timeout(Settings(idle_s=60.0))
            runs[name, cache] = case, simulation(made, server.cache(cache), server, case)
    for chunk in log:
        for _, run in runs.values():
            run.feed(chunk)
    power, found = server.power, dict[str, dict[str, dict[str, Any]]]()
    for (name, cache), (case, run) in runs.items():
        outcome = run.finish()
        saving_j, whole_j = outcome.saving_j(power), power.on_w * outcome.span_s
        days = outcome.span_s / 86400
        found.setdefault(name, {})[cache] = {
            "answered_asleep": outcome.answered_share,
            "wakes_a_day": outcome.cycles / days,
            "wakes_an_hour_asleep": outcome.cycles / max(outcome.off_s / 3600, 1e-9),
            "asleep": outcome.off_s / outcome.span_s,
            "saving_gross": saving_j / whole_j,
            "saving_net": saving_j / whole_j - power.proxy_w / power.on_w,
            "saving_kj_a_day": saving_j / 1000 / days,
            "delayed": outcome.delayed_share(case.promise.delta_s, closed=True),
            "warm_fetches_a_day": outcome.warm_fetches / days,
            "warm_mb_a_day": outcome.warm_bytes / 1e6 / days,
            "warm_s_a_day": outcome.warm_s / days,
            "warm_kj_a_day": outcome.warm_s * power.saved_w / 1000 / days,
        }
    for rows in found.values():
        for row in rows.values():
            if row["warm_fetches_a_day"]:
                row.update(warming(row, rows[SHIPPED]))
    return found


def warming(warm: dict[str, Any], cold: dict[str, Any]) -> dict[str, Any]:
    """Return what warming brought, beside a box that does not."""
    spent_kj = warm["warm_kj_a_day"]
    saves_kj = warm["saving_kj_a_day"] - cold["saving_kj_a_day"] + spent_kj
    avoided = cold["wakes_a_day"] - warm["wakes_a_day"]
    return {
        "wakes_avoided_per_mb": avoided / warm["warm_mb_a_day"],
        "warm_share_of_what_it_saves": spent_kj / saves_kj if saves_kj > 0 else None,
        "warm_share_of_all_saved": spent_kj / max(warm["saving_kj_a_day"], 1e-9),
    }


Found = dict[str, dict[str, dict[str, dict[str, Any]]]]


def fewer(found: Found, names: Sequence[str], ours: str, policy: str, key: str) -> float:
    """Return by how much fewer wakes there are than with the thesis' cache; mean of the logs."""
    shares = [found[n][policy][ours][key] / found[n][policy][THESIS][key] for n in names]
    return 1 - statistics.fmean(shares)


def spent(found: Found, names: Sequence[str], policy: str) -> float:
    """Return the energy of warming over what it saves, of all these logs together."""
    rows = [(found[n][policy][NEW], found[n][policy][SHIPPED]) for n in names]
    spent_kj = sum(warm["warm_kj_a_day"] for warm, _ in rows)
    saves_kj = sum(w["saving_kj_a_day"] - c["saving_kj_a_day"] for w, c in rows) + spent_kj
    return spent_kj / saves_kj if saves_kj > 0 else 1.0


def times_net(found: Found, names: Sequence[str], ours: str) -> float:
    """Return the mean net saving over that of the box as it ships."""
    new, shipped = (
        statistics.fmean(found[n][FIRST][cache]["saving_net"] for n in names)
        for cache in (ours, SHIPPED)
    )
    return new / shipped if shipped > 0 else 0.0


def goals_of(found: Found, names: Sequence[str], of: str) -> list[dict[str, Any]]:
    """Return what was to be reached, on some logs."""
    made = []
    for ours in (NEW, "box-pages", "box-aggressive"):
        made += [
            goal(
                f"{of}: {ours}: fewer wakes an hour asleep than the thesis' cache, {policy}",
                fewer(found, names, ours, policy, "wakes_an_hour_asleep"),
                0.30,
                ">=",
            )
            for policy in (*PROMISES, IDLE)
        ]
        name = f"{of}: {ours}: net saving over the shipped box's, {FIRST}"
        made.append(goal(name, times_net(found, names, ours), 2.0, ">="))
    for policy in (FIRST, IDLE):
        name = f"{of}: energy of warming over what it saves, {policy}"
        made.append(goal(name, spent(found, names, policy), 0.02, "<="))
    return made


def main() -> None:
    """Measure, and write the file."""
    path = output_path()
    goals, logs = [], dict[str, Found]()
    with ExitStack() as stack:
        real = real_logs(stack)
        if not real:
            sys.stdout.write(f"no real logs in {LOGS}: only made ones are measured\n")
        others = list(unseen(real, stack, DAYS, fewer=True))
        quiet = [log.name for log in real if eligible(log)]
        for of, some in (("real", real), ("others", others)):
            logs[of] = {}
            for log in some:
                logs[of][log.name] = measured(log)
                _tell(log.name, logs[of][log.name])
        if quiet:
            goals += goals_of(logs["real"], quiet, "real")
        goals += goals_of(logs["others"], list(logs["others"]), "others")
    write(path, goals, {**logs, "averaged": quiet, "days_of_made": DAYS})


def _tell(log: str, found: dict[str, dict[str, dict[str, Any]]]) -> None:
    for policy, rows in found.items():
        for cache, row in rows.items():
            sys.stdout.write(
                f"{log:<28}{policy:<12}{cache:<16}answered {row['answered_asleep']:4.0%}"
                f"  wakes a day {row['wakes_a_day']:7.1f},"
                f" an hour asleep {row['wakes_an_hour_asleep']:6.2f}"
                f"  net {row['saving_net']:6.1%}  delayed {row['delayed']:.2%}"
                f"  warm {row['warm_s_a_day']:7.1f} s, {row['warm_mb_a_day']:6.1f} MB a day\n"
            )
    sys.stdout.flush()


if __name__ == "__main__":
    main()
