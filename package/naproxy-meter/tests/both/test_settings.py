import os

from helpers import forget, raises

from naproxy_meter import settings
from naproxy_meter.frame import seal

PATH = "test.settings"
DEFAULTS = {"shunt_uohm": 100000, "shunt_offset": 0, "every": 1}
OTHERS = {"shunt_uohm": 2000, "shunt_offset": -7, "every": 50}


def fresh():
    forget(PATH, PATH + ".new")


def write(data):
    with open(PATH, "wb") as file:
        file.write(data)


def test_without_a_file_there_are_defaults():
    fresh()
    assert settings.load(PATH) == (DEFAULTS, settings.DEFAULT)


def test_what_was_saved_last_is_loaded():
    fresh()
    for values in (DEFAULTS, OTHERS):
        settings.save(PATH, values)
        assert settings.load(PATH) == (values, settings.STORED)
    assert PATH + ".new" not in os.listdir(".")


def test_file_cut_anywhere_gives_defaults_and_says_so():
    fresh()
    settings.save(PATH, OTHERS)
    with open(PATH, "rb") as file:
        whole = file.read()
    for length in range(len(whole) - 1):
        write(whole[:length])
        assert settings.load(PATH) == (DEFAULTS, settings.DAMAGED)


def test_new_file_cut_by_a_power_failure_leaves_the_old_one():
    fresh()
    settings.save(PATH, OTHERS)
    with open(PATH + ".new", "wb") as file:
        file.write(b"every=1 shu")
    assert settings.load(PATH) == (OTHERS, settings.STORED)


def test_file_with_a_good_checksum_and_bad_contents_is_damaged():
    for text in ("", "every=1", "every=0 shunt_offset=0 shunt_uohm=1000", "a=b=c", "every 1"):
        write(seal(text))
        assert settings.load(PATH) == (DEFAULTS, settings.DAMAGED)
    fresh()


def test_failing_to_save_raises_and_keeps_the_old_file():
    fresh()
    settings.save(PATH, OTHERS)
    os.mkdir(PATH + ".new")
    raises(OSError, settings.save, PATH, DEFAULTS)
    os.rmdir(PATH + ".new")
    assert settings.load(PATH) == (OTHERS, settings.STORED)
    fresh()


def test_values_outside_their_limits_are_refused_by_name():
    assert settings.check("shunt_uohm", "100") == 100
    assert settings.check("shunt_offset", "-1000") == -1000
    for name, text in (
        ("shunt_uohm", "0"),
        ("shunt_uohm", "-5"),
        ("shunt_uohm", "10000001"),
        ("shunt_offset", "1001"),
        ("every", "3001"),
    ):
        assert str(raises(ValueError, settings.check, name, text)).startswith(name + " must be")


def test_values_that_are_no_whole_numbers_and_unknown_settings_are_refused():
    for text in ("", "-", "nan", "inf", "1.5", "1e3", "0x10", "+1", " 1", "1_0", "9" * 10, "--1"):
        reason = str(raises(ValueError, settings.check, "every", text))
        assert reason.startswith("every is not a whole number")
    reason = str(raises(ValueError, settings.check, "volume", "11"))
    assert reason == "no setting volume, there are every shunt_offset shunt_uohm"
