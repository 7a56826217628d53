import pytest
from naproxy.core.reason import Reason, own_words
from naproxy.core.state import State
from naproxy.server.seeing import FRESH_S, Metered, Pinged, Sight, Sign

NOW_S = 100.0
DETAIL = own_words("no answer in 1 s")


def sight(
    power_w: float | None = None,
    ping: bool | None = None,
    *,
    awake: bool = True,
    firmware: bool = False,
) -> Sight:
    """What was seen until now: of a server that draws 43 W awake."""
    made = Sight(on_w=43.3)
    if awake:
        made.see(50.0, State.AWAKE, 0.0, Pinged(True, 49.9))
    made.see(80.0, State.ASLEEP, 70.0, Pinged(firmware, 79.0))
    if power_w is not None:
        made.see(NOW_S, State.WAKING, 0.0, Metered(power_w))
    if ping is not None:
        made.see(NOW_S, State.WAKING, 90.0, Pinged(ping, NOW_S - 0.1))
    return made


def why(made: Sight, sign: Sign = Sign.SILENT, detail: Reason = DETAIL) -> Reason:
    return made.why_not_up(NOW_S, sign, detail)


def test_power_up_and_no_service_is_a_hung_resume() -> None:
    said = why(sight(power_w=41.0))
    assert said == Reason("server.why_hangs_draws", detail=DETAIL, draws_w=41.0)


def test_pings_answered_and_no_service_is_a_hung_resume() -> None:
    assert why(sight(ping=True)) == Reason("server.why_hangs", detail=DETAIL)


def test_power_flat_is_a_failed_wake() -> None:
    said = why(sight(power_w=1.6, ping=False))
    assert said == Reason("server.why_failed", detail=DETAIL, draws_w=1.6)
    assert "wake-on-LAN" in str(said)


def test_no_power_at_all_is_an_unplugged_server() -> None:
    said = why(sight(power_w=0.0))
    assert said == Reason("server.why_unplugged", detail=DETAIL, draws_w=0.0)


def test_a_firmware_that_answers_pings_asleep_does_not_pass_for_a_machine_that_woke() -> None:
    assert why(sight(power_w=1.6, ping=True, firmware=True)).code == "server.why_failed"
    assert why(sight(ping=True, firmware=True)).code == "server.why_unclear"


def test_a_machine_that_never_answers_pings_is_not_called_silent_for_it() -> None:
    assert why(sight(ping=False, awake=False)) == Reason("server.why_unclear", detail=DETAIL)


def test_without_meter_and_answer_it_says_that_it_cannot_tell() -> None:
    said = why(sight(ping=False))
    assert said == Reason("server.why_unclear_no_ping", detail=DETAIL)
    assert "nobody can tell" in str(said)


def test_a_ping_that_was_answered_before_it_slept_is_no_answer() -> None:
    made = Sight(on_w=43.3)
    made.see(50.0, State.AWAKE, 0.0, Pinged(True, 49.9))
    made.see(70.1, State.ASLEEP, 70.0, Pinged(True, 69.9))
    made.see(NOW_S, State.WAKING, 90.0, Pinged(True, NOW_S - 0.1))
    assert why(made).code == "server.why_hangs"


def test_a_machine_that_refuses_is_on() -> None:
    refused = own_words("connection refused")
    said = why(sight(power_w=41.0), Sign.REFUSING, refused)
    assert said == Reason("server.why_web_server", detail=refused)


def test_another_machine_at_the_address_is_said_in_the_words_of_who_saw_it() -> None:
    other = own_words("another machine answers")
    assert why(sight(), Sign.FOREIGN, other) == other


def test_an_old_reading_says_nothing() -> None:
    made = Sight(on_w=43.3)
    made.see(NOW_S - FRESH_S - 1, State.ASLEEP, 0.0, Metered(1.6))
    assert made.low(NOW_S) is None
    assert why(made) == Reason("server.why_unclear", detail=DETAIL)


@pytest.mark.parametrize(("power_w", "low"), [(1.6, True), (20.0, True), (30.0, False)])
def test_much_less_than_awake_is_low(power_w: float, low: bool) -> None:
    assert sight(power_w=power_w).low(NOW_S) is low


def test_what_it_draws_awake_is_learned_whatever_the_configuration_says() -> None:
    made = Sight(on_w=43.3)
    for _ in range(100):
        made.see(NOW_S, State.AWAKE, 0.0, Metered(12.0))
    made.see(NOW_S, State.FALLING_ASLEEP, 0.0, Metered(11.0))
    assert made.low(NOW_S) is False
    made.see(NOW_S, State.FALLING_ASLEEP, 0.0, Metered(1.0))
    assert made.low(NOW_S) is True


def test_the_surge_of_a_wake_that_a_meter_tells_late_is_not_what_it_draws_awake() -> None:
    made = Sight(on_w=43.3)
    made.see(NOW_S - 50, State.AWAKE, NOW_S - 51, Metered(900.0))
    made.see(NOW_S, State.WAKING, NOW_S - 1, Metered(43.3))
    assert made.low(NOW_S) is False
