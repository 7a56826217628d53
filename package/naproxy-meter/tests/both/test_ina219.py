from chip import CONVERSION_US, Chip
from helpers import Clock, raises

from naproxy_meter.ina219 import (
    CONFIGURATION,
    FAILURES_BEFORE_REOPEN,
    INA219,
    ChipReset,
    NotReady,
)


def started():
    clock = Clock()
    chip = Chip(clock)
    driver = INA219(lambda: chip)
    raises(ChipReset, driver.read)
    clock.now_us += CONVERSION_US
    return clock, chip, driver


def test_chip_never_configured_is_configured_at_the_first_reading():
    _, chip, _ = started()
    assert chip.configuration == CONFIGURATION == 0x39EF


def test_values_are_raw_register_counts_also_of_reverse_current():
    _, chip, driver = started()
    for shunt in (10000, -1, -32000):
        chip.shunt, chip.bus = shunt, 3000
        assert driver.read() == (shunt, 3000)
    assert chip.configured == 1, "a reading writes nothing"


def test_nothing_is_read_before_the_first_conversion_has_finished():
    clock, _, driver = started()
    clock.now_us -= 1
    raises(NotReady, driver.read)


def test_chip_that_lost_its_configuration_gets_it_back_and_gives_no_value():
    _, chip, driver = started()
    chip.power_on()
    raises(ChipReset, driver.read)
    assert chip.configuration == CONFIGURATION


def test_reset_between_the_two_values_gives_no_value():
    clock, chip, driver = started()
    whole = chip.readfrom_mem

    def reset_after_first(address, register, size):
        word = whole(address, register, size)
        if register == 1:
            chip.power_on()
        return word

    chip.readfrom_mem = reset_after_first
    clock.now_us += CONVERSION_US
    raises(ChipReset, driver.read)


def test_bus_is_opened_anew_after_a_second_of_silence_and_not_before():
    _, chip, _ = started()
    opened = []

    def open_bus():
        opened.append(1)
        return chip

    driver = INA219(open_bus)
    chip.plugged = False
    for _ in range(FAILURES_BEFORE_REOPEN - 1):
        raises(OSError, driver.read)
    assert len(opened) == 1
    raises(OSError, driver.read)
    assert len(opened) == 2
    chip.plugged = True
    assert driver.read() == (0, 0)
