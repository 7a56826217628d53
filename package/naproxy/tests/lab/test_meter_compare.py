"""Two meters compared by Bland and Altman, with their own published example."""

import random
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from naproxy.cli.__main__ import main
from naproxy.core.reading import PowerSample
from naproxy.lab.measure.agreement import LEAST, bland_altman, pairs
from naproxy.lab.measure.compare import described, stretch_s

# Bland and Altman 1986, table 1: peak flow of 17 people, l/min, by two meters, the first readings.
LARGE = [494, 395, 516, 434, 476, 557, 413, 442, 650, 433, 417, 656, 267, 478, 178, 423, 427]
MINI = [512, 430, 520, 428, 500, 600, 364, 380, 658, 445, 432, 626, 260, 477, 259, 350, 451]


def test_the_published_example_is_found() -> None:
    found = bland_altman(LARGE, MINI)
    assert found.pairs == 17
    assert found.bias.value == pytest.approx(-2.1, abs=0.05)
    assert found.deviation == pytest.approx(38.8, abs=0.05)
    # They took 2 standard deviations for the limits, and 17 independent people.
    assert found.bias.value - 2 * found.deviation == pytest.approx(-79.7, abs=0.1)
    alone = bland_altman(sorted(LARGE), sorted(LARGE, reverse=True))  # any order, other pairs
    assert alone.independent < 17
    independent = found.independent
    assert independent == pytest.approx(17, abs=0.1)
    assert (found.bias.low, found.bias.high) == pytest.approx((-22.0, 17.8), abs=0.2)
    half = (found.lower.high - found.lower.low) / 2
    assert half == pytest.approx((114.3 - 45.1) / 2, abs=0.3)
    assert found.lower.value == pytest.approx(-2.1 - 1.96 * 38.8, abs=0.1)
    assert found.upper.value == pytest.approx(-2.1 + 1.96 * 38.8, abs=0.1)
    assert found.slope
    assert found.slope.low < 0 < found.slope.high


def test_an_offset_and_a_factor_are_told_apart() -> None:
    chance = random.Random(7)
    truth = [chance.uniform(20, 80) for _ in range(400)]
    for offset, factor in ((0.0, 1.0), (1.5, 1.0), (0.0, 1.03), (-2.0, 0.97)):
        a = [offset + factor * x + chance.gauss(0, 0.3) for x in truth]
        b = [x + chance.gauss(0, 0.3) for x in truth]
        found = bland_altman(a, b)
        assert found.slope
        slope = (factor - 1) * 2 / (factor + 1)
        assert found.slope.low - 0.001 <= slope <= found.slope.high + 0.001, (offset, factor)
        assert found.bias.value == pytest.approx(offset + (factor - 1) * 50, abs=0.4)
        inside = sum(
            found.lower.value <= x - y <= found.upper.value for x, y in zip(a, b, strict=True)
        )
        assert 0.92 <= inside / 400 <= 0.98, (offset, factor)


def test_readings_that_follow_each_other_count_for_less() -> None:
    chance = random.Random(8)
    drift, differences = 0.0, []
    for _ in range(1000):
        drift = 0.95 * drift + chance.gauss(0, 1)
        differences.append(drift)
    slow = bland_altman(differences, [0.0] * 1000)
    chance.shuffle(differences)
    mixed = bland_altman(differences, [0.0] * 1000)
    assert slow.independent < 60
    assert mixed.independent > 800
    assert slow.bias.high - slow.bias.low > 3 * (mixed.bias.high - mixed.bias.low)


def test_what_cannot_be_compared_is_said() -> None:
    with pytest.raises(ValueError, match=f"3 pairs are too few: at least {LEAST}"):
        bland_altman([1, 2, 3], [1, 2, 3])
    with pytest.raises(ValueError, match="not all values are numbers"):
        bland_altman([float("nan")] * 20, [1.0] * 20)
    with pytest.raises(ValueError, match="shorter"):
        bland_altman([1.0] * 20, [1.0] * 19)
    same = bland_altman([5.0] * 20, [5.0] * 20)
    assert (same.bias.value, same.bias.low, same.bias.high, same.slope) == (0, 0, 0, None)


def test_a_slow_meter_is_compared_over_its_own_period() -> None:
    fast = {t: float(t) for t in range(100, 121)}
    slow = {103: 1.0, 110: 2.0, 118: 3.0}
    assert stretch_s([0.2, 6.5]) == 7
    a, b = pairs(fast, slow, 7)
    assert b == [1.0, 2.0, 3.0]
    assert a == [102.0, 108.0, 115.0]
    assert pairs(fast, {}, 1) == ([], [])


def test_words_say_what_the_numbers_do() -> None:
    status = {"driver": "pico", "accuracy": "1 %", "estimated": False}
    told = {"a": status, "b": {**status, "estimated": True}}
    chance = random.Random(9)
    varied = [chance.uniform(10, 90) for _ in range(200)]
    for a, b, words in (
        ([40.0 + chance.gauss(0, 0.1) for _ in varied], [40.0] * 200, "the power hardly varied"),
        ([x + chance.gauss(0, 0.1) for x in varied], varied, "does not depend on the power"),
        (
            [1.1 * x + chance.gauss(0, 0.1) for x in varied],
            varied,
            "it changes with the power: +9.4",
        ),
    ):
        lines = "\n".join(described("a", "b", told, bland_altman(a, b), 1))
        assert words in lines, lines
        assert "b (pico): accuracy: 1 %, ESTIMATED" in lines


METER = """
[[meter]]
id = "{id}"
of = "{of}"
driver = "model"
source = "local"
interval_s = 0.2
base_w = {base}
"""
SERVER = """
[[server]]
id = "{id}"
address = "127.0.0.1"
mac = "02:00:00:00:00:0{n}"
"""


def test_the_command_listens_to_two_meters_of_one_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "naproxy.toml"
    config.write_text(
        SERVER.format(id="web", n=1)
        + SERVER.format(id="nas", n=2)
        + METER.format(id="one", of="web", base=43.5)
        + METER.format(id="two", of="web", base=43.0)
        + METER.format(id="far", of="nas", base=43.0)
    )
    known = ["--config", str(config), "--socket", str(tmp_path / "none"), "--seconds"]
    for names, status, words in (
        (["one", "one"], 1, "is only one meter"),
        (["one", "far"], 1, "one measures web and far measures nas"),
        (["one", "none"], 1, "there is no meter none, only one, two, far"),
        (["one", "two"], 3, "pairs are too few"),
    ):
        assert main(["meter", "compare", *names, *known, "1s"]) == status, names
        assert words in capsys.readouterr().err, names


class Meters:
    """Two that were heard before."""

    def status(self) -> list[dict[str, Any]]:
        same = {"of": "web", "driver": "pico", "accuracy": "1 %", "estimated": False}
        return [{"id": name, "period_s": 1.0, **same} for name in ("one", "two")]


def test_the_command_finds_what_two_meters_differ_by(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def heard() -> AsyncIterator[tuple[str, PowerSample]]:
        chance = random.Random(10)
        for t_s in range(300):
            watts = chance.uniform(20, 60)
            for name, more_w in (("one", 0.5), ("two", 0.0), ("other", 99.0)):
                power_mw = round(1e3 * (watts + more_w + chance.gauss(0, 0.05)))
                yield name, PowerSample(t_s, 1, power_mw, 0, 0, power_mw, 1000)

    @asynccontextmanager
    async def meters_of(_: object) -> AsyncIterator[tuple[Meters, object]]:
        yield Meters(), heard()

    monkeypatch.setattr("naproxy.lab.measure.compare.meters_of", meters_of)
    assert main(["meter", "compare", "one", "two"]) == 0
    out = capsys.readouterr().out
    found = re.search(r"one - two, on average +([+-][\d.]+) W  \(\+0.4\d to \+0.5\d\)", out)
    assert found, out
    assert float(found[1]) == pytest.approx(0.5, abs=0.02)
    assert "300 pairs of 1 s" in out
    assert "does not depend on the power" in out
