"""Meters of electrical power, and the common parts of their drivers.

A driver's `readings` opens the device and yields for ever. It yields a `Fault` for an invalid
line, and the next line may be good. It raises a `Fault` when the device is lost; the caller then
opens it again after a while. A silent device is a fault, never 0 W.
"""

from __future__ import annotations

import asyncio
import json
import math
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar

from naproxy.core.reason import Reason, WrongError
from naproxy.core.schema import fits, option, within
from naproxy.core.state import State
from naproxy.drivers.needs import Needs

DC_FEED: Final = "the DC feed of the board, without its adapter's loss"
MAINS: Final = "the mains plug"
SUPPLY: Final = "the server's power supplies, by its own management controller"
STRIP: Final = "the whole power strip"
BEHIND: Final = "everything behind the UPS"
NOTHING: Final = "nothing: it is computed"


is_host_or_address: Final = fits(r"(?!-)[^ @/?#[\]]+", Reason("config.host_or_address"))
is_file_or_empty: Final = fits(r"(/.*)?", Reason("config.path_or_empty"))

ITS_POWER: Final = Reason("meter.its_power")
ITS_COUNTER: Final = Reason("meter.its_counter")


class Fault(WrongError):  # noqa: N818 - the field's word for it
    """An error in a line, an answer or a device.

    `kind` names it: cut, doubled, checksum, noise, format, not_a_number, negative, huge,
    silence, refused, lost, tool.
    """

    def __init__(self, kind: str, code: str, /, **params: Any) -> None:
        """Take what `Reason` takes, besides the kind."""
        super().__init__(code, **params)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class About:
    """A meter's quantities, interval and accuracy."""

    measures: str
    period_s: float
    """Time between readings."""

    accuracy: str
    estimated: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """One reading: the mean power since the one before it, or as of now."""

    power_w: float
    energy_j: float | None = None
    """Measured by the device itself, over `covered_s` of the last `elapsed_s`."""

    covered_s: float | None = None
    elapsed_s: float | None = None
    counter_j: float | None = None
    """The device's own energy counter."""

    notes: tuple[str, ...] = ()
    """The device's description of itself."""


Readings = AsyncGenerator[Reading | Fault, None]


@dataclass(frozen=True, slots=True)
class Site:
    """Whose meter it is: the server's address, and the state it was seen in, if it is known."""

    address: str
    state: Callable[[], State | None]


@dataclass(frozen=True, kw_only=True)
class MeterSettings:
    """The keys that all meters have."""

    needs: ClassVar[Needs] = Needs()

    id: str = option(
        "Short name of the meter", low=1, high=31, check=fits("[a-z0-9-]*", Reason("config.id"))
    )
    of: str = option('What it measures: the id of a server, or "box" for this box', low=1, high=31)
    driver: str
    adapter_w: tuple[float, ...] = option(
        "If a DC meter sits behind an adapter, points of the adapter's efficiency curve: power"
        " drawn from the adapter in watts, increasing; empty: the reading counts as it is",
        (),
        high=20,
        check=within(0, 100000),
    )
    adapter_efficiency: tuple[float, ...] = option(
        "Efficiency at each of these points", (), high=20, check=within(0.01, 1)
    )
    adapter_idle_w: float = option(
        "What the adapter draws with nothing connected to it", 0.0, low=0, high=1000
    )


@dataclass(frozen=True, kw_only=True)
class PolledSettings(MeterSettings):
    """The keys of meters that are asked."""

    timeout_s: ClassVar[float] = 5.0
    """Longest wait for an answer."""

    interval_s: float = option("Time between readings", 1.0, low=0.1, high=60)


class MeterDriver(Protocol):
    """Reads one meter."""

    @property
    def about(self) -> About:
        """Its quantities, interval and accuracy."""

    def readings(self) -> Readings:
        """Open the device and yield what it says; Fault or OSError when it is lost."""


async def polled(interval_s: float, ask: Callable[[], Awaitable[Reading]]) -> Readings:
    """Ask at a fixed rate; one answer that is late does not shift those after it."""
    loop = asyncio.get_running_loop()
    due_s = loop.time()
    while True:
        yield await ask()
        due_s = max(due_s + interval_s, loop.time())
        await asyncio.sleep(due_s - loop.time())


Polled = TypeVar("Polled", bound=PolledSettings)


class PolledDriver(ABC, Generic[Polled]):
    """A meter that is asked, once a reading."""

    measures: str
    accuracy: str
    estimated = False

    def __init__(self, settings: Polled, site: Site) -> None:
        """Ask when readings are wanted."""
        self._settings = settings
        self._site = site

    @property
    def about(self) -> About:
        """Its quantities, interval and accuracy."""
        return About(self.measures, self._settings.interval_s, self.accuracy, self.estimated)

    def readings(self) -> Readings:
        """Yield a reading an interval."""
        return polled(self._settings.interval_s, self.ask)

    @abstractmethod
    async def ask(self) -> Reading:
        """Ask once."""


def number(value: object, what: str | Reason) -> float:
    """Return a device's value as a finite number; Fault if it is not one."""
    if isinstance(value, str):
        text = value.strip()
        try:
            # float() would also take inf, nan and 1_0.
            value = float(text) if set(text) <= set("0123456789+-.eE") else None
        except ValueError:
            value = None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Fault("not_a_number", "meter.not_a_number", what=what)
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        raise Fault("not_a_number", "meter.not_finite", what=what)
    return found


def json_object(text: bytes) -> dict[str, Any]:
    """Return the JSON object a device sent; Fault if it is not one."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise Fault("format", "meter.not_json", shown=shown(text)) from None
    if not isinstance(found, dict):
        raise Fault("format", "meter.not_object", shown=shown(text))
    return found


def shown(text: bytes | str) -> str:
    """Return the start of a device's text, safe to print."""
    words = text if isinstance(text, str) else text.decode(errors="replace")
    return repr(words if len(words) <= 60 else words[:60] + "...")
