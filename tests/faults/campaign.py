"""One cycle after the other: awake, falling asleep, asleep, waking; a fault in one of these."""

import contextlib
import dataclasses
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.e2e.clock import Clock
from tests.faults.kinds import ASLEEP, AWAKE, FALLING, FAULTS, WAKING, Fault, Scene, small_disk
from tests.faults.visitors import Visitors
from tests.faults.watch import Watch, shown
from tests.fixed import WATCHED
from tests.patience import wait_for
from tests.simulator.office import Office, Settings
from tests.simulator.office.namespace import ROOT

QUICK = Settings(sleep_s=0.2, wake_s=0.2)
CONFIG: dict[str, Any] = {
    "server": {
        "sleep": {"timeout_s": 5.0},
        "ready": {"asleep_interval_s": 0.5},
    }
}
"""What a server that is watched closely has; the rest is the office's."""

EARLY = 0.3
"""So many of the storms come while the server still falls asleep."""


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """What one cycle showed; times in seconds."""

    number: int
    fault: str
    phase: str
    visits: int
    lost: int
    asked_again: int
    sent_again: int
    sent_twice: int
    longest_wait_s: float
    wrong_state_s: float
    unknown_s: float
    took_s: float
    words: list[str]
    """What was lost, sent again or wrong, and what went wrong with the cycle itself."""
    failed: bool = False


def drawn(seed: int, number: int) -> tuple[str, str, random.Random]:
    """Return fault, phase and dice of a cycle: the same for the same seed and number.

    The kinds come in rounds, each round in another order: each as often as the others.
    """
    kinds = list(FAULTS)
    turn, place = divmod(number, len(kinds))
    random.Random(f"{seed} {turn}").shuffle(kinds)
    dice = random.Random(f"{seed} {turn} {place}")
    return kinds[place], dice.choice(FAULTS[kinds[place]].phases), dice


class Campaign:
    """Cycles in one office."""

    def __init__(self, scene: Scene, seed: int):
        self.scene = scene
        self.seed = seed
        self._read = 0

    def cycle(self, number: int) -> Row:
        """Run one cycle; whatever goes wrong is in the row."""
        kind, phase, dice = drawn(self.seed, number)
        fault, words, begun_s = FAULTS[kind], [], time.monotonic()
        visitors = Visitors(self.scene.office, dice, fault.cuts)
        with Watch(self.scene.office) as watch:
            try:
                with visitors:
                    self._turn(fault, phase, visitors, dice)
            except Exception as error:
                words.append(f"{type(error).__name__}: {error}")
            finally:
                fault.mend(self.scene)
                self._forget_starts()
        failed = bool(words)
        verdict = watch.verdict()
        lost = [visit for visit in visitors.visits if visit.wrong]
        words += [f"{v.kind} after {v.waited_s:.1f} s: {v.wrong}" for v in lost]
        sent_again = [visit.kind for visit in visitors.visits if visit.sent_again]
        words += [f"{kind} sent again" for kind in sent_again]
        if verdict.wrong_s > 2:
            words.append(f"{verdict.what} for {verdict.wrong_s:.1f} s")
        ids = {i for v in visitors.visits if v.kind in ("post", "websocket") for i in v.ids}
        received = self._received()
        return Row(
            number=number,
            fault=kind,
            phase=phase,
            visits=len(visitors.visits),
            lost=len(lost),
            asked_again=sum(visit.asked - 1 for visit in visitors.visits),
            sent_again=len(sent_again),
            sent_twice=sum(received[each] > 1 for each in ids),
            longest_wait_s=round(max((v.waited_s for v in visitors.visits), default=0.0), 3),
            wrong_state_s=verdict.wrong_s,
            unknown_s=verdict.unknown_s,
            took_s=round(time.monotonic() - begun_s, 2),
            words=words,
            failed=failed,
        )

    def _turn(self, fault: Fault, phase: str, visitors: Visitors, dice: random.Random) -> None:
        scene = self.scene

        def now(name: str) -> None:
            if name == phase:
                fault.strike(scene, dice)

        visitors.storm()
        now(AWAKE)
        visitors.answered()
        scene.await_awake()
        early = dice.random() < EARLY
        self._order_sleep()
        time.sleep(dice.uniform(0, 1.5 if early else 0.4))
        now(FALLING)
        if not early:
            scene.sleep()
            time.sleep(dice.uniform(0, 0.3))
        now(ASLEEP)
        visitors.storm()
        time.sleep(dice.uniform(0, 0.6))
        now(WAKING)
        visitors.answered()
        fault.mend(scene)
        scene.await_awake()
        scene.office.server.board.reset(QUICK)

    def _forget_starts(self) -> None:
        """Let the cycles not add up to what no box lives through: starts amid new settings.

        A controller that starts three times in the first minute of new settings goes back to those
        before. Here that minute has a dozen cycles, and new settings and kills are in each round.
        """
        self.scene.office.box.config_file.with_name("naproxy.starts").unlink(missing_ok=True)

    def _order_sleep(self) -> None:
        """Ask once; the controller may be away."""
        with contextlib.suppress(Exception):
            self.scene.office.box.api("POST", "/v1/servers/web/sleep", {})

    def _received(self) -> Counter[str]:
        """Count the requests that reached the server since the last time, by their id."""
        requests = self.scene.office.server.requests()
        new, self._read = requests[self._read :], len(requests)
        return Counter(request["id"] for request in new)


@contextlib.contextmanager
def campaign(seed: int, logs: Path = ROOT / "build/faults") -> Iterator[Campaign]:
    """Make an office, and a box whose clock can step and whose disk can be full."""
    with Office(keep=logs, board=QUICK) as office, small_disk(office.box.data_dir):
        office.box.fixed = WATCHED
        office.box.start(**CONFIG)
        office.box.stop()
        scene = Scene(office, Clock(office.directory))
        scene.start_controller()
        office.box.start_varnish(scene.clock.environment())
        wait_for(lambda: shown(office) == "awake", "the server to be seen")
        try:
            yield Campaign(scene, seed)
        finally:
            office.box.stop()
