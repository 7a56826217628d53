"""What the host makes of the meter's lines. Pure: bytes and times come in, readings go out.

Energy is the difference of two accumulators, so frames that were dropped on the
way, by the device or by the line, cost resolution in time and no energy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from .accumulator import (
    CHIP_RESET,
    CLIPPED,
    LATE,
    NO_ANSWER,
    NOT_READY,
    SETTINGS_DAMAGED,
    WATCHDOG,
)
from .frame import FORMAT, SEQUENCES, LineError, Lines, seal, unseal

SHUNT_UNIT_V = 10e-6
BUS_UNIT_V = 4e-3

FLAG_NAMES = {
    NO_ANSWER: "the chip did not answer",
    CHIP_RESET: "the chip lost its supply and was set up again",
    NOT_READY: "the chip had nothing converted yet",
    CLIPPED: "the current is beyond the shunt's range: the true energy is larger",
    LATE: "readings came too late and were not counted",
    SETTINGS_DAMAGED: "the stored settings were damaged: calibrate again",
    WATCHDOG: "the watchdog restarted the meter",
}

# Larger than anything the firmware can reach: 74 years at the chip's full scale.
LARGEST = 1 << 79
LARGEST_PRODUCT = 32768 * 8191  # |shunt| x bus of one reading

SILENCE_S = 3.0
# So many frames refused in a row, and it is the frame before them that was wrong.
REFUSALS_BEFORE_START = 10


class MeterFault(ValueError):  # noqa: N818  # the field's word for it
    """What is wrong with a line, a frame or its absence. `kind` is its name.

    Of a line: huge, noise, cut, doubled, checksum (frame.py), format, not_a_number, negative.
    Of a frame: doubled, backwards, huge, no_hello. Of time: silence.
    """

    def __init__(self, kind: str, words: str) -> None:
        super().__init__(f"{kind}: {words}")
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Frame:
    """Sums since the device started; units in docs/meter.md."""

    boot: str
    sequence: int
    uptime_us: int
    covered_us: int
    readings: int
    shunt: int
    bus: int
    energy: int
    flags: int


@dataclass(frozen=True, slots=True)
class Hello:
    """Who speaks, and with which settings."""

    version: str
    id: str
    boot: str
    settings: str
    period_us: int
    shunt_uohm: int
    shunt_offset: int
    every: int


@dataclass(frozen=True, slots=True)
class Reply:
    """The device's answer to the command of that tag."""

    tag: str
    accepted: bool
    words: str


@dataclass(frozen=True, slots=True)
class Reading:
    """What lies between two frames of one run of the device."""

    energy_j: float  # what was measured; nothing is filled in for the rest
    energy: int  # the same before the shunt: 10 uV x 4 mV x us, exact
    covered_s: float  # the part of elapsed_s that was measured
    elapsed_s: float  # by the device's clock
    readings: int
    lost_frames: int
    power_w: float | None  # mean over covered_s, None when that is zero
    voltage_v: float | None  # mean at the load
    current_a: float | None
    flags: tuple[str, ...]


def parse(line: bytes) -> Frame | Hello | Reply:
    """One line without its end. Raises MeterFault."""
    try:
        kind, *words = unseal(line).split(" ")
    except LineError as error:
        raise MeterFault(error.kind, str(error).partition(": ")[2]) from None
    if kind == "F":
        return _frame(words)
    if kind == "H":
        return _hello(words)
    if kind in {"A", "R"} and len(words) >= 2:
        return Reply(words[0], kind == "A", " ".join(words[1:]))
    raise MeterFault("format", f"no line of kind {kind[:20]!r} with {len(words)} words")


def command(tag: str, words: str) -> bytes:
    """A line that asks the device for something: `hello`, `set NAME VALUE`, `repl`."""
    return seal(f"C {tag} {words}")


def joules(energy: int, shunt_uohm: int) -> float:
    """Raw energy (10 uV x 4 mV x us) over a shunt of `shunt_uohm`, in joules."""
    return energy * SHUNT_UNIT_V * BUS_UNIT_V / shunt_uohm


def _integer(text: str, *, signed: bool = False, base: int = 10) -> int:
    digits = text.removeprefix("-")
    if not digits.isalnum() or any(
        character not in "0123456789abcdef"[:base] for character in digits
    ):
        raise MeterFault("not_a_number", repr(text[:30]))
    value = int(text, base)
    if value < 0 and not signed:
        raise MeterFault("negative", f"{value} where only growth is possible")
    if abs(value) > LARGEST:
        raise MeterFault("huge", f"a number of {len(digits)} digits")
    return value


def _frame(words: list[str]) -> Frame:
    if len(words) != 9:
        raise MeterFault("format", f"a frame has 9 fields, not {len(words)}")
    boot, sequence, uptime_us, covered_us, readings, shunt, bus, energy, flags = words
    frame = Frame(
        boot,
        _integer(sequence),
        _integer(uptime_us),
        _integer(covered_us),
        _integer(readings),
        _integer(shunt, signed=True),
        _integer(bus),
        _integer(energy, signed=True),
        _integer(flags, base=16),
    )
    if frame.sequence >= SEQUENCES:
        raise MeterFault("huge", f"sequence number {frame.sequence}")
    return frame


def _hello(words: list[str]) -> Hello:
    if words[:1] != [FORMAT]:
        raise MeterFault("format", f"format {words[:1]} is not {FORMAT}: update meter or box")
    values = dict(word.partition("=")[::2] for word in words[1:])
    try:
        hello = Hello(
            values["version"],
            values["id"],
            values["boot"],
            values["settings"],
            _integer(values["period_us"]),
            _integer(values["shunt_uohm"]),
            _integer(values["shunt_offset"], signed=True),
            _integer(values["every"]),
        )
    except KeyError as error:
        raise MeterFault("format", f"the hello lacks {error}") from None
    if hello.shunt_uohm == 0:
        raise MeterFault("format", "a shunt of 0 ohm")
    return hello


class Tracker:
    """Follows one device: from frames to readings.

    `now_s` is the caller's clock and serves to notice silence only; all
    durations are the device's own.
    """

    def __init__(self, now_s: float, silence_s: float = SILENCE_S) -> None:
        self.hello: Hello | None = None
        self.restarts = 0
        self.faults: Counter[str] = Counter()  # by kind
        self._silence_s = silence_s
        self._heard_s = now_s
        self._last: Frame | None = None
        self._refused = 0
        self._lines = Lines()

    def feed(self, data: bytes, now_s: float) -> Iterator[Reading | Hello | Reply | MeterFault]:
        """What `data` completes, in order. Faults too: the line after a bad one may be good."""
        for line in self._lines.feed(data):
            try:
                item = self.accept(parse(line), now_s)
            except MeterFault as fault:
                self.faults[fault.kind] += 1
                yield fault
            else:
                if item is not None:
                    yield item

    def accept(self, item: Frame | Hello | Reply, now_s: float) -> Reading | Hello | Reply | None:
        """Take one parsed line. A first frame is only a start: None. Raises MeterFault."""
        if isinstance(item, Hello):
            self.hello = item
        if not isinstance(item, Frame):
            return item
        if self.hello is None or self.hello.boot != item.boot:
            raise MeterFault("no_hello", f"run {item.boot} has not said which shunt it has")
        last = self._last
        if last is not None and last.boot != item.boot:
            self.restarts += 1
            last = None
        try:
            reading = None if last is None else self._difference(last, item, self.hello.shunt_uohm)
        except MeterFault:
            self._refused += 1
            if self._refused == REFUSALS_BEFORE_START:
                self._last, self._refused = None, 0
            raise
        self._last, self._refused = item, 0
        self._heard_s = now_s
        return reading

    def check_silence(self, now_s: float) -> None:
        """Raise MeterFault when no good frame came for too long. Silence is not 0 W."""
        silent_s = now_s - self._heard_s
        if silent_s > self._silence_s:
            raise MeterFault("silence", f"no frame for {silent_s:.1f} s")

    @staticmethod
    def _difference(last: Frame, frame: Frame, shunt_uohm: int) -> Reading:
        steps = (frame.sequence - last.sequence) % SEQUENCES
        if steps == 0:
            raise MeterFault("doubled", f"frame {frame.sequence} came twice")
        elapsed_us = frame.uptime_us - last.uptime_us
        covered_us = frame.covered_us - last.covered_us
        readings = frame.readings - last.readings
        if elapsed_us <= 0 or covered_us < 0 or readings < 0 or steps > SEQUENCES // 2:
            raise MeterFault("backwards", f"frame {frame.sequence} after {last.sequence}")
        energy = frame.energy - last.energy
        if covered_us > elapsed_us or abs(energy) > 2 * LARGEST_PRODUCT * covered_us:
            raise MeterFault(
                "huge", f"frame {frame.sequence} claims more than the chip can measure"
            )
        energy_j = joules(energy, shunt_uohm)
        measured = covered_us > 0 and readings > 0
        shunt_v = (frame.shunt - last.shunt) / readings * SHUNT_UNIT_V if measured else 0.0
        return Reading(
            energy_j=energy_j,
            energy=energy,
            covered_s=covered_us / 1e6,
            elapsed_s=elapsed_us / 1e6,
            readings=readings,
            lost_frames=steps - 1,
            power_w=energy_j / (covered_us / 1e6) if measured else None,
            voltage_v=(frame.bus - last.bus) / readings * BUS_UNIT_V if measured else None,
            current_a=shunt_v / (shunt_uohm / 1e6) if measured else None,
            flags=tuple(words for bit, words in FLAG_NAMES.items() if frame.flags & bit),
        )
