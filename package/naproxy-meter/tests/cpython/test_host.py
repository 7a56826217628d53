"""What the host makes of good lines and of every kind of bad ones."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from naproxy_meter import host
from naproxy_meter.accumulator import CHIP_RESET, PERIOD_US, Accumulator
from naproxy_meter.frame import SEQUENCES, frame, seal
from naproxy_meter.host import Frame, Hello, MeterFault, Reading, Reply, Tracker, parse

HELLO = (
    "H 1 version=1.0.0 id=e660 boot={} period_us=20000 settings=stored"
    " every=1 shunt_offset=0 shunt_uohm={}"
)


def hello(boot="3fa2", shunt_uohm=100000):
    return seal(HELLO.format(boot, shunt_uohm))


def device(count, boot="3fa2", sequence=0, shunt=10000, bus=3000):
    """Frames of a device that measures the same for `count` periods."""
    sums = Accumulator()
    for index in range(count):
        sums.add(index * PERIOD_US, shunt, bus, 0)
        yield frame(boot, (sequence + index) % SEQUENCES, index * PERIOD_US, sums, 0)


def line(*fields):
    return seal("F " + " ".join(str(field) for field in fields))


def follow(*lines):
    """What a tracker that has heard the hello gives for those lines."""
    tracker = Tracker(0.0)
    list(tracker.feed(hello(), 0.0))
    return list(tracker.feed(b"".join(lines), 0.0))


def kinds(items):
    return [item.kind if isinstance(item, MeterFault) else type(item).__name__ for item in items]


def energy_j(items):
    return sum(item.energy_j for item in items if isinstance(item, Reading))


def parse_fault(text):
    with pytest.raises(MeterFault) as caught:
        parse(text.removesuffix(b"\n"))
    return caught.value.kind


# ---------------------------------------------------------------- good lines


def test_a_frame_becomes_numbers():
    assert parse(line("3fa2", 7, 40000, 20000, 1, -5, 3000, -600, "0a")[:-1]) == Frame(
        "3fa2", 7, 40000, 20000, 1, -5, 3000, -600, 10
    )


def test_a_hello_says_who_and_which_shunt():
    assert parse(hello()[:-1]) == Hello("1.0.0", "e660", "3fa2", "stored", 20000, 100000, 0, 1)


def test_a_later_firmware_may_say_more_in_its_hello():
    assert isinstance(parse(seal(HELLO.format("3fa2", 1000) + " colour=blue")[:-1]), Hello)


def test_replies_are_told_apart():
    assert parse(seal("A 7 set every 5")[:-1]) == Reply("7", True, "set every 5")
    assert parse(seal("R - cut: no")[:-1]) == Reply("-", False, "cut: no")


def test_twelve_watts_over_one_period():
    (reading,) = follow(*device(2))
    assert reading == Reading(
        energy_j=pytest.approx(0.24),
        energy=10000 * 3000 * 20000,
        covered_s=0.02,
        elapsed_s=0.02,
        readings=1,
        lost_frames=0,
        power_w=pytest.approx(12.0),
        voltage_v=pytest.approx(12.0),
        current_a=pytest.approx(1.0),
        flags=(),
    )


def test_zero_watts_is_a_reading_like_any_other():
    (reading,) = follow(*device(2, shunt=0))
    assert (reading.power_w, reading.energy_j, reading.covered_s) == (0.0, 0.0, 0.02)


def test_power_scales_with_current_and_shunt():
    (reading,) = follow(*device(2, shunt=-10000))
    assert reading.power_w == pytest.approx(-12.0)
    tracker = Tracker(0.0)
    items = list(tracker.feed(hello(shunt_uohm=10000) + b"".join(device(2)), 0.0))
    assert items[-1].power_w == pytest.approx(120.0)


# ------------------------------------------------- lost frames and restarts


@given(st.data())
def test_frames_dropped_anywhere_between_the_ends_cost_no_energy(data):
    frames = list(device(40))
    kept = [f for f in frames[1:-1] if data.draw(st.booleans())]
    whole = follow(*frames)
    thinned = follow(frames[0], *kept, frames[-1])
    assert sum(r.energy for r in thinned) == sum(r.energy for r in whole)
    assert sum(r.lost_frames for r in thinned) == len(frames) - 2 - len(kept)
    assert sum(r.covered_s for r in thinned) == pytest.approx(39 * 0.02)


def test_sequence_wraps_without_loss_and_loss_is_counted_across_it():
    frames = list(device(5, sequence=SEQUENCES - 2))
    assert [item.lost_frames for item in follow(*frames)] == [0, 0, 0, 0]
    (reading,) = follow(frames[0], frames[4])
    assert reading.lost_frames == 3


def test_restart_is_noticed_and_nothing_is_reckoned_across_it():
    tracker = Tracker(0.0)
    list(tracker.feed(hello() + b"".join(device(5)), 0.0))
    items = list(tracker.feed(hello("77aa") + b"".join(device(10, boot="77aa")), 0.0))
    assert tracker.restarts == 1
    assert kinds(items) == ["Hello"] + ["Reading"] * 9
    assert energy_j(items) == pytest.approx(9 * 0.24)


def test_restart_is_noticed_even_when_all_sums_are_larger_than_before():
    tracker = Tracker(0.0)
    list(tracker.feed(hello() + b"".join(device(5)), 0.0))
    late = list(device(100, boot="77aa"))[99]
    assert kinds(tracker.feed(hello("77aa") + late, 0.0)) == ["Hello"]
    assert tracker.restarts == 1


def test_a_run_whose_hello_was_missed_has_no_shunt_and_so_no_energy():
    assert kinds(follow(*device(2, boot="77aa"))) == ["no_hello", "no_hello"]


def test_time_the_chip_was_away_is_not_covered_and_flagged():
    sums = Accumulator()
    sums.add(0, 10000, 3000, 0)
    lines = [frame("3fa2", 0, 0, sums, 0)]
    sums.miss(CHIP_RESET)
    lines.append(frame("3fa2", 1, PERIOD_US, sums, CHIP_RESET))
    (reading,) = follow(*lines)
    assert (reading.energy_j, reading.covered_s, reading.elapsed_s) == (0.0, 0.0, 0.02)
    assert reading.power_w is None
    assert reading.flags == (host.FLAG_NAMES[CHIP_RESET],)


# ------------------------------------------------------------- hostile lines


def test_line_that_is_cut_glued_or_noise_is_named():
    (whole,) = device(1)
    for length in (0, 1, 10, 30, -2, -9, -10):
        assert parse_fault(whole[:length]) == "cut", length
    assert parse_fault(b"F 3fa2 1 20000 0 0 0 0 0 00*deadbeef") == "checksum"
    assert parse_fault(b"\xff\xfe\x00F 1") == "noise"
    first, second = device(2)
    assert kinds(follow(first[:-1] + second)) == ["doubled"]
    assert kinds(follow(b"F" * 100000 + b"\n")) == ["huge"]


def test_line_that_comes_twice_counts_once():
    frames = list(device(3))
    items = follow(frames[0], frames[1], frames[1], frames[2])
    assert kinds(items) == ["Reading", "doubled", "Reading"]
    assert energy_j(items) == pytest.approx(2 * 0.24)


def test_old_line_played_again_is_refused():
    frames = list(device(4))
    assert kinds(follow(*frames, frames[1]))[-1] == "backwards"


def changed(field, value):
    """A frame with another value in one field."""
    fields = ["3fa2", 1, 20000, 20000, 1, 10, 10, 10, "00"]
    fields[field] = value
    return line(*fields)


def test_what_is_no_number_of_a_meter_is_named():
    for field in range(1, 8):
        for text in ("nan", "NaN", "inf", "-inf", "1e9", "1.5", "0x1", "", "-", "+1"):
            assert parse_fault(changed(field, text)) == "not_a_number", (field, text)
        assert parse_fault(changed(field, (1 << 79) + 1)) == "huge", field
    for field in (1, 2, 3, 4, 6):
        assert parse_fault(changed(field, -1)) == "negative", field


def test_energy_and_time_beyond_what_the_chip_can_measure_are_refused():
    start = line("3fa2", 0, 0, 0, 0, 0, 0, 0, "00")
    most = 2 * 32768 * 8191 * 20000
    jump = line("3fa2", 1, 20000, 20000, 1, 10, 10, most + 1, "00")
    assert kinds(follow(start, jump)) == ["huge"]
    assert kinds(follow(start, line("3fa2", 1, 20000, 20001, 1, 0, 0, 0, "00"))) == ["huge"]


def test_sealed_line_of_a_shape_we_do_not_know():
    for text in (
        *("F 3fa2 1 2", "H 2 version=9", "H 1 version=1", "H", "A", "A 7", "Z 1", ""),
        "F " + "1 " * 9,
    ):
        assert parse_fault(seal(text)) == "format", text
    assert parse_fault(hello(shunt_uohm=0)) == "format"
    assert parse_fault(hello(shunt_uohm="nan")) == "not_a_number"


def test_bad_lines_between_good_ones_cost_no_energy():
    noise = [b"\xff\x00\n", b"F 3fa2\n", b"\n\n", b"AT\r\n", seal("F 1")]
    dice = random.Random(5)
    lines = [part for f in device(50) for part in (f, dice.choice(noise))]
    items = follow(*lines)
    assert energy_j(items) == pytest.approx(49 * 0.24)
    assert len([item for item in items if isinstance(item, MeterFault)]) >= 30


@given(st.lists(st.binary(max_size=300), max_size=20))
def test_no_bytes_at_all_raise_anything_but_named_faults(chunks):
    tracker = Tracker(0.0)
    for chunk in chunks:
        for item in tracker.feed(chunk, 0.0):
            assert isinstance(item, MeterFault)
            assert tracker.faults[item.kind] > 0


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126, exclude_characters="*")))
def test_sealed_nonsense_raises_nothing_but_named_faults(text):
    try:
        assert isinstance(parse(seal(text)[:-1]), Frame | Hello | Reply)
    except MeterFault as fault:
        assert fault.kind in {"format", "not_a_number", "negative", "huge"}  # noqa: PT017


def test_one_wrong_frame_is_forgotten_when_ten_later_ones_speak_against_it():
    tracker = Tracker(0.0)
    list(tracker.feed(hello(), 0.0))
    tracker.accept(Frame("3fa2", 99, 10**15, 10**15, 10**9, 0, 0, 0, 0), 0.0)
    items = list(tracker.feed(b"".join(device(20)), 0.0))
    assert kinds(items) == ["backwards"] * 10 + ["Reading"] * 9


# ------------------------------------------------------------------- silence


def test_silence_is_a_fault_and_not_zero_watts():
    tracker = Tracker(100.0)
    list(tracker.feed(hello() + next(device(1)), 100.0))
    tracker.check_silence(103.0)
    with pytest.raises(MeterFault) as caught:
        tracker.check_silence(103.1)
    assert str(caught.value) == "silence: no frame for 3.1 s"


def test_noise_is_silence():
    tracker = Tracker(100.0)
    list(tracker.feed(b"AT\r\n" * 50, 110.0))
    with pytest.raises(MeterFault):
        tracker.check_silence(110.0)
