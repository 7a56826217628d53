import os

from chip import CONVERSION_US, Chip
from helpers import Clock, forget

from naproxy_meter.accumulator import CHIP_RESET, NO_ANSWER, PERIOD_US, SETTINGS_DAMAGED, WATCHDOG
from naproxy_meter.frame import seal, unseal
from naproxy_meter.ina219 import INA219
from naproxy_meter.meter import Meter, run

PATH = "test-meter.settings"


class Bench:
    """A meter with its chip, and a wire with endless room unless it is said otherwise."""

    def __init__(self, keep=False, flags=0, maintain=None):
        if not keep:
            forget(PATH, PATH + ".new")
        self.clock = Clock()
        self.chip = Chip(self.clock)
        self.chip.shunt, self.chip.bus = 10000, 3000
        self.meter = Meter(
            INA219(lambda: self.chip),
            self.clock,
            PATH,
            device="e660",
            boot="3fa2",
            flags=flags,
            maintain=maintain,
        )
        self.sent = b""
        self.room = 1 << 30
        self.incoming = b""
        self.turns_left = 0

    # meter.Port
    def write(self, data):
        taken = min(self.room, len(data))
        self.room -= taken
        self.sent += data[:taken]
        return taken

    def read(self):
        data, self.incoming = self.incoming, b""
        return data

    def wait(self, timeout_us, writing):
        self.clock.now_us += timeout_us

    def going(self):
        self.turns_left -= 1
        return self.turns_left >= 0

    def turns(self, count):
        self.turns_left = count
        run(self.meter, self.clock, self, self.going)

    def lines(self, kind):
        """Words of the lines of that kind sent since the last call."""
        found = [words for words in self.said() if words[0] == kind]
        self.sent = b""
        return found

    def said(self):
        return [unseal(line).split(" ") for line in self.sent.split(b"\n") if line]

    def send(self, line):
        """The lines that a turn makes of this one."""
        self.sent, self.incoming = b"", line
        self.turns(1)
        return self.lines("R")

    def ask(self, text):
        """What answers a command: A or R, its words, and the hellos that came too."""
        self.sent, self.incoming = b"", seal("C t " + text)
        self.turns(2)
        said, self.sent = self.said(), b""
        (answer,) = [words for words in said if words[0] in "AR"]
        return answer[0], " ".join(answer[2:]), [words for words in said if words[0] == "H"]


def energy(frame):
    return int(frame[8])


def flags(frame):
    return int(frame[9], 16)


WATTS_12 = 10000 * 3000  # raw units a microsecond


def test_fifty_frames_a_second_one_for_each_reading():
    bench = Bench()
    bench.turns(51)
    frames = bench.lines("F")
    assert [int(words[2]) for words in frames] == list(range(51))
    assert int(frames[50][3]) - int(frames[0][3]) == 1000000


def test_energy_of_twelve_watts_over_ten_seconds():
    assert CONVERSION_US < PERIOD_US  # or a value could be counted twice
    bench = Bench()
    bench.turns(502)  # one to configure, one to start the clock
    last = bench.lines("F")[-1]
    assert int(last[4]) == 10000000
    assert energy(last) * 4e-8 / 100000 == 120.0


def test_hello_says_who_speaks_at_once_and_every_ten_seconds():
    bench = Bench()
    bench.turns(501)
    hellos = bench.lines("H")
    assert len(hellos) == 2
    assert hellos[0][1:] == [
        "1",
        "version=1.0.0",
        "id=e660",
        "boot=3fa2",
        "period_us=20000",
        "settings=default",
        "every=1",
        "shunt_offset=0",
        "shunt_uohm=100000",
    ]


def test_brown_out_is_flagged_and_invents_no_energy():
    bench = Bench()
    bench.turns(52)
    before = bench.lines("F")[-1]
    bench.chip.power_on()
    bench.turns(1)
    (during,) = bench.lines("F")
    assert (flags(during), during[4:9]) == (CHIP_RESET, before[4:9])
    bench.turns(10)
    after = bench.lines("F")[-1]
    assert flags(after) == 0
    # The first good reading starts the clock again: nine intervals of ten.
    assert int(after[4]) - int(before[4]) == 9 * PERIOD_US
    assert energy(after) - energy(before) == 9 * PERIOD_US * WATTS_12


def test_absent_chip_is_flagged_and_frames_go_on_without_energy():
    bench = Bench()
    bench.turns(10)
    before = bench.lines("F")[-1]
    bench.chip.plugged = False
    bench.turns(120)
    frames = bench.lines("F")
    assert [flags(words) for words in frames] == [NO_ANSWER] * 120
    assert energy(frames[-1]) == energy(before)
    bench.chip.plugged = True
    bench.turns(10)
    assert energy(bench.lines("F")[-1]) > energy(before)


def test_nobody_reading_for_minutes_costs_no_energy():
    bench = Bench()
    bench.turns(2)
    before = bench.lines("F")[-1]
    bench.room = 0
    bench.turns(3600 * 5)
    bench.room = 1 << 30
    bench.turns(1)
    after = bench.lines("F")[-1]
    assert energy(after) - energy(before) == (3600 * 5 + 1) * PERIOD_US * WATTS_12


def test_flag_of_a_dropped_frame_is_in_the_next_that_leaves():
    bench = Bench()
    bench.turns(52)
    bench.lines("F")
    bench.room = 0
    bench.chip.power_on()
    bench.turns(20)
    bench.room = 1 << 30
    bench.turns(2)
    frames = bench.lines("F")
    assert [int(words[2]) for words in frames] == [72, 73]
    assert [flags(words) for words in frames] == [CHIP_RESET, 0]


def test_host_that_reads_slowly_gets_whole_lines():
    bench = Bench()
    for _ in range(300):
        bench.room = 30  # a third of a line each turn
        bench.turns(1)
    bench.room = 1 << 30
    bench.turns(1)
    frames = bench.lines("F")  # unseal would refuse a torn line
    assert 60 < len(frames) < 200


def test_sequence_wraps_at_32_bits():
    bench = Bench()
    bench.meter._sequence = (1 << 32) - 1
    bench.turns(2)
    assert [words[2] for words in bench.lines("F")] == ["4294967295", "0"]


def test_setting_is_acknowledged_said_in_a_hello_and_kept():
    bench = Bench()
    kind, words, hellos = bench.ask("set shunt_uohm 2000")
    assert (kind, words) == ("A", "set shunt_uohm 2000")
    assert "shunt_uohm=2000" in hellos[-1]
    assert "settings=stored" in hellos[-1]
    again = Bench(keep=True)
    again.turns(1)
    assert "shunt_uohm=2000" in again.lines("H")[0]


def test_frames_can_be_made_rarer_without_losing_energy():
    bench = Bench()
    bench.turns(2)
    bench.ask("set every 50")
    bench.lines("F")
    bench.turns(500)
    frames = bench.lines("F")
    assert len(frames) == 10
    assert energy(frames[-1]) - energy(frames[0]) == 450 * PERIOD_US * WATTS_12


def test_offset_takes_effect_on_energy_at_once():
    bench = Bench()
    bench.ask("set shunt_offset 10")
    bench.turns(2)
    first = bench.lines("F")[-1]
    bench.turns(1)
    second = bench.lines("F")[-1]
    assert energy(second) - energy(first) == 9990 * 3000 * PERIOD_US


def test_refusals_say_why():
    bench = Bench()
    for text, reason in (
        ("set every 0", "every must be from 1 to 3000"),
        ("set every nan", "every is not a whole number of at most nine digits"),
        ("set volume 1", "no setting volume, there are every shunt_offset shunt_uohm"),
        ("set every", "no command set"),
        ("dance", "no command dance"),
        ("repl", "no command repl"),
    ):
        assert bench.ask(text)[:2] == ("R", reason)
    assert PATH not in os.listdir(".")


def test_command_without_a_good_checksum_or_tag_is_refused_and_changes_nothing():
    bench = Bench()
    for line in (
        b"AT\r\n",
        b"set every 50\n",
        seal("C 1 set every 50")[:-4] + b"\n",
        b"\x03\x04\n",
        seal("C " + "t" * 17 + " hello"),
    ):
        (answer,) = bench.send(line)
        assert answer[1] == "-"
    assert PATH not in os.listdir(".")


def test_longest_command_gets_an_answer_that_is_a_line():
    (answer,) = Bench().send(seal("C t set " + "n" * 220 + " 1"))
    assert answer[2:4] == ["no", "setting"]


def test_setting_that_cannot_be_stored_is_refused_and_not_in_force():
    bench = Bench()
    os.mkdir(PATH + ".new")
    try:
        kind, words, _ = bench.ask("set every 50")
    finally:
        os.rmdir(PATH + ".new")
    assert kind == "R"
    assert words.startswith("cannot store settings")
    bench.turns(10)
    assert len(bench.lines("F")) == 10


def test_setting_already_in_force_does_not_wear_the_flash():
    bench = Bench()
    bench.ask("set every 5")
    os.remove(PATH)
    assert bench.ask("set every 5")[0] == "A"
    assert PATH not in os.listdir(".")


def test_damaged_settings_and_a_restart_by_the_watchdog_are_in_the_first_frame():
    with open(PATH, "wb") as file:
        file.write(b"every=50")
    bench = Bench(keep=True, flags=WATCHDOG)
    bench.turns(2)
    first, second = bench.lines("F")
    assert flags(first) & (SETTINGS_DAMAGED | WATCHDOG) == SETTINGS_DAMAGED | WATCHDOG
    assert flags(second) & (SETTINGS_DAMAGED | WATCHDOG) == 0


def test_repl_is_acknowledged_before_it_is_entered():
    entered = []
    bench = Bench(maintain=lambda: entered.append(bench.sent))
    bench.incoming = seal("C t repl")
    bench.turns(2)
    assert seal("A t repl") in entered[0]


def test_turns_that_were_missed_are_not_made_up_for_nor_measured():
    bench = Bench()
    bench.turns(3)
    before = bench.lines("F")[-1]
    bench.clock.now_us += 1000000  # a flash write, say
    bench.turns(3)
    frames = bench.lines("F")
    uptimes = [int(words[3]) for words in frames]
    assert uptimes[0] - int(before[3]) > 1000000
    assert uptimes[1] - uptimes[0] <= PERIOD_US
    assert uptimes[2] - uptimes[1] == PERIOD_US
    assert int(frames[1][4]) - int(before[4]) <= PERIOD_US


def test_flood_of_noise_from_the_host_does_not_stop_the_readings():
    bench = Bench()
    flood = bytes(range(256)) * 16

    def endless():
        bench.clock.now_us += 1000
        return flood

    bench.read = endless
    bench.turns(50)
    assert len(bench.lines("F")) > 40
