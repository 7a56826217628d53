"""One server's commissioning and arming in the controller: time, readings, and the journal.

`commissioning` and `arming` decide; this module has the clock.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final, Protocol

from naproxy.controller.context import BoxContext
from naproxy.controller.counting import Counting
from naproxy.controller.sighting import Seeable, Sighting
from naproxy.core.reason import Reason, plain, stored_reason, together
from naproxy.core.request import WakeRequest
from naproxy.core.state import State
from naproxy.drivers.sleep import Counted
from naproxy.server import stages as stages_
from naproxy.server.arming import Arming
from naproxy.server.around import Around
from naproxy.server.commissioning import (
    EVERY_S,
    Cancel,
    Commissioning,
    Drawn,
    Entered,
    Event,
    Inhibited,
    Order,
    Passed,
    Phase,
    Plan,
)
from naproxy.server.machine_io import Transition
from naproxy.server.services import NEVER, Service
from naproxy.server.stages import Stage
from naproxy.server.wake_advice import Way, advise

_PASSED_BEFORE: Final = "armed"
"""An earlier version's value for `Phase.PASSED`."""
WAKE_REQUEST: Final = WakeRequest("command", Reason("server.commissioned_now"))


class Supervised(Seeable, Protocol):
    """The part of a server's runner that is used here."""

    async def counted(self) -> Counted | None:
        """Ask the server which visits it counted that did not come through the box."""

    def services(self) -> list[Service]:
        """Return what else the server does, as far as it is known."""

    def power_w(self) -> float | None:
        """Return what it draws now; None without a meter, or if it does not say."""

    def wake(self, wake_request: WakeRequest) -> None:
        """Somebody needs the server."""

    def sleep(self, reason: Reason, *, by_hand: bool = False) -> list[Reason]:
        """Put the server to sleep unless something speaks against it; return what does."""

    def supervised(self, *, running: bool) -> None:
        """Hear that a commissioning began or ended."""


class Supervisor:
    """Whether a server is armed, and the commissioning that is under way, if one is."""

    def __init__(self, box: BoxContext, server: str, runner: Supervised) -> None:
        """Take up what the journal knows."""
        self._journal = journal = box.journal
        self._day = box.day
        self._server = server
        self._runner = runner
        self._timer: asyncio.TimerHandle | None = None
        self.commissioning: Commissioning | None = None
        self._before: tuple[Stage, ...] = ()
        """The stages of the last commissioning before it that has some."""
        self.arming = Arming(server)
        saved = journal.saved(self._arming_key)
        self.arming.load(saved)
        self.sighting = Sighting(journal, server, runner, box.look, box.served, wall=time.time)
        self.around = Around()
        self.around.load(journal.saved(self._around_key))
        self._counting = Counting(
            lambda: runner.state() is State.AWAKE, runner.counted, self._counted
        )
        self.interrupted = saved.get("running") is True
        """The controller ended amid a commissioning: the server may be asleep, unproven."""

    @property
    def _arming_key(self) -> str:
        return f"arming.{self._server}"

    @property
    def _around_key(self) -> str:
        return f"around.{self._server}"

    @property
    def _report_key(self) -> str:
        return f"commissioning.{self._server}"

    @property
    def running(self) -> bool:
        """Is a commissioning under way?"""
        return self.commissioning is not None and not self.commissioning.ended

    def inhibitors(self) -> list[Reason]:
        """Return why the policy may not put the server to sleep."""
        if self.commissioning and self.running:
            cycle, cycles = self.commissioning.number, self.commissioning.plan.cycles
            return [Reason("server.commissioning", cycle=cycle, cycles=cycles)]
        why_not = self.arming.why_not or self.around.blind(self._day())
        return [why_not] if why_not else []

    # Commissioning

    def start(self, plan: Plan) -> None:
        """Begin, unless one is under way."""
        assert not self.running, "a server has one commissioning at a time"
        kept = self._journal.saved(self._report_key)
        self._before = stages_.load(kept.get("stages")) or stages_.load(kept.get("before"))
        self.commissioning = Commissioning(plan, time.monotonic(), self._runner.state())
        self._save()
        self._runner.supervised(running=True)
        self._tick()

    def cancel(self) -> None:
        """End it; the server ends awake."""
        self.send(Cancel())

    def _tick(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(EVERY_S, self._tick)
        self.send(Drawn(self._runner.power_w()))
        self.send(Passed())

    def send(self, event: Event) -> None:
        """Pass an observation to a commissioning under way, and carry out its effects."""
        commissioning = self.commissioning
        if commissioning is None or not self.running:
            return
        orders = commissioning.step(time.monotonic(), event)
        if commissioning.ended:
            self._ended(commissioning)
        for order in orders:
            if order is Order.WAKE:
                self._runner.wake(WAKE_REQUEST)
            elif inhibitors := self._runner.sleep(WAKE_REQUEST.why, by_hand=True):
                self.send(Inhibited(tuple(inhibitors)))

    def _ended(self, commissioning: Commissioning) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if commissioning.phase is Phase.PASSED:
            self.arming.prove()
            self.arming.live.proved(time.time())
        elif commissioning.disproved and commissioning.reason:
            self.arming.trip(commissioning.reason)
        self._save()
        self._journal.save(self._report_key, self._result(commissioning) | {"t_s": time.time()})
        self._runner.supervised(running=False)

    def _result(self, commissioning: Commissioning) -> dict[str, Any]:
        """Return what is kept of a commissioning."""
        return commissioning.status(time.monotonic()) | {"before": stages_.plain(self._before)}

    # Observations

    def entered(
        self,
        change: Transition,
        took_s: float | None,
        slept: bool,
        stages: tuple[Stage, ...] = (),
    ) -> None:
        """Hear of a change of state; `slept`: the server had been put to sleep by us.

        `stages` are those of the wake that ended with it.
        """
        if change.state is State.TROUBLE and slept and not self.arming.tripped:
            self.arming.trip(change.reason)
            self._save()
        self.look()
        if change.state is State.AWAKE and self.interrupted:
            self.interrupted = False
            self._save()
        self.send(Entered(change.state, change.reason, took_s, stages))

    def look(self) -> None:
        """Look for visitors past the box, if the server is awake."""
        self.sighting.awake()
        self._counting.awake()

    def _counted(self, counted: Counted) -> None:
        if self.around.counted(self._day(), counted.run, counted.visits, counted.here):
            self._journal.save(self._around_key, self.around.dump())

    def past(self, number: int) -> None:
        """Hear that so many visitors are connected to the server now, and not through the box."""
        self.around.connected(time.time(), self._day(), number)
        self._journal.save(self._around_key, self.around.dump())

    def through(self) -> None:
        """Hear of a visitor, not a robot, who came through the box."""
        if self.around.through(self._day()):
            self._journal.save(self._around_key, self.around.dump())

    def visited(self, http_s: float | None, https_s: float | None) -> bool:
        """Hear when visitors reached the server's name; return whether the box waited for them."""
        waited = self.arming.live.waits
        if self.arming.live.visited(http_s, https_s, time.time()):
            self._save()
        return waited is not None and not self.arming.live.waits

    def unanswered(self) -> Reason | None:
        """Say what the office is to choose before this server sleeps for the first time."""
        if self.arming.shown:
            return None
        found = self._runner.services()
        open_ = [each for each in found if each.unanswered and each.proposal == NEVER]
        why = [Reason("server.unanswered", service=each.name) for each in open_]
        return together(*why) if why else None

    # By hand

    def arm(self) -> Reason | None:
        """Close the breaker; return why the server still is not armed, None if it is."""
        why_not = self.arming.reset()
        self._save()
        return why_not

    def confirm_live(self) -> None:
        """Take a person's word that visitors come through the box."""
        self.arming.live.confirm(time.time())
        self._save()

    # Telling and keeping

    def report(self) -> dict[str, Any]:
        """Return progress, or the last result; empty if there never was a commissioning."""
        if self.commissioning:
            report = self._result(self.commissioning)
        elif kept := self._journal.saved(self._report_key):
            report = _of_now(kept)
        else:
            return {}
        # One that was passed arms only a server whose visitors come through the box.
        return report | {"armed": not self.arming.why_not}

    def wake_stages(self) -> dict[str, Any]:
        """Return where the seconds of its wakes go, and how to save some.

        The stages are of the last commissioning, of the one before it, and of the last wake.
        """
        server, report = self._runner.server, self.report()
        way = Way(server.sleep.state, server.address)
        measured, before = (stages_.load(report.get(name)) for name in ("stages", "before"))
        last = None if self.running else self._journal.last_stages(self._server)
        advice = advise(measured or (last[1] if last else ()), way)
        return {
            "stages": stages_.plain(measured),
            "before": stages_.plain(before),
            "last": last and {"t_s": last[0], "stages": stages_.plain(last[1])},
            "advice": [each.plain() for each in advice],
        }

    def status(self) -> dict[str, Any]:
        """Return what belongs into the server's status."""
        why_not = self.arming.why_not
        progress = self.commissioning.status(time.monotonic()) if self.commissioning else None
        return {
            "armed": not why_not,
            "not_armed": why_not.plain() if why_not else None,
            "commissioning": progress if self.running else None,
            "live": self.arming.live.status(),
            "https": {**self.sighting.status(), "around": self._around()},
        }

    def _around(self) -> dict[str, Any] | None:
        """Return what came past the box; None where the server's way to sleep does not tell."""
        day, around, how = self._day(), self.around, self._runner.server.sleep.driver
        if how != "ssh" and not (how == "agent" and around.tells):
            return None
        days = {"today": around.on(day), "yesterday": around.on(day - 1)}
        return {**days, "total": around.total, "how": how}

    def stop(self) -> None:
        """Stop: a commissioning under way is cut off, and the server called."""
        self.sighting.stop()
        self._counting.stop()
        if self._timer:
            self._timer.cancel()
        if self.running and self._runner.state() is not State.AWAKE:
            self._runner.wake(WAKE_REQUEST)

    def _save(self) -> None:
        # A server whose failed wake is forgotten would be put to sleep again.
        vital = self.arming.tripped is not None
        kept = self.arming.dump() | {"running": self.running}
        self._journal.save(self._arming_key, kept, vital=vital)


def _of_now(report: dict[str, Any]) -> dict[str, Any]:
    """Return a report that was kept, perhaps by a Naproxy that kept sentences for reasons."""
    no_fit = report.pop("fit_words", None) or report.get("no_fit")
    notes = report.get("notes")
    passed = report.get("phase") in (Phase.PASSED.value, _PASSED_BEFORE)
    return report | {
        "phase": Phase.PASSED.value if passed else report.get("phase"),
        "passed": passed,
        "reason": stored_reason(report["reason"]).plain() if report.get("reason") else None,
        "notes": plain(map(stored_reason, notes if isinstance(notes, list) else ())),
        "no_fit": stored_reason(no_fit).plain() if no_fit else None,
    }
