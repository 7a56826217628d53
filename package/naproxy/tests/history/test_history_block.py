import zlib

import pytest
from history_box import second
from hypothesis import given
from hypothesis import strategies as st
from naproxy.core.reading import PowerSample
from naproxy.history.block import merge, pack, unpack

MINUTE_S = 1_000_020


@st.composite
def minutes(draw: st.DrawFn) -> list[PowerSample]:
    seconds = []
    for offset in sorted(draw(st.sets(st.integers(0, 59), min_size=1))):
        low, mean, high = sorted(draw(st.tuples(*3 * [st.integers(-(2**31), 2**31)])))
        seconds.append(
            PowerSample(
                t_s=MINUTE_S + offset,
                count=draw(st.integers(1, 2**31)),
                mean_mw=mean,
                min_mw=low,
                max_mw=high,
                energy_mj=draw(st.integers(-(2**40), 2**40)),
                covered_ms=draw(st.integers(1, 1000)),
            )
        )
    return seconds


@given(minutes())
def test_what_is_packed_is_unpacked_to_the_last_millijoule(seconds: list[PowerSample]) -> None:
    assert unpack(MINUTE_S, pack(MINUTE_S, reversed(seconds))) == seconds


def test_an_ordinary_minute_takes_a_few_hundred_bytes() -> None:
    noise = [(n * 7919) % 601 - 300 for n in range(60)]
    seconds = [second(MINUTE_S + n, 43_000 + noise[n]) for n in range(60)]
    assert len(pack(MINUTE_S, seconds)) < 400


def test_a_block_that_is_damaged_cut_or_swells_is_refused() -> None:
    whole = pack(MINUTE_S, [second(MINUTE_S + n) for n in range(60)])
    swells = zlib.compress(bytes(1 << 24))
    for blob, why in (
        *((bad, "block") for bad in (b"\x07", b"\x01", b"\x01garbage", b"\xff" * 400)),
        *((whole[:end], "block") for end in range(len(whole))),
        *((form + swells, "too long") for form in (b"\x01", b"\x02")),
    ):
        with pytest.raises(ValueError, match=why):
            unpack(MINUTE_S, blob)


@given(minutes(), st.integers(1, 59))
def test_energy_and_coverage_are_sums_however_the_parts_are_grouped(
    seconds: list[PowerSample], cut: int
) -> None:
    whole = merge(seconds)
    parts = [merge(p) for p in (seconds[:cut], seconds[cut:]) if p]
    again = merge(parts)
    assert again.energy_mj == whole.energy_mj == sum(s.energy_mj for s in seconds)
    assert (again.count, again.covered_ms) == (whole.count, whole.covered_ms)
    assert (again.min_mw, again.max_mw) == (whole.min_mw, whole.max_mw)
    assert abs(again.mean_mw - whole.mean_mw) <= 1


def test_the_mean_is_by_what_is_covered_not_by_the_number_of_readings() -> None:
    parts = [second(0, 100, count=1, covered_ms=900), second(1, 200, count=99, covered_ms=100)]
    assert merge(parts).mean_mw == 110
