"""The meter itself: one turn every 20 ms, commands in between. No hardware here."""

from . import settings
from .accumulator import CHIP_RESET, NO_ANSWER, NOT_READY, PERIOD_US, SETTINGS_DAMAGED, Accumulator
from .frame import FORMAT, SEQUENCES, Lines, frame, seal, unseal
from .ina219 import ChipReset, NotReady
from .outbox import Outbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from .ina219 import INA219

    class Port(Protocol):
        """The line to the host. None of these waits for the host."""

        def wait(self, timeout_us: int, writing: bool) -> None:
            """Until there is something to read, room to write if `writing`, or time is up."""

        def read(self) -> bytes:
            """What has arrived, a bounded amount of it."""

        def write(self, data: bytes) -> int:
            """Send what there is room for; how many bytes that was."""


VERSION = "1.0.0"
LONGEST_TAG = 16
TURNS_A_HELLO = 500  # a host that came late knows whom it hears within ten seconds


class Meter:
    """Reads the chip, sums, makes frames, obeys commands.

    `clock()` is microseconds since power on, never stepping back. `device` and
    `boot` identify the device and this run of it, in hexadecimal. `maintain()`
    is called a turn after the command `repl` was acknowledged, where there is a
    REPL.
    """

    def __init__(
        self,
        chip: "INA219",
        clock: "Callable[[], int]",
        settings_path: str,
        *,
        device: str,
        boot: str,
        flags: int = 0,
        maintain: "Callable[[], None] | None" = None,
    ) -> None:
        self.outbox = Outbox()
        self.sums = Accumulator()
        self._chip = chip
        self._clock = clock
        self._path = settings_path
        self._device = device
        self._boot = boot
        self._maintain = maintain
        self._leaving = False
        self._lines = Lines()
        self._turns = 0
        self._sequence = 0
        self._flags = 0  # those of the last frame, until it has left
        self._values, self._origin = settings.load(settings_path)
        self.sums.flags = flags
        if self._origin == settings.DAMAGED:
            self.sums.flags |= SETTINGS_DAMAGED

    def turn(self) -> None:
        """Take one reading; make a frame and a hello when they are due."""
        if self._leaving and self._maintain:
            self._maintain()
        now_us = self._read_chip()
        if self._turns % TURNS_A_HELLO == 0:
            self._hello()
        if self._turns % self._values["every"] == 0:
            self._make_frame(now_us)
        self._turns += 1

    def _read_chip(self) -> int:
        """When it was read: the one time of the turn, so that covered time never exceeds uptime."""
        try:
            shunt, bus = self._chip.read()
        except ChipReset:
            self.sums.miss(CHIP_RESET)
        except NotReady:
            self.sums.miss(NOT_READY)
        except OSError:
            self.sums.miss(NO_ANSWER)
        else:
            now_us = self._clock()
            self.sums.add(now_us, shunt, bus, self._values["shunt_offset"])
            return now_us
        return self._clock()

    def _make_frame(self, now_us: int) -> None:
        if not self.outbox.frame_waits():
            self._flags = 0
        self._flags |= self.sums.take_flags()
        self.outbox.frame(frame(self._boot, self._sequence, now_us, self.sums, self._flags))
        self._sequence = (self._sequence + 1) % SEQUENCES

    def _hello(self) -> None:
        values = " ".join(f"{name}={self._values[name]}" for name in sorted(self._values))
        self.outbox.reply(
            seal(
                f"H {FORMAT} version={VERSION} id={self._device} boot={self._boot}"
                f" period_us={PERIOD_US} settings={self._origin} {values}"
            )
        )

    def receive(self, data: bytes) -> None:
        """Obey the commands that `data` completes, or refuse them with a reason."""
        for line in self._lines.feed(data):
            tag = "-"
            try:
                tag, words = _command(unseal(line))
                self._obey(tag, words)
            except ValueError as reason:
                self.outbox.reply(seal(f"R {tag} {reason}"))

    def _obey(self, tag: str, words: "list[str]") -> None:
        acknowledgement = seal(f"A {tag} {' '.join(words)}")
        if words == ["hello"]:
            self.outbox.reply(acknowledgement)
            self._hello()
        elif words[0] == "set" and len(words) == 3:
            self._set(words[1], settings.check(words[1], words[2]))
            self.outbox.reply(acknowledgement)
            self._hello()
        elif words == ["repl"] and self._maintain:
            self.outbox.reply(acknowledgement)
            self._leaving = True
        else:
            raise ValueError(f"no command {words[0][:20]}")

    def _set(self, name: str, value: int) -> None:
        values = dict(self._values)
        values[name] = value
        if values == self._values and self._origin == settings.STORED:
            return  # flash wears
        try:
            settings.save(self._path, values)
        except OSError as error:
            raise ValueError(f"cannot store settings: {error}")  # noqa: B904
        self._values, self._origin = values, settings.STORED


def _command(text: str) -> "tuple[str, list[str]]":
    words = text.split(" ")
    if len(words) < 3 or words[0] != "C" or len(words[1]) > LONGEST_TAG:
        raise ValueError(f"not a command: C TAG WORDS, TAG of 1 to {LONGEST_TAG}")
    return words[1], words[2:]


def run(
    meter: Meter, clock: "Callable[[], int]", port: "Port", going: "Callable[[], bool]"
) -> None:
    """A turn every 20 ms, the host served in the time left, while `going()`.

    `going` is also where the watchdog is fed: once a turn, never in between.
    """
    due_us = clock()
    while going():
        meter.turn()
        now_us = clock()
        while due_us <= now_us:
            due_us += PERIOD_US  # turns missed are missed, not made up for in a hurry
        while True:
            meter.outbox.pump(port.write)
            left_us = due_us - clock()
            if left_us <= 0:
                break
            port.wait(left_us, not meter.outbox.empty())
            meter.receive(port.read())
