from naproxy_meter.accumulator import (
    CHIP_RESET,
    CLIPPED,
    LATE,
    LONGEST_INTERVAL_US,
    PERIOD_US,
    Accumulator,
)


def fed(readings, shunt=10000, bus=3000, offset=0, step_us=PERIOD_US):
    sums = Accumulator()
    for index in range(readings):
        sums.add(index * step_us, shunt, bus, offset)
    return sums


def test_twelve_watts_for_one_second():
    sums = fed(51)  # 1 A through 0.1 ohm at 12 V, 50 intervals
    assert sums.energy == 10000 * 3000 * 1000000
    assert sums.energy * 4e-8 / 100000 == 12.0
    assert (sums.covered_us, sums.readings) == (1000000, 50)


def test_sums_are_of_the_raw_registers_from_the_second_reading_on():
    sums = fed(1)
    assert (sums.energy, sums.covered_us, sums.readings, sums.shunt, sums.bus) == (0, 0, 0, 0, 0)
    sums = fed(4, shunt=-7, bus=5, offset=100)
    assert (sums.shunt, sums.bus) == (-21, 15)


def test_offset_is_taken_off_the_shunt_in_the_energy():
    assert fed(2, shunt=12, bus=1000, offset=12).energy == 0
    assert fed(2, shunt=-1, bus=1).energy == -PERIOD_US


def test_interval_longer_than_the_longest_is_left_out_and_flagged():
    assert fed(2, step_us=LONGEST_INTERVAL_US).covered_us == LONGEST_INTERVAL_US
    sums = fed(2, step_us=LONGEST_INTERVAL_US + 1)
    assert (sums.energy, sums.covered_us, sums.take_flags()) == (0, 0, LATE)


def test_missed_reading_takes_its_interval_and_the_next_one_out():
    sums = fed(2)
    sums.miss(CHIP_RESET)
    sums.add(3 * PERIOD_US, 30000, 8000, 0)
    assert sums.covered_us == PERIOD_US
    assert sums.energy == 10000 * 3000 * PERIOD_US
    sums.add(4 * PERIOD_US, 10000, 3000, 0)
    assert sums.covered_us == 2 * PERIOD_US


def test_full_scale_is_flagged_in_both_directions_once():
    for shunt, flags in ((32000, CLIPPED), (-32000, CLIPPED), (31999, 0)):
        sums = fed(2, shunt=shunt)
        assert (sums.take_flags(), sums.take_flags()) == (flags, 0)


def test_energy_grows_past_64_bits_without_a_fault():
    sums = fed(2)
    sums.energy = (1 << 64) - 1
    sums.add(2 * PERIOD_US, 1, 1, 0)
    assert sums.energy == (1 << 64) - 1 + PERIOD_US
    assert str(sums.energy) == "18446744073709571615"
