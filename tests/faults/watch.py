"""What the box shows of its server's state, and for how long that was wrong."""

import threading
import time
from dataclasses import dataclass, field
from typing import Self

from naproxy.core.state import State

from tests.simulator.office import Office

EVERY_S = 0.02

NOBODY = "unknown"
RIGHT = {
    "on": {"awake", "falling_asleep"},
    "suspending": {"awake", "falling_asleep"},
    "off": {"asleep", "waking", "trouble"},
    "resuming": {"asleep", "waking", "trouble"},
}
"""What may be shown while the server is really so. `unknown` claims nothing, so is never wrong."""

Seen = tuple[float, str]
"""From this time (s, monotonic) on it is so."""


def shown(office: Office) -> str:
    """Return the state that the box shows; unknown when its controller gives no sign of life."""
    try:
        page = office.box.page()
    except (OSError, ValueError):
        return NOBODY
    stale_ms = time.monotonic() * 1e3 - page.heartbeat_us / 1e3
    if stale_ms > page.heartbeat_max_ms:
        return NOBODY
    return State(page.server[0].state).name.lower()


@dataclass(frozen=True, slots=True)
class Verdict:
    """The longest stretches, in seconds."""

    wrong_s: float
    unknown_s: float
    what: str
    """Which state was shown instead of which, at the start of the longest wrong stretch."""


def judge(claims: list[Seen], truths: list[Seen], end_s: float) -> Verdict:
    """Compare what was shown with what was so; both in order of time, up to `end_s`."""
    moments = sorted({t_s for t_s, _ in claims + truths if t_s < end_s} | {end_s})
    wrong = unknown = (0.0, "")
    since: dict[str, Seen] = {}
    for t_s in moments:
        claim, truth = _at(claims, t_s), _at(truths, t_s)
        bad = {
            "wrong": claim not in (NOBODY, "") and truth != "" and claim not in RIGHT[truth],
            "unknown": claim == NOBODY,
        }
        for kind, so in bad.items():
            if kind in since:
                begun_s, words = since[kind]
                if kind == "wrong":
                    wrong = max(wrong, (t_s - begun_s, words))
                else:
                    unknown = max(unknown, (t_s - begun_s, words))
            if not so:
                since.pop(kind, None)
            else:
                since.setdefault(kind, (t_s, f"{claim} instead of {truth}"))
    return Verdict(round(wrong[0], 3), round(unknown[0], 3), wrong[1])


def _at(seen: list[Seen], t_s: float) -> str:
    return next((what for since_s, what in reversed(seen) if since_s <= t_s), "")


@dataclass
class Watch:
    """Looks at the page all the time while it is entered."""

    office: Office
    claims: list[Seen] = field(default_factory=list)

    def __enter__(self) -> Self:
        self.begun_s = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self.end_s = time.monotonic()

    def verdict(self) -> Verdict:
        """Judge what was seen, by what the mainboard says."""
        transitions = self.office.server.board.report()["transitions"]
        truths = [(each["t_s"], each["state"]) for each in transitions]
        before = [seen for seen in truths if seen[0] <= self.begun_s][-1:]
        return judge(
            self.claims, before + [seen for seen in truths if seen[0] > self.begun_s], self.end_s
        )

    def _look(self) -> None:
        while not self._stop.wait(EVERY_S):
            state = shown(self.office)
            if not self.claims or self.claims[-1][1] != state:
                self.claims.append((time.monotonic(), state))
