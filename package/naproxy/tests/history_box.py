"""A history on a box whose clocks are set by hand, and what its hours are filled with."""

import sqlite3
from pathlib import Path
from typing import Any

from naproxy.core.page_h import Outcome
from naproxy.core.reading import PowerSample
from naproxy.core.reason import own_words
from naproxy.core.state import Klass, State
from naproxy.history.block import unpack
from naproxy.history.tables import FILE, METER_BITS
from naproxy.history.write import agents
from naproxy.history.write.journal import Journal
from naproxy.history.write.writer import History
from naproxy.shm.events import Event

START_S = 1_700_000_040
HOUR_S = START_S // 3600 * 3600
DAY_S = 86400
GOOGLEBOT = agents.names().index("Googlebot")
CURL = agents.names().index("curl")


def second(t_s: int, mean_mw: int = 43_000, **changes: int) -> PowerSample:
    values = {
        "count": 50,
        "min_mw": mean_mw - 400,
        "max_mw": mean_mw + 400,
        "energy_mj": mean_mw,
        "covered_ms": 1000,
    }
    return PowerSample(t_s=t_s, mean_mw=mean_mw, **(values | changes))


class Box:
    """A history on a box whose clocks are set by hand."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.monotonic_s = 1000.0
        self.wall_s = float(START_S)
        self.synchronised = True
        self.boot = "first boot"
        self.start()

    def start(self) -> None:
        self.epoch_s = self.wall_s - self.monotonic_s
        self.journal = Journal(self.directory, lambda: self.wall_s)
        self.history = History(
            self.journal,
            self.epoch_s,
            monotonic=lambda: self.monotonic_s,
            wall=lambda: self.wall_s,
            synchronised=lambda: self.synchronised,
            boot=self.boot,
        )

    def stop(self) -> None:
        self.history.flush()
        self.journal.close()

    def restart(self) -> None:
        self.stop()
        self.start()

    def reboot(self, wall_s: float) -> None:
        self.stop()
        self.boot, self.monotonic_s, self.wall_s = f"{self.boot} again", 10.0, wall_s
        self.start()

    def pass_s(self, seconds: float) -> None:
        self.monotonic_s += seconds
        self.wall_s += seconds

    @property
    def house_s(self) -> float:
        return self.epoch_s + self.monotonic_s

    def meter(self, seconds: int, mean_mw: int = 43_000, meter: str = "web") -> None:
        """Time passes, and each second is measured."""
        for _ in range(seconds):
            self.history.add_second(meter, second(int(self.house_s), mean_mw))
            self.pass_s(1)

    def read(self, sql: str) -> list[tuple[Any, ...]]:
        reader = sqlite3.connect(f"file:{self.directory / FILE}?mode=ro", uri=True)
        try:
            return reader.execute(sql).fetchall()
        finally:
            reader.close()

    def seconds(self) -> list[int]:
        found = self.read("SELECT key, block FROM seconds ORDER BY key")
        return [s.t_s for key, blob in found for s in unpack((key >> METER_BITS) * 60, blob)]

    def energy(self, tier: str) -> int:
        return int(self.read(f"SELECT total(energy_mj) FROM {tier}")[0][0])


def event(box: Box, outcome: Outcome = Outcome.HIT, flags: int = 0) -> Event:
    return Event(
        *(1, int(box.monotonic_s * 1e6), 0, 0, 0, 0, 0),
        *(Klass.PERSON, outcome, flags, 200, 0),
    )


def asks(
    box: Box,
    agent: int = GOOGLEBOT,
    klass: int = Klass.CRAWLER,
    outcome: Outcome = Outcome.REFUSED,
    flags: int = 0,
) -> None:
    box.history.request(
        "web",
        Event(
            *(1, int(box.monotonic_s * 1e6), 0, 0, 0, agent, 0),
            *(klass, outcome, flags, 200, 0),
        ),
    )


def ask(
    box: Box,
    client: int = 7,
    outcome: Outcome = Outcome.HIT,
    *,
    flags: int = 0,
    klass: Klass = Klass.PERSON,
    delay_ms: int = 0,
    ago_s: float = 0.0,
) -> None:
    t_us = int((box.monotonic_s - ago_s) * 1e6)
    event = Event(1, t_us, client, 99, delay_ms, 0, 0, klass, outcome, flags, 200, 0)
    box.history.request("web", event)


def live(box: Box, state: State, minutes: int, *, metered: bool = True) -> None:
    """Time passes in a state, and the meter says what it should, if it says anything."""
    mean_mw = 43_000 if state is State.AWAKE else 2_000
    for n in range(60 * minutes):
        if metered:
            box.history.add_second("web", second(int(box.house_s), mean_mw))
        box.pass_s(1)
        if n % 60 == 59:
            box.history.tick()


def three_hours(box: Box) -> None:
    """Awake for 70 minutes, then asleep."""
    for state, minutes in ((State.AWAKE, 70), (State.ASLEEP, 130)):
        box.journal.transition("web", State.UNKNOWN, state, own_words("x"))
        live(box, state, minutes)
