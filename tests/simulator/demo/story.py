"""What happens, in words: the mainboard, the wake ledger and the visits become one story."""

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from queue import Empty
from typing import Any

from naproxy.core.classify import Agents
from naproxy.core.reason import stored_reason
from naproxy.core.state import Klass
from naproxy.lab.replay.replay_report import BY_CACHE
from naproxy.lab.replay.replay_visit import Visit

from tests.simulator.demo import cast
from tests.simulator.demo.power import TABLE_4_2
from tests.simulator.demo.screen import Screen, clock, plain
from tests.simulator.demo.visitors import Visitors
from tests.simulator.office import Office
from tests.simulator.office.mainboard import OFF, ON
from tests.simulator.office.namespace import OfficeError

Line = tuple[float, str, str]
"""Monotonic time, words, and the screen's kind."""
_GATHER_S = 5.0
"""Ordinary requests are told of together, this often."""
_SOME = 2
"""More of the same at once are told of together too."""
_WORDS = {
    Klass.PERSON: "a visitor",
    Klass.CRAWLER: "a crawler",
    Klass.MONITOR: "a monitor",
    Klass.FEED: "a feed reader",
    Klass.API: "a program",
    Klass.SCANNER: "a scanner",
}
_NEEDED = {
    # why the VMOD asked for the wake
    "page": "opens {what}, which is not in the cache",
    "miss": "asks for {what}, which is not in the cache",
    "pass": "sends {method} {what}, which no cache may answer",
    "pipe": "opens a lasting connection to {what}",
}
_TOLD = {
    # outcome, or case of it: words, the screen's kind
    "lost": ("LOST: {who}, {method} {what}: {why}.", "bad"),
    "waiting_page": ("{who} sees the waiting page instead of {what}.", ""),
    "returned": ("{who} is back and has {what}, {wait_s:.1f} s after asking.", ""),
    "held": ("{who} was held {wait_s:.2f} s, then answered: {method} {what}.", ""),
    "refused": ("{who} asks for {what}: told to come back (503), nobody is woken.", "robot"),
    "status": ("{who} asks how the server is, and is told; nobody is woken.", "robot"),
    "asleep": ("{who} has {what} from the cache, the server sleeps on.", "cache"),
    "cast": ("{who} has {what}, {wait_s:.3f} s after asking.", ""),
    "capped": ("{who}, {what}: told to come back, too many are waiting (503).", "bad"),
    "limit": ("{who}, {what}: told to come back, waited too long (503).", "bad"),
    "spent": ("{who}, {what}: told to come back, the share is used up (503).", ""),
    "error": ("{who}, {what}: told that the server does not answer (503).", "bad"),
}
_TOGETHER = {
    "held": "{} held requests are let go, and answered.",
    "refused": "{} requests of robots: told to come back (503), nobody is woken.",
    "hit": "{} requests answered from the cache, the server sleeps on.",
    "stale": "{} requests answered from the cache, the server sleeps on.",
}


class Story:
    """Looks at everything each time it is asked to, and tells what is new."""

    def __init__(self, office: Office, visitors: Visitors, screen: Screen, start_s: float) -> None:
        self._office = office
        self._visitors = visitors
        self._screen = screen
        self._start_s = start_s
        self._packet_s = self._ordered_s = start_s
        self._told_s = {
            "transition": start_s,
            "packet": start_s,
            "transitions": time.time(),
            "wakes": time.time(),
        }
        self._ordinary: list[Visit] = []
        self._gathered_s = start_s
        self._transitions: Sequence[Mapping[str, Any]] = ()
        self._agents = Agents()

    def go_on(self) -> None:
        """Tell what happened since the last time."""
        report = self._office.server.board.report()
        self._transitions = report["transitions"]
        lines = [
            *self._orders(),
            *self._board(report),
            *self._wakes(),
            *self._visits(),
        ]
        for t_s, words, kind in sorted(lines):
            self._screen.event(t_s - self._start_s, self._watts(t_s), words, kind)
        now_s = time.monotonic()
        if self._ordinary and now_s - self._gathered_s > _GATHER_S:
            self.tell_ordinary()
        self._standing(now_s)

    def tell_ordinary(self) -> None:
        """Tell of the requests that need no line of their own."""
        now_s = time.monotonic()
        if self._ordinary:
            cached = sum(visit.outcome in BY_CACHE for visit in self._ordinary)
            words = (
                f"{_many(len(self._ordinary), 'request')} from the log answered: "
                f"{cached} from the cache, {len(self._ordinary) - cached} by the server."
            )
            self._screen.event(now_s - self._start_s, self._watts(now_s), words, "quiet")
        self._ordinary.clear()
        self._gathered_s = now_s

    # ------------------------------------------------------------- the machine

    def _board(self, report: Mapping[str, Any]) -> Iterator[Line]:
        for packet in self._new("packet", report["packets"]):
            if packet["effect"] == "wake":
                self._packet_s = packet["t_s"]
                words = f"Magic packet on the wire, from {packet['source']}: the server starts."
                yield packet["t_s"], words, "awake"
        for change in self._new("transition", report["transitions"]):
            t_s = change["t_s"]
            if change["state"] == OFF:
                yield t_s, f"The server sleeps, {t_s - self._ordered_s:.1f} s later.", "asleep"
            elif change["state"] == ON:
                after_s = t_s - self._packet_s
                words = f"The server runs again, {after_s:.2f} s after the magic packet."
                yield t_s, words, "awake"

    def _orders(self) -> Iterator[Line]:
        """Tell what the controller decided, in its own words."""
        for t_s, row in self._rows("transitions"):
            reason = plain(str(stored_reason(row["reason"])).removesuffix("."), 100)
            if row["to"] == "falling_asleep":
                self._ordered_s = t_s
                yield t_s, f"The box tells the server to sleep: {reason}.", "asleep"
            elif row["to"] == "trouble":
                yield t_s, f"The server does not come up: {reason}.", "bad"

    def _wakes(self) -> Iterator[Line]:
        for t_s, row in self._rows("wakes"):
            who = self._who(row["who"], Klass.__members__.get(row["class"].upper()))
            cause = row["reason"] if row["class"] else ""
            what = _NEEDED.get(cause, "asks for {what}").format(
                what=plain(row["path"]), method=row["method"]
            )
            # It is written down a moment after the VMOD's own magic packet went out.
            yield t_s - 0.05, f"Server needed: {who} {what}.", "awake"

    def _rows(self, what: str) -> list[tuple[float, Mapping[str, Any]]]:
        """Return what the controller has written down since, with its monotonic time."""
        rows: list[dict[str, Any]] = []
        with contextlib.suppress(OSError, OfficeError):
            rows = self._office.box.api("GET", f"/v1/{what}?server=web&limit=5")[what]
        # The history goes by the wall clock.
        to_monotonic_s = time.monotonic() - time.time()
        return [(row["t_s"] + to_monotonic_s, row) for row in self._new(what, rows[::-1])]

    def _new(self, kind: str, happened: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        new = [each for each in happened if each["t_s"] > self._told_s[kind]]
        if new:
            self._told_s[kind] = new[-1]["t_s"]
        return new

    # ------------------------------------------------------------ the visitors

    def _visits(self) -> Iterator[Line]:
        alike: dict[str, list[Line]] = {}
        with contextlib.suppress(Empty):
            while True:
                t_s, visit = self._visitors.heard.get_nowait()
                words, kind = self._words(t_s, visit)
                if words:
                    alike.setdefault(visit.outcome, []).append((t_s, words, kind))
                else:
                    self._ordinary.append(visit)
        for outcome, lines in alike.items():
            if len(lines) > _SOME and outcome in _TOGETHER:
                t_s, _, kind = lines[-1]
                yield t_s, _TOGETHER[outcome].format(len(lines)), kind
            else:
                yield from lines

    def _words(self, t_s: float, visit: Visit) -> tuple[str, str]:
        """Return words for a visit and their kind; none for one that is ordinary."""
        case = visit.outcome
        if visit.lost:
            case = "lost"
        elif visit.returned:
            case = "returned"
        elif case in BY_CACHE and self._state(t_s) == OFF:
            case = "asleep"
        elif case not in _TOLD and visit.number >= cast.FIRST_NUMBER:
            case = "cast"
        words, kind = _TOLD.get(case, ("", ""))
        return words.format(
            who=self._who(visit.entry.host, self._agents.klass(visit.entry.agent)),
            what=plain(visit.entry.path),
            method=visit.entry.method,
            wait_s=visit.wait_s,
            why=plain(visit.why_lost),
        ), kind

    def _who(self, host: str, klass: Klass | None) -> str:
        if host in cast.NAMES:
            return f"[cast] {cast.NAMES[host]}"
        if klass is None:
            return plain(host, 40)  # the policy, or somebody at the controls
        return f"[log] {_WORDS[klass]} ({plain(host, 40)})"

    # ------------------------------------------------------------ how it stands

    def _state(self, t_s: float) -> str:
        """Return the mainboard's state at a time."""
        states = [change["state"] for change in self._transitions if change["t_s"] <= t_s]
        return states[-1] if states else ON

    def _watts(self, t_s: float) -> float:
        return TABLE_4_2.off_w if self._state(t_s) == OFF else TABLE_4_2.on_w

    def _standing(self, now_s: float) -> None:
        visits = list(self._visitors.visits)
        cached = sum(visit.outcome in BY_CACHE for visit in visits)
        state = "asleep" if self._state(now_s) == OFF else "awake"
        self._screen.standing(
            f"{clock(now_s - self._start_s)}   server {state}, {self._watts(now_s):.1f} W   "
            f"{_many(len(visits), 'request')}, {cached} from the cache, "
            f"{sum(visit.lost for visit in visits)} lost   Ctrl-C ends it "
        )


def _many(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
