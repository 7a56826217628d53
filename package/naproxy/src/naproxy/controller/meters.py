"""The meters of a box: each is listened to by a task, and heard again when it was lost."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final

from naproxy import drivers
from naproxy.core.reading import PowerSample
from naproxy.core.reason import Reason
from naproxy.core.state import State
from naproxy.drivers.meter import Fault, MeterDriver, MeterSettings, Reading, Site
from naproxy.drivers.metering import (
    Adapter,
    Energy,
    Gatherer,
    Watch,
    checked,
    energy_between,
    patience_s,
)

_LOG: Final = logging.getLogger(__name__)
FIRST_WAIT_S: Final = 1.0
MOST_WAIT_S: Final = 30.0
"""A meter that was lost is looked for after 1, 2, 4 ... 30 s."""

KEPT_S: Final = 3600
QUICK_S: Final = 0.25
"""A meter that reads no more seldom tells when a server's power rises."""
TICK_S: Final = 1.0

Sink = Callable[[str, PowerSample], None]


class Meter:
    """One meter: its last reading, its problem, and its last hour."""

    def __init__(
        self,
        options: MeterSettings,
        site: Site,
        expected_w: float,
        *,
        house_s: Callable[[], float],
        deliver: Sink,
    ) -> None:
        """`expected_w` is the configured saving by sleep; `start` opens the device."""
        self.options = options
        self.site = site
        self.driver: MeterDriver = drivers.driver("meter", options, site)
        self.watch = Watch(expected_w)
        self.faults: Counter[str] = Counter()
        self.problem: Reason | None = Reason("meter.nothing_yet")
        self.seconds: deque[PowerSample] = deque(maxlen=KEPT_S)
        self._adapter = Adapter(
            tuple(zip(options.adapter_w, options.adapter_efficiency, strict=True)),
            options.adapter_idle_w,
        )
        self._gatherer = Gatherer(self.driver.about.period_s)
        self._house_s = house_s
        self._deliver = deliver
        self._task: asyncio.Task[None] | None = None
        self._state: State | None = None
        self._reading: Reading | None = None
        self._heard_s: float | None = None
        self._lost = False

    def start(self) -> None:
        """Listen, if it does not yet."""
        if self._task is None:
            self._task = asyncio.ensure_future(self._listen())

    def stop(self) -> None:
        """Let go of the device."""
        if self._task:
            self._task.cancel()

    async def let_go(self) -> None:
        """Let go of the device, and have done so: `start` takes it again."""
        if self._task:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None
        self.problem = Reason("meter.lent")

    async def _listen(self) -> None:
        wait_s = FIRST_WAIT_S / 2
        while True:
            begun_s = self._heard_s
            try:
                async with aclosing(self.driver.readings()) as readings:
                    async for item in readings:
                        self._take(item)
                fault = Fault("lost", "meter.ended")
            except Fault as error:
                fault = error
            except Exception as error:
                # A driver's own fault must not take the box with it.
                fault = Fault("lost", "meter.driver_failed", error=repr(error))
            self._wrong(fault)
            wait_s = FIRST_WAIT_S if self._heard_s != begun_s else min(2 * wait_s, MOST_WAIT_S)
            self.problem = Reason("meter.again", why=fault.reason, every_s=wait_s)
            if not self._lost:
                _LOG.warning("meter %s: %s", self.options.id, fault)
                self._lost = True
            await asyncio.sleep(wait_s)

    def _take(self, item: Reading | Fault) -> None:
        try:
            if isinstance(item, Fault):
                raise item
            reading = self._adapter.mains(checked(item))
        except Fault as fault:
            self._wrong(fault)
            self.problem = fault.reason
            return
        if self._lost:
            _LOG.info("meter %s: heard again", self.options.id)
            self._lost = False
        now_s = self._house_s()
        self.problem = None
        self._reading, self._heard_s = reading, now_s
        self._look(now_s)
        self.watch.reading(now_s, reading)
        self._gatherer.take(now_s, reading)
        self.gather()

    def _look(self, now_s: float) -> None:
        """Tell the watch of a change of the server's state; an estimate may follow it freely."""
        state = self.site.state()
        if state is not None and state is not self._state and not self.driver.about.estimated:
            self.watch.entered(now_s, state)
        self._state = state

    def _wrong(self, fault: Fault) -> None:
        self.faults[fault.kind] += 1

    def gather(self) -> None:
        """Deliver the seconds that are over."""
        for second in self._gatherer.seconds(self._house_s()):
            self.seconds.append(second)
            self._deliver(self.options.id, second)

    def power_w(self) -> float | None:
        """Return the last reading; None if it is too old to be true now."""
        age_s = self.age_s()
        if self._reading is None or age_s is None:
            return None
        return self._reading.power_w if age_s <= patience_s(self.driver.about.period_s) else None

    def age_s(self) -> float | None:
        """Return how old the last reading is; None if there was none."""
        return None if self._heard_s is None else self._house_s() - self._heard_s

    def wrong(self) -> Reason | None:
        """Say what is wrong with the meter, or None."""
        if self.problem is None and self.power_w() is None:
            return Reason("meter.silent_for", silent_s=self.age_s() or 0)
        return self.problem or self.watch.odd

    def status(self) -> dict[str, Any]:
        """Return what the control API says of this meter."""
        power_w, age_s, about = self.power_w(), self.age_s(), self.driver.about
        wrong = self.wrong()
        return {
            "id": self.options.id,
            "of": self.options.of,
            "driver": self.options.driver,
            "power_w": None if power_w is None else round(power_w, 3),
            "age_s": None if age_s is None else round(age_s, 1),
            "measures": self._measures(),
            "estimated": about.estimated,
            "period_s": about.period_s,
            "accuracy": about.accuracy,
            "problem": wrong.plain() if wrong else None,
            "notes": list(self._reading.notes) if self._reading else [],
            "faults": dict(self.faults),
        }

    @property
    def port(self) -> str:
        """Return the serial port that it is at; empty if it is at none."""
        options = self.options
        by_usb = getattr(options, "via", "usb") == "usb"
        return getattr(options, "device", "") if by_usb else ""

    def _measures(self) -> str:
        curve = self._adapter.points or self._adapter.idle_w
        measures = self.driver.about.measures
        return f"{measures}; shown with its adapter's loss" if curve else measures


class Meters:
    """All meters. `sinks` get each second of each meter, by its id."""

    def __init__(
        self,
        epoch_s: float = 0.0,
        state: Callable[[str], State | None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Seconds are on the house's clock: `epoch_s` added to `clock`.

        `state` says in which state a server is seen.
        """
        self.sinks: list[Sink] = []
        self._epoch_s = epoch_s
        self._clock = clock
        self._meters: dict[str, Meter] = {}
        self._state = state
        self._ticking: asyncio.TimerHandle | None = None

    def house_s(self) -> float:
        """Return the time by the clock that seconds have."""
        return self._epoch_s + self._clock()

    def use(self, options: Iterable[MeterSettings], servers: Iterable[Any]) -> None:
        """Take a configuration: its `[[meter]]` and `[[server]]`; unchanged meters go on."""
        known = {server.id: server for server in servers}
        old, self._meters = self._meters, {}
        for wanted in options:
            server = known.get(wanted.of)
            kept = old.get(wanted.id)
            address = server.address if server else "127.0.0.1"
            if kept and kept.options == wanted and kept.site.address == address:
                self._meters[wanted.id] = old.pop(wanted.id)
                continue
            expected_w = server.power.on_w - server.power.off_w if server else 0.0
            self._meters[wanted.id] = self._made(wanted, address, expected_w)
        for gone in old.values():
            gone.stop()
        for meter in self._meters.values():
            meter.start()
        if self._meters and not self._ticking:
            self._tick()

    def _made(self, options: MeterSettings, address: str, expected_w: float) -> Meter:
        site = Site(address, lambda: self._state(options.of))
        return Meter(
            options,
            site,
            expected_w,
            house_s=self.house_s,
            deliver=self._deliver,
        )

    def _deliver(self, meter: str, second: PowerSample) -> None:
        for sink in self.sinks:
            sink(meter, second)

    def _tick(self) -> None:
        for meter in self._meters.values():
            meter.gather()
        self._ticking = asyncio.get_running_loop().call_later(TICK_S, self._tick)

    def stop(self) -> None:
        """Let go of all devices."""
        if self._ticking:
            self._ticking.cancel()
        for meter in self._meters.values():
            meter.gather()
            meter.stop()

    def ports(self) -> dict[str, tuple[str, str | None]]:
        """Return each port that a meter has: its id, and its firmware as reported."""
        return {
            os.path.realpath(port): (name, getattr(meter.driver, "firmware", None))
            for name, meter in self._meters.items()
            if (port := meter.port)
        }

    @asynccontextmanager
    async def lent(self, port: str) -> AsyncIterator[None]:
        """Let go of a port as long as somebody else needs it."""
        real = os.path.realpath(port)
        lent = [each for each in self._meters.values() if os.path.realpath(each.port) == real]
        for meter in lent:
            await meter.let_go()
        try:
            yield
        finally:
            for meter in lent:
                if self._meters.get(meter.options.id) is meter:
                    meter.start()

    def _of(self, whose: str) -> list[Meter]:
        """Return somebody's meters: those that measure before those that estimate."""
        found = [meter for meter in self._meters.values() if meter.options.of == whose]
        return sorted(found, key=lambda meter: meter.driver.about.estimated)

    def power_w(self, whose: str) -> float | None:
        """Return what a server or the box draws now; None if no meter that can be believed says.

        Estimates do not count.
        """
        for meter in self._of(whose):
            power_w = meter.power_w()
            if not meter.driver.about.estimated and not meter.watch.odd and power_w is not None:
                return power_w
        return None

    def quick_w(self, whose: str) -> float | None:
        """Return the same; None if its meter reads too seldom to tell when a server wakes."""
        quick = any(meter.driver.about.period_s <= QUICK_S for meter in self._of(whose)[:1])
        return self.power_w(whose) if quick else None

    def energy(self, whose: str, start_s: float, end_s: float) -> Energy | None:
        """Return what was measured between two times by the house's clock, at most an hour ago.

        None if nothing was, or only estimated. A second is there a moment after it is over.
        """
        for meter in self._of(whose):
            if not meter.driver.about.estimated and not meter.watch.odd:
                found = energy_between(meter.seconds, start_s, end_s)
                if found:
                    return found
        return None

    def status(self) -> list[dict[str, Any]]:
        """Return what the control API says of all meters."""
        return [meter.status() for meter in self._meters.values()]

    def seconds(self, since_s: float) -> list[dict[str, Any]]:
        """Return the meters' seconds after `since_s`, at most the last hour's, oldest first."""
        found = [
            {"meter": name, **dataclasses.asdict(second)}
            for name, meter in self._meters.items()
            for second in meter.seconds
            if second.t_s > since_s
        ]
        return sorted(found, key=lambda row: (row["t_s"], row["meter"]))

    def summary(self, whose: str) -> dict[str, Any] | None:
        """Return the status of the first of somebody's meters that says something, if any."""
        found = self._of(whose)
        if not found:
            return None
        return next((m for m in found if m.power_w() is not None), found[0]).status()
