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


def why(made: Sight, sign: Sign = Sign.SILENT) -> Reason:
    return made.why_not_up(NOW_S, sign, DETAIL)


def test_why_it_is_not_up_follows_from_power_pings_and_probe() -> None:
    for case, made, sign, code, draws in (
        ("power up", sight(41.0), Sign.SILENT, "why_hangs_draws", {"draws_w": 41.0}),
        ("pings answered", sight(None, True), Sign.SILENT, "why_hangs", {}),
        ("power flat", sight(1.6, False), Sign.SILENT, "why_failed", {"draws_w": 1.6}),
        ("no power", sight(0.0), Sign.SILENT, "why_unplugged", {"draws_w": 0.0}),
        (
            *("firmware answers pings, power flat", sight(1.6, True, firmware=True), Sign.SILENT),
            *("why_failed", {"draws_w": 1.6}),
        ),
        (
            *("firmware answers pings", sight(None, True, firmware=True), Sign.SILENT),
            *("why_unclear", {}),
        ),
        ("it never answers pings", sight(None, False, awake=False), Sign.SILENT, "why_unclear", {}),
        ("no answer, no meter", sight(None, False), Sign.SILENT, "why_unclear_no_ping", {}),
        ("it refuses", sight(41.0), Sign.REFUSING, "why_web_server", {}),
    ):
        expected = Reason(f"server.{code}", detail=DETAIL, **draws)
        assert why(made, sign) == expected, case
    assert why(sight(), Sign.FOREIGN) == DETAIL


def test_a_ping_answered_before_the_sleep_does_not_count() -> None:
    made = Sight(on_w=43.3)
    made.see(50.0, State.AWAKE, 0.0, Pinged(True, 49.9))
    made.see(70.1, State.ASLEEP, 70.0, Pinged(True, 69.9))
    made.see(NOW_S, State.WAKING, 90.0, Pinged(True, NOW_S - 0.1))
    assert why(made).code == "server.why_hangs"


def test_an_old_reading_says_nothing() -> None:
    made = Sight(on_w=43.3)
    made.see(NOW_S - FRESH_S - 1, State.ASLEEP, 0.0, Metered(1.6))
    assert made.low(NOW_S) is None
    assert why(made) == Reason("server.why_unclear", detail=DETAIL)


def test_much_less_than_awake_is_low() -> None:
    for power_w, low in ((1.6, True), (20.0, True), (30.0, False)):
        assert sight(power_w=power_w).low(NOW_S) is low, power_w


def test_its_power_awake_is_learned_despite_the_configuration() -> None:
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
