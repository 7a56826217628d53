"""The console's reader, with what boot loaders and kernels say, and what never comes."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.image_vm.console import HALTED, Console, ConsoleError


class Wire:
    """The other end of a console; its clock goes on by a second whenever something arrives."""

    def __init__(self, directory: Path) -> None:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(directory / "sock"))
        listener.listen(1)
        self.now_s = 100.0
        self.halts = 0
        self.log = directory / "console.log"
        self.console = Console(
            directory / "sock", self.log, clock=self._tick, halted=self._count_halt
        )
        self.end, _ = listener.accept()
        listener.close()
        self.console.start()

    def _tick(self) -> float:
        self.now_s += 1
        return self.now_s

    def _count_halt(self) -> None:
        self.halts += 1

    def says(self, words: bytes, until: str) -> None:
        """Say something, and wait until `until` was read."""
        self.end.sendall(words)
        self.console.expect(until, 10)


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[Wire]:
    made = Wire(tmp_path)
    yield made
    made.end.close()
    made.console.join(10)
    made.console.close()


def test_words_are_found_and_their_groups(wire: Wire) -> None:
    wire.says(b"Kernel command line: rauc.slot=B panic=10\r\n", "panic")
    assert wire.console.expect(r"rauc\.slot=([AB])", 1)[1] == "B"


def test_each_halt_is_told_once_even_in_two_pieces(wire: Wire) -> None:
    halt = HALTED.encode()
    wire.says(halt[:9], HALTED[:9])
    wire.says(halt[9:] + b"\r\nU-Boot", "U-Boot")
    wire.says(b"Linux\r\n" + halt + b" again", "again")
    wire.says(b"end", "end")
    assert wire.halts == 2


def test_words_before_the_mark_do_not_count(wire: Wire) -> None:
    wire.says(b"slot A\n", "A\n")
    mark = wire.console.mark()
    wire.says(b"slot B\n", "B\n")
    assert wire.console.expect("slot (.)", 1, since=mark)[1] == "B"


def test_colours_and_cursor_movements_are_left_out_also_in_two_pieces(wire: Wire) -> None:
    wire.says(b"\x1b[2J\x1b[1;31mGRUB \x1b[", "GRUB")
    wire.says(b"0mloading\r\n", "loading")
    assert wire.console.text == "GRUB loading\n"


def test_words_that_do_not_come_are_named_with_what_came_last(wire: Wire) -> None:
    wire.says(b"Kernel panic - not syncing\n", "panic")
    with pytest.raises(ConsoleError, match=r"(?s)'login: '.*not within 0 s.*Kernel panic"):
        wire.console.expect("login: ", 0)


def test_a_console_that_ended_is_not_waited_for(wire: Wire) -> None:
    wire.says(b"bye\n", "bye")
    wire.end.close()
    with pytest.raises(ConsoleError, match="it ended"):
        wire.console.expect("login: ", 3600)


def test_it_tells_when_something_was_said(wire: Wire) -> None:
    wire.says(b"first\n", "first")
    wire.says(b"second\n", "second")
    text = wire.console.text
    assert wire.console.when(text.index("first")) == 101
    assert wire.console.when(text.index("second")) == 102
    with pytest.raises(ValueError, match="nothing was said"):
        wire.console.when(len(text))


def test_the_log_is_what_came_byte_by_byte(wire: Wire) -> None:
    wire.says(b"\x1b[0m\xff ok\n", "ok")
    assert wire.log.read_bytes() == b"\x1b[0m\xff ok\n"


def test_what_is_typed_arrives(wire: Wire) -> None:
    wire.console.send("root\n")
    assert wire.end.recv(10) == b"root\n"
