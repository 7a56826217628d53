"""Doubts about an access log."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from naproxy.core.reason import Reason
from naproxy.lab.estimate.logvalues import is_cloudflare

_ASKED: Final = 50_000  # requests whose clients are counted
_FEW_ASKED: Final = 50  # of fewer requests the clients tell nothing
_LOOKED_AT: Final = 500  # clients that are compared with a network's addresses
_WITHOUT_AGENT: Final = 0.1  # of requests: on real sites 0.1 to 3 % have no user agent
_SHORT_S: Final = 12 * 3600.0
"""A log of less shows no night."""
_FEW: Final = 20  # requests
_LONG_S: Final = 4 * 86400.0
"""An office that nobody asked anything of for so long was closed, or a file is missing."""
_MISSED: Final = 100
"""So many requests that come at these hours on other days are missing in a gap."""
_MOST_GAPS: Final = 100


@dataclass
class Trust:
    """Doubts about a log, gathered while it is read."""

    lines: int = 0
    entries: int = 0
    first_s: float = math.inf
    last_s: float = -math.inf
    without_agent: int = 0
    steps_back: int = 0  # over STEP_BACK_S
    furthest_back_s: float = 0.0
    twice: int = 0  # lines that another part of the log has, too
    left_out: int = 0  # lines of years that cannot be right
    wrong_years: list[tuple[int, str]] = field(default_factory=list)  # as examples
    asks: bool = True
    """Are the clients of further requests wanted?"""
    cut: bool = False
    unread: list[str] = field(default_factory=list)  # files of which no line could be read
    malformed: int = 0
    examples: list[tuple[int, str]] = field(default_factory=list)  # of those: line, its text, cut
    _clients: Counter[str] = field(default_factory=Counter)  # of people's first requests
    _asked: int = 0
    _long_s: list[tuple[float, float]] = field(default_factory=list)  # longest gaps: length, end
    _seconds: list[int] = field(default_factory=lambda: [0] * 60)
    _minute: int = 0
    _in_minute: int = 0
    _minutes: int = 0  # minutes with requests
    _hours: Counter[int] = field(default_factory=Counter)  # requests in each hour since 1970
    _squares: int = 0

    @property
    def span_s(self) -> float:
        """From the first to the last entry, in seconds."""
        return max(0.0, self.last_s - self.first_s)

    def see(self, t_s: float) -> None:
        """Take the time of the next entry, made never to step back."""
        if self.entries == 0:
            self.first_s = self.last_s = t_s
        gap_s = t_s - self.last_s
        if gap_s >= 600:
            self._long_s.append((gap_s, t_s))
            if len(self._long_s) > 1000:
                self._long_s = sorted(self._long_s, reverse=True)[:_MOST_GAPS]
        self.entries += 1
        self.last_s = t_s
        minute = int(t_s // 60)
        self._seconds[int(t_s) % 60] += 1
        if minute != self._minute:
            self._close_minute()
            self._minute = minute
        self._in_minute += 1

    def _close_minute(self) -> None:
        if self._in_minute:
            self._hours[self._minute // 60] += self._in_minute
            self._minutes += 1
            self._squares += self._in_minute**2
        self._in_minute = 0

    def ask(self, client: str) -> None:
        """Take the client of a request of a person or a program."""
        self._clients[client] += 1
        self._asked += 1
        self.asks = self._asked < _ASKED

    def problems(self) -> list[Reason]:
        """Return why the figures may be wrong; empty if nothing was found."""
        return [*self.doubts(), *self._notes()]

    def doubts(self) -> list[Reason]:
        """Return why no advice can be given."""
        return list(self._doubts())

    def _doubts(self) -> Iterator[Reason]:
        if not self.entries:
            yield Reason("log.empty")
        elif self.unread:
            yield Reason("log.unread", file=self.unread[0], count=len(self.unread))
        if self._half_unread:
            yield Reason("log.malformed", count=self.malformed, lines=self.lines)
        if self.entries and self.without_agent > _WITHOUT_AGENT * self.entries:
            yield Reason("log.no_agents", count=self.without_agent, requests=self.entries)
        yield from self._of_clients()
        holes, length_s = self._holes()
        if length_s > self.span_s / 10:
            yield Reason("log.holes", count=holes, length_s=length_s)
        if self._too_short:
            yield Reason("log.short", span_s=self.span_s)

    @property
    def _too_short(self) -> bool:
        return bool(self.entries) and (self.span_s < _SHORT_S or self.entries < _FEW)

    @property
    def _half_unread(self) -> bool:
        return self.malformed * 2 > self.lines

    def _of_clients(self) -> Iterator[Reason]:
        if self._asked < _FEW_ASKED:
            return
        [(client, requests)] = self._clients.most_common(1)
        if requests > 0.9 * self._asked:
            yield Reason("log.one_client", client=client)
        elif len(self._clients) > 0.95 * self._asked:
            yield Reason("log.client_each")
        else:
            some = list(self._clients)[:_LOOKED_AT]
            if sum(map(is_cloudflare, some)) > 0.5 * len(some):
                yield Reason("log.only_proxies")

    def _notes(self) -> Iterator[Reason]:
        """Say what makes the figures worse, but not worthless."""
        if self.entries:
            yield from self._of_times()
        if self.cut:
            yield Reason("log.cut")
        if self.malformed > self.lines / 100 and not self._half_unread:
            yield Reason("log.malformed", count=self.malformed, lines=self.lines)
        if self.entries >= 600 and max(self._seconds) > 0.99 * self.entries:
            yield Reason("log.minutes")
        elif self._alike():
            yield Reason("log.machine")

    def _of_times(self) -> Iterator[Reason]:
        if self.span_s < 2 * 86400 and not self._too_short:
            yield Reason("log.short", span_s=self.span_s)
        if self.wrong_years:
            line, text = self.wrong_years[0]
            yield Reason("log.wrong_years", count=self.left_out, line=line, text=text)
        if self.steps_back:
            yield Reason("log.overlap", count=self.steps_back, most_s=self.furthest_back_s)
        if self.twice:
            yield Reason("log.twice", count=self.twice)
        holes, length_s = self._holes()
        if holes and length_s <= self.span_s / 10:
            yield Reason("log.holes", count=holes, length_s=length_s)

    def _holes(self) -> tuple[int, float]:
        """Return how many gaps are too long for this traffic, and their length together."""
        per_s = self.entries / max(self.span_s, 1.0)
        holes = [
            gap_s
            for gap_s, end_s in sorted(self._long_s, reverse=True)[:_MOST_GAPS]
            if (gap_s >= _LONG_S and gap_s * per_s >= _FEW) or self._missed(gap_s, end_s) >= _MISSED
        ]
        return len(holes), sum(holes)

    def _missed(self, gap_s: float, end_s: float) -> float:
        """Return how many requests come at the hours of a gap on other days.

        Nights and weekends are quiet on all of them, so they do not count.
        """
        begin, end = int((end_s - gap_s) // 3600) + 1, int(end_s // 3600)
        if end - begin > _LONG_S / 3600:
            return 0  # told by its length
        return sum(self._usual(hour, range(begin, end)) for hour in range(begin, end))

    def _usual(self, hour: int, without: range) -> float:
        """Return the median of the requests at an hour of the day, on other days of its kind."""
        first, last = int(self.first_s // 3600) + 1, int(self.last_s // 3600)
        begin = hour - max(0, hour - first) // 24 * 24
        others = [
            self._hours[each]
            for each in range(begin, last, 24)
            if each not in without and _is_weekend(each) == _is_weekend(hour)
        ]
        return statistics.median(others) if others else 0.0

    def _alike(self) -> bool:
        minutes = self._minutes + bool(self._in_minute)
        if minutes < 120:
            return False
        mean = self.entries / minutes
        variance = (self._squares + self._in_minute**2) / minutes - mean**2
        # People come by chance: at least as varied as a Poisson process, variance = mean.
        return mean >= 2 and variance < 0.2 * mean


def _is_weekend(hour: int) -> bool:
    return (hour // 24 + 3) % 7 >= 5  # 1 January 1970 was a Thursday
