"""When a system that was started is confirmed, when it gives way, when it stays nevertheless."""

from collections.abc import Callable
from typing import Any

from naproxy.update.health import LIMIT_S, SURE_S, Seen, UnhealthyError, watch, way_back
from naproxy.update.rauc import Slot, Slots

STAYS_S = 4000.0


def slots(*, other_good: bool = True, installed: str = "today") -> Slots:
    other = Slot("A", False, False, other_good, "1", "")
    return Slots("board", (other, Slot("B", True, True, False, "2", installed)))


class StopError(Exception):
    """Enough was seen."""


class Box:
    """A box whose time is made; `problem` says what is wrong at a time."""

    def __init__(self, problem: Callable[[float], str | None], **seen: Any) -> None:
        self.t_s = 1000.0
        self.began_s = self.t_s
        self.problem = problem
        self.done: list[tuple[str, float]] = []
        self.refusals = 0
        self._seen = Seen(**({"running": "B", "slots": slots(), "confirmed": None} | seen))

    def check(self) -> None:
        if words := self.problem(self.now_s() - self.began_s):
            raise UnhealthyError("core.own_words", text=words)

    def now_s(self) -> float:
        return self.t_s

    def sleep(self, time_s: float) -> None:
        self.t_s += time_s
        if self.t_s - self.began_s > STAYS_S:
            raise StopError

    def seen(self) -> Seen:
        return self._seen

    def confirm(self) -> None:
        if self.refusals:
            self.refusals -= 1
            raise UnhealthyError("RAUC is busy")
        self.done.append(("confirmed", self.t_s - self.began_s))

    def give_way(self) -> None:
        self.done.append(("gave way", self.t_s - self.began_s))

    def run(self) -> list[tuple[str, float]]:
        try:
            watch([self.check], self)
        except StopError:
            self.done.append(("stayed", self.t_s - self.began_s))
        return self.done


def test_a_system_in_order_is_confirmed_after_ten_seconds() -> None:
    assert Box(lambda _: None).run() == [("confirmed", SURE_S)]


def test_it_counts_anew_after_each_problem() -> None:
    box = Box(lambda t_s: "no" if t_s < 40 or t_s == 47 else None)
    assert box.run() == [("confirmed", 48 + SURE_S)]


def test_a_new_system_that_is_not_in_order_gives_way_after_five_minutes(said: list[str]) -> None:
    box = Box(lambda _: "Varnish does not answer")
    assert box.run() == [("gave way", LIMIT_S)]
    assert said[-1] == "the other system is started instead: Varnish does not answer"


def test_one_that_comes_and_goes_gives_way() -> None:
    box = Box(lambda t_s: "no" if t_s % 8 == 0 else None)
    assert box.run()[0][0] == "gave way"


def test_confirming_is_tried_again_before_it_gives_way(said: list[str]) -> None:
    for refusals, what in ((2, "confirmed"), (1000, "gave way")):
        box = Box(lambda _: None)
        box.refusals = refusals
        assert box.run()[0][0] == what
    assert "RAUC is busy" in said[-1]


def test_one_that_was_confirmed_before_stays_and_is_confirmed_when_it_is_well_again(
    said: list[str],
) -> None:
    box = Box(lambda t_s: "no" if t_s < 3000 else None, confirmed=("B", "today"))
    (done,) = box.run()
    assert done[0] == "confirmed"
    assert done[1] > 3000
    assert any("stays: it was already confirmed" in words for words in said)


def test_why_it_is_not_in_order_is_said_once_a_reason(said: list[str]) -> None:
    box = Box(lambda t_s: "one" if t_s < 50 else "two", confirmed=("B", "today"))
    box.run()
    assert [w for w in said if w.startswith("not in order: ")] == [
        "not in order: one",
        "not in order: two",
    ]


def test_a_check_that_fails_otherwise_is_a_problem_too(said: list[str]) -> None:
    def broken(_: float) -> str | None:
        raise RuntimeError("?!")

    box = Box(broken)
    assert box.run()[0][0] == "gave way"
    assert "?!" in said[-1]


def test_it_gives_way_only_where_the_other_may_be_better() -> None:
    for seen, why in (
        (Seen("B", slots(), None), None),
        (Seen("B", slots(), ("A", "")), None),
        # The same slot, but what was in it then was another update.
        (Seen("B", slots(), ("B", "yesterday")), None),
        (Seen("B", slots(), ("B", "today")), "already confirmed"),
        # A new box, or the other one failed, too: no restarts without end.
        (Seen("B", slots(other_good=False), None), "cannot start"),
        (Seen("B", Slots("board", slots().slots[1:]), None), "cannot start"),
        # RAUC is what does not work.
        (Seen("B", None, ("A", "")), None),
        (Seen("B", None, ("B", "")), "already confirmed"),
        (Seen("B", None, None), "no other system has ever been confirmed"),
        (Seen("", None, ("A", "")), "not know which system is running"),
    ):
        said = way_back(seen)
        assert said is None if why is None else why in str(said), seen
