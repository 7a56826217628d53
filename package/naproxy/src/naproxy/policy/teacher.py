"""The stream is the teacher: imagined servers try every rule on the live stream.

Each *candidate* is an imagined server that falls asleep after its own idle time, takes the real
time to fall asleep and to wake, and sees the real requests. Its savings and delays are counted
exactly, because requests are seen while the real server sleeps, too. Every hour the real server
takes the rule of the candidate that saved most among those that delayed no larger a share than may
be spent; it sleeps when that rule says so *and* the running budget holds. Nothing is trained,
nothing is tuned to a site: a candidate's record decays with a week. The first day is for learning:
a plain timeout until a candidate has shown better, and no budget; the promise holds from the second
day on.

Candidates come in classes (`Kind`) that differ in two things.

- Rhythm: idle times are scaled by how busy this hour of the week usually is, to the power of
  `exponent`. In quiet hours such a candidate sleeps sooner, in busy ones later. With exponent 0
  its idle time is a plain timeout.
- Presence: being idle means that no request came at all, even for the cache. The first request,
  though served by the cache, wakes the server for the requests that will follow.

docs/deciding.md has the variants that were tried, with their gains.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from naproxy.core.hours import local_hour
from naproxy.core.reason import Reason, together
from naproxy.core.schema import fixed, option
from naproxy.core.state import Klass, State
from naproxy.policy import Setup
from naproxy.policy.base import Decision, Policy, Request

TIMEOUTS: Final = 32
SHORTEST_S: Final = 2.0
LONGEST_S: Final = 24 * 3600.0

_HOUR_S: Final = 3600.0
_DAY_S: Final = 86400.0
_WEEK_H: Final = 168
_RECORD_S: Final = 7 * _DAY_S  # a candidate's record decays over this time,
_RHYTHM_S: Final = 14 * _DAY_S  # and the rhythm of the week over this
_VISIT_S: Final = 30.0  # a request that needs the server after so long begins a visit
_QUIETEST: Final = 0.1  # of a mean hour
_MOST_SPENT: Final = 3.0  # times the promised fraction, when much of the budget is left
_FEW: Final = 50.0  # requests: with fewer nothing is divided by them
_SAVED_UP_WEEKS: Final = 4.0  # more than these weeks' allowance is not kept
_UNTAUGHT_S: Final = 600.0  # the idle time in force before any candidate has shown a better one
_JUST_AFTER_S: Final = 1e-3
_PERSON, _API = Klass.PERSON, Klass.API


class Kind(NamedTuple):
    """The common properties of a class of candidates."""

    exponent: float
    presence: bool


KINDS: Final = (Kind(0.0, False), Kind(3.0, False), Kind(0.0, True), Kind(3.0, True))


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How delays are counted, and how much wear is allowed."""

    name: str = option("teacher: learn from the requests themselves", "teacher")
    counting: str = fixed("closed")
    """closed: a client waits once for each wake; open: each of its requests counts, as logs tell
    it, which only the lab reads."""
    most_cycles: int = option(
        "Most sleeps in a day, to spare the hardware; 0: no limit",
        0,
        low=0,
        high=100_000,
    )


class Rhythm:
    """How busy each hour of the week is, from the visits of the past, as a share of the mean."""

    def __init__(self) -> None:
        self._visits = [0.0] * _WEEK_H
        self._hours = [0.0] * _WEEK_H
        self.share = 1.0

    def visit(self, hour: int) -> None:
        """Count a visit."""
        self._visits[hour % _WEEK_H] += 1

    def begin(self, hour: int) -> None:
        """Begin an hour: `share` is what to expect of it. Hours are as `local_hour` counts."""
        hours, visits = sum(self._hours), sum(self._visits)
        self.share = 1.0
        if visits:
            mean = visits / hours
            near = ((hour - 1, 1.0), (hour, 2.0), (hour + 1, 1.0))
            # Days are alike, hours next to one another too; each level is trusted as it fills.
            week = range(0, _WEEK_H, 24)
            daily = self._rate(((h + day, w) for day in week for h, w in near), mean, 4.0)
            weekly = self._rate(near, daily, 6.0)
            self.share = max(weekly / mean, _QUIETEST)
        keep = math.exp(-_HOUR_S / _RHYTHM_S)
        self._visits = [n * keep for n in self._visits]
        self._hours = [n * keep for n in self._hours]
        self._hours[hour % _WEEK_H] += 1

    def _rate(self, slots: Iterable[tuple[int, float]], prior: float, weight: float) -> float:
        visits, hours = prior * weight, weight
        for slot, share in slots:
            visits += share * self._visits[slot % _WEEK_H]
            hours += share * self._hours[slot % _WEEK_H]
        return visits / hours

    def turn(self, hours: int) -> None:
        """Call each hour by the name of one that many later."""
        by = -hours % _WEEK_H
        self._visits = self._visits[by:] + self._visits[:by]
        self._hours = self._hours[by:] + self._hours[:by]

    def dump(self) -> dict[str, Any]:
        """Return what to keep over a restart."""
        return {"visits": list(self._visits), "hours": list(self._hours), "share": self.share}

    def load(self, saved: Mapping[str, Any]) -> None:
        """Take back what `dump` gave; KeyError, TypeError or ValueError if it does not fit."""
        visits, hours = _numbers(saved["visits"], _WEEK_H), _numbers(saved["hours"], _WEEK_H)
        (self.share,) = _numbers([saved["share"]], 1, low=_QUIETEST)
        self._visits, self._hours = visits, hours


class Candidates:
    """A class of imagined servers that differ only in how long they are idle before they sleep."""

    def __init__(self, kind: Kind, setup: Setup, *, closed: bool) -> None:
        self.kind = kind
        ratio = LONGEST_S / SHORTEST_S
        self.idle_s = [SHORTEST_S * ratio ** (n / (TIMEOUTS - 1)) for n in range(TIMEOUTS)]
        self.saved_s = [0.0] * TIMEOUTS  # asleep, less the break-even time of each sleep
        self.delayed = [0.0] * TIMEOUTS
        self.cycles = [0.0] * TIMEOUTS
        self.factor = 1.0  # of the idle times, this hour
        self.last_s = 0.0  # the last request that counts as activity
        self._hours: list[tuple[float, float]] = []  # since then: end, factor
        self._up_s = [-math.inf] * TIMEOUTS  # when the last wake ends
        self._waiting: list[set[int]] = [set() for _ in range(TIMEOUTS)]
        self._latest_up_s = -math.inf
        self._closed = closed
        self._break_even_s = setup.break_even_s
        self._sleep_s, self._wake_s, self._delta_s = setup.sleep_s, setup.wake_s, setup.delta_s

    def begin_hour(self, end_s: float, share: float) -> None:
        """Begin an hour that ends at `end_s`, `share` as busy as a mean one."""
        self.factor = share**self.kind.exponent
        self._hours.append((end_s, self.factor))
        # Of a weekend without a need only so many matter.
        del self._hours[:-_WEEK_H]

    def see(self, t_s: float, client: int, *, needs: bool) -> None:
        """A request comes, and `needs` the server or is served from the cache."""
        if needs and t_s < self._latest_up_s:
            self._wait(t_s, client)
        if not (needs or self.kind.presence):
            return
        last_s = self.last_s
        least = min([factor for _, factor in self._hours])
        for candidate, idle_s in enumerate(self.idle_s):
            if last_s + idle_s * least >= t_s:
                break  # nor has any of the more patient ones fallen asleep
            since_s = self._falls_asleep(max(last_s, self._up_s[candidate]), idle_s)
            if since_s < t_s:
                self._wake(candidate, since_s, t_s)
                if needs:
                    self._waiting[candidate].add(client)
                    self.delayed[candidate] += self._up_s[candidate] - t_s > self._delta_s
        self.last_s = t_s
        del self._hours[:-1]

    def _falls_asleep(self, idle_since_s: float, idle_s: float) -> float:
        """Return when a candidate sleeps whose idle time is `idle_s` in a mean hour."""
        begin_s = idle_since_s
        for end_s, factor in self._hours:
            due_s = max(begin_s, idle_since_s + idle_s * factor)
            if due_s < end_s:
                return due_s
            begin_s = max(begin_s, end_s)
        return math.inf

    def _wake(self, candidate: int, since_s: float, t_s: float) -> None:
        down_s = max(t_s, since_s + self._sleep_s)
        up_s = down_s + self._wake_s
        self.saved_s[candidate] += down_s - since_s - self._break_even_s
        self.cycles[candidate] += 1
        self._up_s[candidate] = up_s
        self._latest_up_s = max(self._latest_up_s, up_s)
        self._waiting[candidate].clear()

    def _wait(self, t_s: float, client: int) -> None:
        for candidate, up_s in enumerate(self._up_s):
            if up_s - t_s > self._delta_s:
                waiting = self._waiting[candidate]
                if not self._closed or client not in waiting:
                    self.delayed[candidate] += 1
                    waiting.add(client)

    def decay(self, keep: float) -> None:
        """Forget a little."""
        self.saved_s = [n * keep for n in self.saved_s]
        self.delayed = [n * keep for n in self.delayed]
        self.cycles = [n * keep for n in self.cycles]

    def best(self, most_delayed: float, most_cycles: float) -> tuple[float, float] | None:
        """Return seconds saved and idle time of the best one within these limits."""
        records = zip(self.saved_s, self.idle_s, self.delayed, self.cycles, strict=True)
        return max(
            (
                (saved_s, idle_s)
                for saved_s, idle_s, delayed, cycles in records
                if delayed <= most_delayed and cycles <= most_cycles and saved_s > 0
            ),
            default=None,
        )

    def dump(self) -> dict[str, Any]:
        """Return what to keep over a restart."""
        return {
            "saved_s": list(self.saved_s),
            "delayed": list(self.delayed),
            "cycles": list(self.cycles),
            "last_s": self.last_s,
        }

    def load(self, saved: Mapping[str, Any]) -> None:
        """Take back what `dump` gave; KeyError, TypeError or ValueError if it does not fit."""
        saved_s = _numbers(saved["saved_s"], TIMEOUTS, low=-math.inf)
        delayed, cycles = (_numbers(saved[key], TIMEOUTS) for key in ("delayed", "cycles"))
        (self.last_s,) = _numbers([saved["last_s"]], 1)
        self.saved_s, self.delayed, self.cycles = saved_s, delayed, cycles
        self._hours.clear()


class ShadowPolicy(Policy):
    """The policy; see the module."""

    name = "teacher"
    quiet_s = SHORTEST_S * _QUIETEST ** max(kind.exponent for kind in KINDS)

    def __init__(self, settings: Settings, setup: Setup) -> None:
        """`setup` has the promise and the server's times and powers."""
        self._fraction, self._delta_s = setup.fraction, setup.delta_s
        self._most_cycles = settings.most_cycles or math.inf
        closed = settings.counting == "closed"
        self._classes = [Candidates(kind, setup, closed=closed) for kind in KINDS]
        self._rhythm = Rhythm()
        self._requests = 0.0  # of the last week, decayed
        self._hours = 0.0  # of that week
        self._budget = 0.0  # delays that may still be spent
        self._begun_s: float | None = None
        self._lapsed = False
        self._hour = 0
        self._where = setup.where
        self._rule: tuple[int, float] | None = None  # class and idle time in force
        self._state = State.AWAKE
        self._awake_s = -math.inf  # since when the server is up
        self._slept_s = -math.inf  # when it last began to fall asleep
        # Whoever asked from the first until the second is over its share.
        self._forgotten_s = -math.inf, -math.inf
        # Delays of one wake, and a quantile of that, to be kept in reserve.
        self._delays = 0
        self._reserve = 2.0
        self._day = 0
        self._delays_today = self._cycles_today = 0

    def request(self, request: Request) -> None:
        """Learn of one request; robots' requests do not count."""
        klass = request.klass
        if klass is not _PERSON and klass is not _API:
            return
        t_s = request.t_s
        self._time(t_s)
        self._requests += 1
        self._budget += self._fraction
        if request.delay_s > self._delta_s:
            self._budget -= 1
            self._delays += 1
            self._delays_today += 1
        needs = request.needs_server
        if needs and t_s - self._classes[0].last_s > _VISIT_S:
            self._rhythm.visit(self._local)
        for candidates in self._classes:
            candidates.see(t_s, request.client, needs=needs)

    def counts(self, request: Request) -> bool:
        """Is it a reason to stay awake, or to wake, by the rule in force?"""
        if request.klass is not _PERSON and request.klass is not _API:
            return False
        return request.needs_server or self._presence

    @property
    def _presence(self) -> bool:
        return self._rule is not None and self._classes[self._rule[0]].kind.presence

    def forget(self, since_s: float) -> None:
        """Wait as if nobody had asked after that; the candidates have seen what they have seen."""
        self._awake_s = min(self._awake_s, since_s)
        self._forgotten_s = since_s, max(candidates.last_s for candidates in self._classes)

    @property
    def _local(self) -> int:
        """This hour by the office's clocks: the week's rhythm, and its days, go by these."""
        return local_hour(self._hour * _HOUR_S, self._where)

    def _time(self, t_s: float) -> None:
        """Let time pass to `t_s`: every hour the records decay and a rule is chosen."""
        if self._begun_s is None:
            self._begun_s = t_s
            self._hour = int(t_s // _HOUR_S)
            self._day = self._local // 24
            for candidates in self._classes:
                candidates.last_s = t_s
            self._begin_hour()
        # After a longer time without a word, or with a clock that was wrong, hours are skipped.
        self._hour = max(self._hour, int(t_s // _HOUR_S - _SAVED_UP_WEEKS * _WEEK_H))
        while t_s >= (self._hour + 1) * _HOUR_S:
            self._hour += 1
            self._end_hour()
            self._begin_hour()

    def _end_hour(self) -> None:
        keep = math.exp(-_HOUR_S / _RECORD_S)
        for candidates in self._classes:
            candidates.decay(keep)
        self._requests *= keep
        self._hours = (self._hours + 1) * keep
        now_s = self._hour * _HOUR_S
        allowance = self._fraction * max(self._requests, _FEW)
        self._budget = min(self._budget, _SAVED_UP_WEEKS * allowance)
        assert self._begun_s is not None
        if not self._lapsed and now_s + _HOUR_S > self._begun_s + _DAY_S:
            # From the second day on the promise holds, regardless of the first day's delays.
            self._lapsed = True
            self._budget = 0.0
        if self._local // 24 > self._day:
            self._day = self._local // 24
            self._delays_today = self._cycles_today = 0

    def _begin_hour(self) -> None:
        self._rhythm.begin(self._local)
        self._tell_candidates()
        self._choose()

    def _tell_candidates(self) -> None:
        for candidates in self._classes:
            candidates.begin_hour((self._hour + 1) * _HOUR_S, self._rhythm.share)

    def _choose(self) -> None:
        """Take the best rule whose share of delays may be spent from now on.

        That is the promised share, plus the budget's surplus over the next week. The budget keeps
        about one standard deviation of a week's delays in store against bad luck.
        """
        most = share = _MOST_SPENT * self._fraction
        if self._lapsed:
            store = math.sqrt(self._fraction * self._requests)
            share = self._fraction + (self._budget - store) / max(self._requests, _FEW)
        most_delayed = min(share, most) * self._requests
        most_cycles = self._most_cycles * self._hours / 24
        found = [
            (*best, number)
            for number, candidates in enumerate(self._classes)
            if (best := candidates.best(most_delayed, most_cycles)) is not None
        ]
        if found:
            _, idle_s, number = max(found)
            self._rule = number, idle_s
        else:
            trusted = not self._lapsed and self._fraction > 0
            self._rule = (0, _UNTAUGHT_S) if trusted else None

    def observed(self, t_s: float, state: State) -> None:
        """Learn of a transition; a wake that is over shows how many one wake delays."""
        known, self._state = self._state, state
        if state is State.ASLEEP and known is not State.FALLING_ASLEEP:
            self._slept_s = t_s  # found so at a start
        elif state is State.FALLING_ASLEEP:
            self._slept_s = t_s
            self._cycles_today += 1
        elif state is State.AWAKE:
            self._awake_s = t_s
            # A step towards the 0.8 quantile.
            self._reserve += 0.4 if self._delays > self._reserve else -0.1
            self._reserve = max(self._reserve, 0.0)
            self._delays = 0

    def decide(self, t_s: float) -> Decision:
        """Answer for `t_s`."""
        self._time(t_s)
        next_hour_s = (self._hour + 1) * _HOUR_S + _JUST_AFTER_S
        if self._state is State.ASLEEP and (why := self._why_wake()):
            return Decision(False, self._with_budget(why), next_hour_s, wake=True)
        if self._rule is None:
            reason = Reason("policy.nothing_learned")
            return Decision(False, self._with_budget(reason), next_hour_s)
        number, idle_s = self._rule
        candidates = self._classes[number]
        least_s = idle_s * candidates.factor
        last_s, (from_s, until_s) = candidates.last_s, self._forgotten_s
        if last_s <= until_s:
            last_s = min(last_s, from_s)
        since_s = max(last_s, self._awake_s)
        idle_s = t_s - since_s
        idle = Reason("policy.idle_of", idle_s=round(idle_s), least_s=round(least_s))
        if t_s <= since_s + least_s:
            at_s = since_s + least_s + _JUST_AFTER_S
            at_s = min(at_s, next_hour_s)
            return Decision(False, self._with_budget(idle), at_s, patient=True)
        if limit := self._limit():
            return Decision(False, self._with_budget(limit), next_hour_s)
        return Decision(True, self._with_budget(idle), next_hour_s)

    def _why_wake(self) -> Reason | None:
        """Return why a sleeping server should be woken ahead of need."""
        if self._presence and self._somebody_came():
            return Reason("policy.somebody_here")
        if self._broke() and self._slept_on_the_first_day():
            return Reason("policy.first_day_over")
        return None

    def _limit(self) -> Reason | None:
        """Return why the server must not sleep, however idle it is."""
        if self._broke():
            return Reason("policy.no_budget")
        if self._cycles_today >= self._most_cycles:
            return Reason("policy.enough_sleeps", times=self._cycles_today)
        return None

    def _broke(self) -> bool:
        return self._lapsed and self._budget < self._reserve

    def _somebody_came(self) -> bool:
        return any(s.last_s > self._slept_s for s in self._classes if s.kind.presence)

    def _slept_on_the_first_day(self) -> bool:
        begun_s = self._begun_s
        return begun_s is not None and begun_s <= self._slept_s < begun_s + _DAY_S

    def _with_budget(self, first: Reason) -> Reason:
        used = self._delays_today
        if not self._lapsed:
            return together(first, Reason("policy.first_day", used=used))
        allowed = used + max(0, math.floor(self._budget))
        return together(first, Reason("policy.budget_today", used=used, allowed=allowed))

    def spent(self) -> float:
        """Return the share of today's waits that are used up; on the first day none are limited."""
        used = self._delays_today
        return used / (used + max(0.0, self._budget)) if self._lapsed and used else 0.0

    def dump(self) -> dict[str, Any]:
        """Return what to keep over a restart."""
        return {
            # The name that earlier versions stored them by.
            "students": [candidates.dump() for candidates in self._classes],
            "rhythm": self._rhythm.dump() | {"local": True},
            "requests": self._requests,
            "hours": self._hours,
            "budget": self._budget,
            "reserve": self._reserve,
            "rule": None if self._rule is None else list(self._rule),
            "begun_s": self._begun_s,
            "lapsed": self._lapsed,
            "hour": self._hour,
            "day": self._day,
            "delays_today": self._delays_today,
            "cycles_today": self._cycles_today,
        }

    def load(self, saved: Mapping[str, Any]) -> None:
        """Restore the result of `dump`; ignore values that do not fit."""
        fresh = self.dump()
        try:
            self._take_back(saved)
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            self._take_back(fresh)

    def _take_back(self, saved: Mapping[str, Any]) -> None:
        for candidates, record in zip(self._classes, saved["students"], strict=True):
            candidates.load(record)
        self._rhythm.load(saved["rhythm"])
        self._requests, self._hours, self._reserve = _numbers(
            [saved["requests"], saved["hours"], saved["reserve"]], 3
        )
        (self._budget,) = _numbers([saved["budget"]], 1, low=-math.inf)
        begun_s = saved["begun_s"]
        self._begun_s = None if begun_s is None else _numbers([begun_s], 1)[0]
        self._lapsed = bool(saved["lapsed"])
        self._hour, self._day = int(saved["hour"]), int(saved["day"])
        if not saved["rhythm"].get("local"):  # it was by UTC, and so was the day
            self._rhythm.turn(self._local - self._hour)
            self._day = self._local // 24
        self._delays_today = int(saved["delays_today"])
        self._cycles_today = int(saved["cycles_today"])
        self._tell_candidates()
        self._rule = None
        if saved["rule"] is not None:
            number, idle_s = _numbers(saved["rule"], 2)
            if number >= len(KINDS):
                raise ValueError("no such class")
            self._rule = int(number), idle_s


def _numbers(values: Any, count: int, low: float = 0.0) -> list[float]:
    numbers = [float(value) for value in values]
    if len(numbers) != count or not all(math.isfinite(n) and n >= low for n in numbers):
        raise ValueError("not the numbers expected")
    return numbers


def make(settings: Settings, setup: Setup) -> ShadowPolicy:
    """Make the policy."""
    return ShadowPolicy(settings, setup)
