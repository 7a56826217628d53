"""The Pico's own part, with fakes for what only a Pico has: pins, USB, its clock."""

import os

import machine
from helpers import forget, raises
from machine import State

from naproxy_meter import pico
from naproxy_meter.accumulator import PERIOD_US, WATCHDOG
from naproxy_meter.frame import seal, unseal

WRAP = 1 << 30  # of rp2's ticks_us


class Board:
    """Takes the place of `time`, `select`, `sys` and `micropython` in pico.py."""

    POLLIN = 1
    POLLOUT = 4

    def __init__(self, ticks=WRAP - 100000):
        forget(pico.SETTINGS_PATH, pico.MAINTENANCE_PATH)
        pico.time = pico.select = pico.sys = pico.micropython = self
        self.stdin = self.stdout = self.buffer = self
        self.ticks = ticks
        self.interrupt = 3  # the character that breaks in
        self.sent = b""
        self.room = 1 << 30  # bytes the host still takes
        self.incoming = b""
        self.turns_left = 0
        machine.mem32[pico.REASON_REGISTER] = 0
        State.feeds = State.clocks = 0
        State.chip.clock = lambda: self.ticks
        State.chip.power_on()

    # time
    def ticks_us(self):
        return self.ticks % WRAP

    def ticks_diff(self, late, early):
        return ((late - early + WRAP // 2) % WRAP) - WRAP // 2

    def sleep_us(self, us):
        self.ticks += us

    def sleep_ms(self, ms):
        self.ticks += 1000 * ms

    # micropython
    def kbd_intr(self, character):
        self.interrupt = character

    # select
    def poll(self):
        return Poll(self)

    # sys.stdin.buffer and sys.stdout.buffer
    def read(self, size):
        assert size == 1
        assert self.incoming, "this read would wait for the host"
        data, self.incoming = self.incoming[:1], self.incoming[1:]
        return data

    def write(self, data):
        assert len(data) == 16, "what is left of the port's buffer would not fit the next write"
        assert len(data) <= self.room, "this write would wait for the host"
        self.room -= len(data)
        self.sent += data
        return len(data)

    def going(self):
        self.turns_left -= 1
        return self.turns_left >= 0

    def start(self, turns):
        self.turns_left = turns
        pico.main(self.going)

    def run(self, turns):
        """Words of the lines sent in so many turns."""
        self.start(turns)
        return [unseal(line).split(" ") for line in self.sent.split(b"\n") if line]


class Poll:
    def __init__(self, board):
        self.board = board
        self.events = 0

    def register(self, stream, events):
        self.events |= events

    def poll(self, timeout_ms):
        board = self.board
        ready = (self.events & board.POLLIN and board.incoming) or (
            self.events & board.POLLOUT and board.room
        )
        if not ready:
            board.ticks += max(1000 * timeout_ms, 10)
        return [1] if ready else []


def test_frames_flow_and_the_clock_survives_the_wrap_of_the_ticks():
    lines = Board(ticks=WRAP - 100000).run(51)
    frames = [words for words in lines if words[0] == "F"]
    assert len(frames) == 51
    assert abs(int(frames[50][3]) - int(frames[0][3]) - 50 * PERIOD_US) < 2000
    assert int(frames[50][8]) > 0


def test_start_names_the_chip_frees_a_stuck_bus_and_turns_control_c_off():
    board = Board()
    hello = board.run(1)[0]
    assert hello[0] == "H"
    assert "id=e660583883724a32" in hello
    assert State.clocks == 18, "nine times up and down"
    assert board.interrupt == -1


def test_watchdog_is_fed_once_a_turn():
    Board().run(20)
    assert State.feeds == 21


def test_restart_by_the_watchdog_is_flagged_and_one_by_command_is_not():
    for reason, flag in ((1, WATCHDOG), (2, 0)):
        board = Board()
        machine.mem32[pico.REASON_REGISTER] = reason
        frames = [words for words in board.run(2) if words[0] == "F"]
        assert int(frames[0][9], 16) & WATCHDOG == flag


def test_full_port_is_never_written_to():
    board = Board()
    board.room = 256  # the port's buffer; Board.write fails the test where a Pico would wait
    board.start(200)
    assert len(board.sent) == 256


def test_bytes_arrive_in_pieces_and_a_command_is_obeyed():
    board = Board()
    board.incoming = b"\x03\x00\xff\n" + seal("C 7 set every 10")
    lines = board.run(20)
    assert [words[:2] for words in lines if words[0] in "AR"] == [["R", "-"], ["A", "7"]]
    assert pico.SETTINGS_PATH in os.listdir(".")


def test_repl_restarts_the_board_and_the_next_start_ends_there_once():
    board = Board()
    board.incoming = seal("C 7 repl")
    raises(machine.Reset, board.run, 5)
    assert seal("A 7 repl") in board.sent
    board.sent = b""
    assert board.run(5) == []
    assert len(board.run(5)) > 0
