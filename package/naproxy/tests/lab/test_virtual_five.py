"""The thesis' five configurations in virtual time."""

import random
from collections import deque
from pathlib import Path
from statistics import fmean

import pytest
from naproxy.core.classify import Agents
from naproxy.core.energy import Power
from naproxy.lab.estimate.accesslog import Log
from naproxy.lab.estimate.logline import Entry
from naproxy.lab.replay.replay_slice import Planned, Point, Slice, plan
from naproxy.lab.replay.virtual import FIVE, SPAN_S, THESIS, Found, rows, run, stretches

CHROME = "Mozilla/5.0 (X11; Linux x86_64) Chrome/126.0.0.0"
BPGOV = Path(__file__).parents[5] / "shared/logs/bpgov.log.gz"
SLEEP = FIVE[3]


def requests(seed: int = 1, length_s: int = 40_000) -> list[Planned]:
    """Make requests with long and short gaps, at most one in a second."""
    chance = random.Random(seed)
    found: list[Planned] = []
    t_s = 0
    while t_s < length_s:
        agent = chance.choice((CHROME, CHROME, "Googlebot/2.1"))
        path = chance.choice(("/", "/news", "/a.css", "/b.png"))
        status = chance.choice((200, 200, 200, 404))
        entry = Entry(t_s, "192.0.2.1", "GET", path, status, 100, "", agent)
        found.append(Planned(len(found) + 1, float(t_s), entry))
        t_s += 1 + int(chance.expovariate(1 / chance.choice((2, 2, 2, 2, 2, 2, 10, 300))))
    return found


def stepped(planned: list[Planned], length_s: int, grace_s: float) -> tuple[float, int, int]:
    """Step through the fourth configuration by tenths of a second, by the words of the thesis.

    Returns seconds off, switches, and robots told to come back.
    """
    at = {round(each.at_s * 10): each.entry for each in planned}
    window: deque[float] = deque(maxlen=10)
    fetched_s: dict[str, float] = {}
    state, until_s, awake_s, begun_s = "awake", 0.0, 0.0, 0.0
    off_s, switches, robots, total, delayed = 0.0, 0, 0, 0, 0
    for tick in range(length_s * 10):
        now_s = tick / 10
        if state == "falling" and now_s >= until_s:
            state = "asleep"
        if state == "waking" and now_s >= until_s:
            state, awake_s = "awake", now_s
        entry = at.get(tick)
        if entry is not None:
            robot = "Googlebot" in entry.agent
            file = entry.path.endswith((".css", ".png"))
            age_s = now_s - fetched_s.get(entry.path, 1e9) if file else 1e9
            hit = 0 <= age_s < 120 + grace_s
            wait_s = 0.0
            if not hit and state != "awake" and robot:
                robots += 1
                continue
            if not hit and state in ("falling", "asleep"):
                up_s = max(now_s, until_s)
                off_s += up_s - begun_s
                state, until_s = "waking", up_s + 5
            if not hit and state == "waking":
                wait_s = until_s - now_s
            if file and (not hit or (state == "awake" and age_s >= 120)):
                fetched_s[entry.path] = now_s + wait_s
            if not robot:
                total += 1
                delayed += wait_s > 0.05
                if not hit:
                    window.append(now_s)
        if state == "awake" and now_s - awake_s >= 60:
            idle = not window or now_s - window[-1] >= 5
            gap_s = (now_s - window[0]) / len(window) if window else 1e9
            coming = 5 / max(gap_s, 1e-9)
            if (
                idle
                and gap_s > 170.7 / (43.3 - 1.6)
                and (total == 0 or delayed + coming <= 0.1 * (total + coming))
            ):
                state, until_s, begun_s = "falling", now_s + 5, now_s
                switches += 1
    if state in ("falling", "asleep"):
        off_s += length_s - begun_s
    return off_s, switches, robots


def test_virtual_time_is_what_a_clock_of_tenths_of_a_second_finds() -> None:
    for seed in (1, 2, 3):
        planned = requests(seed)
        [found] = run(planned, 40_000, Agents(), configurations=[SLEEP])
        off_s, switches, robots = stepped(planned, 40_000, 3600)
        assert switches > 10, seed
        assert found.switches == switches, seed
        assert found.robots == robots, seed
        assert found.off_s == pytest.approx(off_s, abs=0.2 * switches), seed
        joules = (40_000 - off_s) * 43.3 + off_s * 1.6 + switches * 170.7 + 40_000 * 5
        assert found.net_saving(Power()) == pytest.approx(1 - joules / 1_732_000, abs=0.002), seed


def by_name(found: Found) -> dict[str, float | int | None]:
    return dict(rows(found))


def test_each_configuration_has_the_17_rows_of_table_4_3() -> None:
    found = run(requests(), 40_000, Agents(), malformed=3)
    assert [each.configuration for each in found] == list(FIVE)
    for number, each in enumerate(found):
        made = by_name(each)
        assert list(made) == list(THESIS)
        assert len(made) == 17
        for name, cells in THESIS.items():
            assert (made[name] is None) == (cells[number] is None), (name, number)
        served = [made[name] or 0 for name in ("served by the server", "answered by the proxy")]
        assert made["requests"] == sum(served) + 3
        fates = ("HTTP 200", "HTTP 404", "HTTP 503", "robots told to come back", "waiting pages")
        assert made["requests"] == sum(made[name] or 0 for name in fates) + 3
    none, default, aggressive, sleeping, paged = found
    assert none.net_saving(Power()) == 0
    assert default.by_cache < aggressive.by_cache
    assert sleeping.net_saving(Power()) == paged.net_saving(Power()) > 0
    assert paged.surveys == sum(paged.replayed.values()) > 0
    assert paged.mean_wait_s < sleeping.mean_wait_s
    assert len(sleeping.delays_s()) == sleeping.by_server + sleeping.by_cache
    with_pages = run(requests(), 40_000, Agents(), pages=True)
    for few, more in zip(found[1:], with_pages[1:], strict=True):
        assert few.by_cache < more.by_cache, few.configuration.name


def test_the_rows_of_the_thesis_add_up_as_ours_do() -> None:
    for number in range(5):
        cells = {name: values[number] or 0 for name, values in THESIS.items()}
        served = cells["served by the server"] + cells["answered by the proxy"]
        assert cells["requests"] == served + 7, number


def test_whole_stretches_only_are_cut_out() -> None:
    entries = [each.entry for each in requests(length_s=250_000)]
    parts = list(stretches(entries))
    assert len(parts) == 2
    assert all(part[-1].at_s < SPAN_S for part in parts)
    assert parts[1][0].entry.t_s >= SPAN_S > parts[0][-1].entry.t_s
    assert list(stretches([])) == []


def bpgov() -> Log:
    if not BPGOV.exists():
        pytest.skip(f"the real logs are not here: {BPGOV.parent}")
    return Log([BPGOV])


def test_the_thesis_rule_saves_a_quarter_of_a_real_log() -> None:
    # From the first working day's morning on: 27 January 2024 was a Saturday.
    monday = Point(1_706_515_200, is_time=True)
    planned = plan(bpgov(), Slice(monday, length_s=SPAN_S))
    [found] = run(planned, SPAN_S, Agents(), configurations=[SLEEP])
    assert 0.22 <= found.net_saving(Power()) <= 0.27
    assert found.waited(0.05) <= 0.10


@pytest.mark.long
def test_the_thesis_rule_saves_a_quarter_in_every_28_hours_of_a_real_log() -> None:
    parts = stretches(bpgov())
    found = [run(part, SPAN_S, Agents(), configurations=[SLEEP])[0] for part in parts]
    savings = [each.net_saving(Power()) for each in found]
    assert len(savings) == 11
    assert 0.20 <= min(savings) <= max(savings) <= 0.33
    assert fmean(savings) == pytest.approx(0.25, abs=0.02)
    assert all(each.waited(0.05) <= 0.10 for each in found)
