"""The three choices of who may wait: their promises, and what each brings."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from naproxy.cli import __main__ as cli
from naproxy.core.energy import Power
from naproxy.core.state import Klass
from naproxy.core.waiting import DEFAULT
from naproxy.lab.estimate import choices
from naproxy.lab.estimate.boxcache import BOX
from naproxy.lab.estimate.lineup import OURS, Choice, Compared, Promise, Server, compare
from naproxy.lab.estimate.simulate import Outcome
from naproxy.lab.estimate.traffic import PAGE_LOAD_FLAG, Chunk, Traffic

DAYS = 6
NAMES = ["hardly", "few", "first"]


@pytest.fixture(scope="module")
def traffic() -> Iterator[Traffic]:
    """Six days of visits, of which each is of somebody else for another page."""
    chance = random.Random(7)
    with Traffic.temporary("office") as made:
        chunk, t_s = Chunk(), 0.0
        while (t_s := t_s + chance.expovariate(1 / 600)) < DAYS * 86400:
            visitor = chance.randrange(1 << 30)
            chunk.append(t_s, visitor, visitor, Klass.PERSON, flags=PAGE_LOAD_FLAG)
            made.trust.see(t_s)
        made.add(chunk)
        yield made


def cards(traffic: Traffic, server: Server, price: float | None = None) -> list[choices.Card]:
    offered = choices.promises(server.wake_s)
    choice = Choice([BOX], ["closed"], [offered[DEFAULT]], (OURS,), list(offered.values()))
    rows = compare(traffic, server, choice)
    return choices.cards(Compared(traffic, server, choice, rows, price))


@pytest.mark.parametrize(
    ("wake_s", "delta_s"),
    [(0.3, 1.0), (0.8, 1.0), (0.9, 1.1), (1.0, 1.2), (1.25, 1.5), (1.3, 1.0), (5.0, 1.0)],
)
def test_a_wait_counts_from_a_second_on_or_from_a_slow_wake_of_about_a_second(
    wake_s: float, delta_s: float
) -> None:
    assert choices.promises(wake_s) == {
        "hardly": Promise(0.01, delta_s),
        "few": Promise(0.05, delta_s),
        "first": Promise(0.10, delta_s),
    }


def test_the_more_visitors_may_wait_the_more_is_saved(traffic: Traffic) -> None:
    hardly, few, first = cards(traffic, Server(wake_s=8.0))
    assert [hardly.name, few.name, first.name] == NAMES
    assert hardly.waits_a_day < few.waits_a_day < first.waits_a_day
    assert hardly.asleep_h_a_day < few.asleep_h_a_day < first.asleep_h_a_day
    assert hardly.kwh_a_year < few.kwh_a_year < first.kwh_a_year


def test_a_cards_year_is_the_sleep_less_the_switches_and_the_box(traffic: Traffic) -> None:
    power = Power(on_w=60.0, off_w=2.0, switch_j=300.0, proxy_w=3.0)
    server = Server(power, wake_s=8.0)
    card = cards(traffic, server, price=0.25)[1]
    row = compare(traffic, server, Choice([BOX], ["closed"], [Promise(0.05, 1.0)], (OURS,)))[0]
    cycles = 365 * row["cycles_per_day"]
    saved_j = 365 * card.asleep_h_a_day * 3600 * power.saved_w - cycles * power.switch_j
    net_kwh = saved_j / 3.6e6 - 3.0 * 24 * 365 / 1000
    assert card.kwh_a_year == pytest.approx(net_kwh, rel=1e-6)
    assert card.money_a_year == pytest.approx(0.25 * net_kwh, rel=1e-6)


def test_a_box_that_draws_more_than_it_saves_does_not_pay(traffic: Traffic) -> None:
    for each in cards(traffic, Server(Power(proxy_w=60.0), wake_s=8.0), price=0.3):
        assert not each.pays
        assert each.kwh_a_year < 0
        assert each.money_a_year is not None
        assert each.money_a_year < 0


def test_a_box_on_a_machine_that_is_on_anyway_pays_with_each_choice(traffic: Traffic) -> None:
    assert all(each.pays for each in cards(traffic, Server(Power(proxy_w=0.0), wake_s=8.0)))


def test_waits_too_short_to_count_are_on_the_card_and_cost_little_sleep(traffic: Traffic) -> None:
    hardly, _, first = cards(traffic, Server(wake_s=0.5))
    assert hardly.asleep_h_a_day > 0.9 * first.asleep_h_a_day
    assert hardly.waits_a_day > 100  # of 144 visits
    assert hardly.usual_s == 0.5


def test_waits_have_a_mean_and_a_length_that_most_do_not_exceed() -> None:
    outcome = Outcome(requests=1000)
    outcome.waits_closed_ms.update({1000: 90, 4000: 8, 60_000: 2})
    waits = outcome.waiting(closed=True)
    assert waits.number == 100
    assert waits.mean_s == pytest.approx((90 + 32 + 120) / 100)
    assert waits.usual_s == 4.0


def test_nobody_waited_has_no_length() -> None:
    assert Outcome(requests=5).waiting(closed=True) == (0, 0.0, 0.0)


def estimate(tmp_path: Path, *args: str) -> list[dict[str, Any]]:
    log = tmp_path / "site.log"
    log.write_text(
        "".join(
            f'192.0.2.{n % 24} - - [20/Nov/2023:{n // 6 % 24:02}:{n % 6}7:00 +0000] "GET /{n}'
            ' HTTP/1.1" 200 100 "-" "Mozilla/5.0 (X11; Linux x86_64) Chrome/126.0.0.0"\n'
            for n in range(144)
        )
    )
    summary = tmp_path / "summary.json"
    files = ("--summary", str(summary), "--html", str(tmp_path / "report.html"))
    assert cli.main(["estimate", "--jobs", "1", str(log), *files, *args]) == 0
    (found,) = json.loads(summary.read_text("utf-8"))
    made: list[dict[str, Any]] = found["choices"]
    return made


def test_the_estimate_prints_three_cards_and_names_a_loss(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = estimate(tmp_path, "--proxy-w", "100")
    printed = capsys.readouterr().out
    assert [each["name"] for each in made] == NAMES
    for name in NAMES:
        (line,) = (x for x in printed.splitlines() if choices.WORDS[name] in x)
        assert "this does not pay" in line, name
    report = (tmp_path / "report.html").read_text("utf-8")
    assert report.count("This does not pay.") == 3


def test_the_estimate_of_another_promise_has_the_cards_too(tmp_path: Path) -> None:
    made = estimate(tmp_path, "--promise", "0.2:2")
    assert [(each["name"], each["fraction"]) for each in made] == [
        *(("hardly", 0.01), ("few", 0.05), ("first", 0.10)),
    ]


def test_the_estimate_of_other_policies_only_has_no_cards(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert estimate(tmp_path, "--policy", "timeout-5m") == []
    assert "who may wait" not in capsys.readouterr().out
