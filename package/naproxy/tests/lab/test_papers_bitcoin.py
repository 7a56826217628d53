"""Chapter 6 of the thesis, against calculations of their own."""

import hashlib
import re
import time
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pytest
from naproxy.lab.papers import bitcoin
from naproxy.lab.papers.bitcoin import BLOCKS, HEADER, MACHINES, MARKET, MHASH


def test_a_real_block_solves_equation_6_1_and_a_changed_one_does_not() -> None:
    most = bitcoin.target(int.from_bytes(HEADER[72:76], "little"))
    assert bitcoin.solved(HEADER, most)
    twice = hashlib.sha256(hashlib.sha256(HEADER).digest()).digest()[::-1].hex()
    assert twice.startswith("0" * 16)
    assert bitcoin.block_hash(HEADER) == int(twice, 16)
    for place in range(len(HEADER)):
        changed = bytearray(HEADER)
        changed[place] ^= 1
        assert not bitcoin.solved(bytes(changed), most), place


def test_a_target_and_its_difficulty_are_read_from_the_short_form() -> None:
    for bits, difficulty in (
        (0x1D00FFFF, 1.0),  # the first block
        (0x1B04864C, 14484.16236122),  # block 100,000
        (0x1A44B9F2, 244112.48777434),  # block 125,552
        (0x1900896C, 8000872135.968163),  # block 300,000
        (0x1806B99F, 163491654908.959),  # block 400,000
    ):
        assert bitcoin.difficulty(bitcoin.target(bits)) == pytest.approx(difficulty), hex(bits)
    assert bitcoin.T_MAX == 2**224 - 2**208


def test_equation_6_2_gives_the_expected_time_of_the_thesis() -> None:
    printed = Decimal("7.16621792838594592768e14")
    assert Decimal(166_851_513_283 * 2**32) / 10**6 == printed
    assert bitcoin.expected_s(166_851_513_283, MHASH) == pytest.approx(float(printed), rel=1e-12)
    # Not rounded, p is T / 2**256: the same within 2**-16.
    exact = Fraction(2**256, bitcoin.target(0x180696F4)) / 10**6
    assert float(exact) == pytest.approx(float(printed), rel=2e-5)


def test_what_does_not_follow_is_said_and_the_rest_agrees() -> None:
    found = {each.what: each for each in bitcoin.claims()}
    wrong = {what for what, each in found.items() if not each.agrees}
    assert wrong == {
        "table 6.1: Atom N450, Mhash/J",
        "table 6.1: ATI 5770, Mhash/J",
        "power of the network, all at 2000 Mhash/J, GW",
        "the same, all at 2 Mhash/J, GW",
    }
    assert all(bool(each.note) != each.agrees for each in found.values())
    assert found["table 6.1: Atom N450, Mhash/J"].computed == pytest.approx(0.246, abs=0.0005)
    watts = 166_851_513_283 * 4_294_967_296 / 600 / 2e6
    assert found["the same, all at 2 Mhash/J, GW"].computed == pytest.approx(watts / 1e9)
    said = "\n".join(bitcoin.lines())
    assert "10 GW would take 119 Mhash/J, not 2" in said
    assert bitcoin.halving_day(1) == "2012-11-28"
    assert bitcoin.halving_day(2) == "2016-07-09"


def test_the_data_is_in_order_and_of_the_network() -> None:
    assert all(a.height < b.height and a.t_s < b.t_s for a, b in pairwise(BLOCKS))
    assert all(block.height % 2016 == 0 for block in BLOCKS)
    rewards = [bitcoin.reward(n) for n in (0, 209_999, 210_000, 419_999, 420_000, 630_000)]
    assert rewards == [50, 50, 25, 25, 12.5, 6.25]
    for day in MARKET:
        before = max((b for b in BLOCKS if b.t_s <= day.t_s), key=lambda b: b.height)
        after = min((b for b in BLOCKS if b.t_s > day.t_s), key=lambda b: b.height)
        low, high = sorted((before.difficulty, after.difficulty))
        assert 0.4 * low < day.difficulty < 2.5 * high, time.gmtime(day.t_s)


def test_the_cost_of_a_bitcoin_is_that_of_its_energy() -> None:
    costs = {(day, name): cost for day, name, cost, _ in bitcoin.profits()}
    assert len(costs) == len(MARKET) * len(MACHINES)
    # 10,076,292.88 * 2**32 hashes at 18.9e6 / 150 a joule, 0.10 dollars a kWh, 25 bitcoins.
    kwh = 10_076_292.88 * 2**32 * 150 / 18.9e6 / 3.6e6
    assert costs["2013-05-06", "Core i7 950"] == pytest.approx(kwh * 0.10 / 25)
    # As the thesis says: the Core i7 never paid.
    values = {bitcoin._date(day.t_s): day.dollars for day in MARKET}
    assert all(cost > values[day] for (day, name), cost in costs.items() if name == "Core i7 950")


def test_the_page_has_the_six_figures_and_stands_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "chapter6.html"
    assert bitcoin.main(["--html", str(file)]) == 0
    page = file.read_text("utf-8")
    assert re.findall(r"Figure (6\.\d): [^<]+</(?:h2|text)>", page) == [
        f"6.{n}" for n in range(1, 7)
    ]
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids)) == 10
    assert not re.search(r'(?:src|href)="|<script', page)
    assert "does not agree" in capsys.readouterr().out
