"""A server that puts itself to sleep is told from one that crashes or restarts."""

from naproxy.core.reason import Reason
from naproxy.core.state import State
from naproxy.server.machine_io import Transition
from naproxy.server.own_sleeps import OwnSleeps

WHY = Reason("server.stopped_answering")
DAY_S = 86400.0
SEEN = Reason("server.sleeps_itself", number=3)


class Past:
    """What a server did."""

    def __init__(self) -> None:
        self.own = OwnSleeps()
        self.t_s = 1.8e9

    def enters(self, before: State, state: State, after_s: float, unused_s: float = 0.0) -> None:
        self.t_s += after_s
        self.own.changed(Transition(before, state, WHY), self.t_s, unused_s)

    def silence(
        self, *, unused_s: float = 600, wake_s: float = 4, low: tuple[bool | None, ...] = ()
    ) -> None:
        """It falls silent two hours later, is called after 3 s, and comes."""
        self.enters(State.AWAKE, State.UNKNOWN, 7200, unused_s)
        for each in low:
            self.own.drew(each)
        self.enters(State.UNKNOWN, State.WAKING, 3)
        self.enters(State.WAKING, State.AWAKE, wake_s)

    def sleeps(self, times: int = 3) -> None:
        for _ in range(times):
            self.silence()


def test_three_silences_from_which_a_call_woke_it_are_sleeps() -> None:
    past = Past()
    past.sleeps(2)
    assert past.own.seen(past.t_s) is None
    past.silence()
    assert past.own.seen(past.t_s) == SEEN
    assert past.own.seen(past.t_s + 6 * DAY_S) == SEEN
    assert past.own.seen(past.t_s + 7 * DAY_S) is None
    again = OwnSleeps()
    again.load(past.own.dump())
    assert again.seen(past.t_s) == SEEN


def test_a_crash_or_a_restart_speaks_against_it() -> None:
    for silence in (
        {"unused_s": 20},  # in use
        {"wake_s": 40},  # as long as a start
        {"low": (False, False)},  # draws on
        {"low": (None, False)},  # draws on, says the next reading
    ):
        past = Past()
        past.sleeps()
        past.silence(**silence)  # type: ignore[arg-type]
        past.sleeps(2)
        assert past.own.seen(past.t_s) is None, silence


def test_a_meter_knows_better_than_the_time_it_takes() -> None:
    past = Past()
    for _ in range(3):
        past.silence(wake_s=60, low=(False, True, False))
    assert past.own.seen(past.t_s) == SEEN


def test_a_server_that_does_not_come_when_called_has_not_slept() -> None:
    past = Past()
    past.sleeps()
    past.enters(State.AWAKE, State.UNKNOWN, 7200, 600)
    past.enters(State.UNKNOWN, State.WAKING, 3)
    past.enters(State.WAKING, State.TROUBLE, 60)
    past.enters(State.TROUBLE, State.AWAKE, 600)
    assert past.own.seen(past.t_s) is None


def test_a_sleep_by_order_and_a_moment_s_silence_say_nothing() -> None:
    past = Past()
    for _ in range(3):
        past.enters(State.AWAKE, State.FALLING_ASLEEP, 7200, 600)
        past.enters(State.FALLING_ASLEEP, State.ASLEEP, 3)
        past.enters(State.ASLEEP, State.WAKING, 60)
        past.enters(State.WAKING, State.AWAKE, 4)
        past.enters(State.AWAKE, State.UNKNOWN, 60, 600)
        past.enters(State.UNKNOWN, State.AWAKE, 2)
    assert past.own.seen(past.t_s) is None
    past.sleeps(2)
    past.enters(State.AWAKE, State.UNKNOWN, 60, 600)
    past.enters(State.UNKNOWN, State.AWAKE, 2)
    past.silence()
    assert past.own.seen(past.t_s) == SEEN


def test_values_not_kept_by_us_are_ignored() -> None:
    for saved in (None, {}, "x", [None], [[1.0]]):
        own = OwnSleeps()
        own.load(saved)
        assert own.dump() == [], saved
