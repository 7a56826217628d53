from naproxy.core.reason import Reason, own_words
from naproxy.server.arming import Arming

SUBJECT = "02:00:00:00:00:01 ssh etherwake"
WAITS = Reason("server.no_visitor_yet", name=Reason("server.its_website"), server="web")
UNPROVEN = Reason("server.not_commissioned", server="web")
SILENT = own_words("silent")
ARMED = ({"proven": SUBJECT}, {"trusted": True})


def arming(**known: object) -> Arming:
    """One whose visitors come through the box."""
    made = waiting(**known)
    made.live.visited(1e9, None)
    return made


def waiting(**known: object) -> Arming:
    return Arming("web", **{"subject": SUBJECT, "sight": None, **known})  # type: ignore[arg-type]


def test_a_server_that_was_never_commissioned_is_not_armed_whoever_visits() -> None:
    confirmed = waiting()
    confirmed.live.confirm(1e9)
    for made in (arming(), waiting(), confirmed):
        assert made.why_not == UNPROVEN
    assert "naproxy commission web" in str(UNPROVEN)


def test_a_proven_server_waits_for_the_first_visitor_through_the_box_or_a_persons_word() -> None:
    seen, confirmed = waiting(), waiting()
    for made in (seen, confirmed):
        made.prove()
        assert made.why_not == WAITS
    seen.live.visited(1e9, None)
    confirmed.live.confirm(1e9)
    assert (seen.why_not, confirmed.why_not) == (None, None)


def test_a_server_that_the_configuration_vouches_for_waits_for_no_visitor() -> None:
    assert waiting(trusted=True).why_not is None


def test_a_server_that_an_earlier_version_armed_stays_armed() -> None:
    made = waiting()
    made.load({"proven": SUBJECT, "tripped": ""})
    assert made.why_not is None
    again = waiting()
    again.load(made.dump())
    assert again.why_not is None
    again.live.proved(2e9)
    assert again.why_not is None


def test_a_server_that_an_earlier_version_had_not_armed_waits_for_a_visitor() -> None:
    made = waiting()
    made.load({"proven": "", "tripped": "", "running": True})
    made.prove()
    assert made.why_not == WAITS


def test_visitors_past_the_box_keep_it_awake_whatever_was_proven() -> None:
    around = Reason("server.https_around", port=443)
    for known in ARMED:
        made = arming(**known, sight=around)
        assert made.why_not == around, known
        made.sight = None
        assert made.why_not is None, known


def test_that_it_did_not_wake_is_told_before_who_comes_past_the_box() -> None:
    made = arming(sight=Reason("server.not_looked"))
    made.trip(SILENT)
    assert made.why_not == Reason("server.tripped", why=SILENT, server="web")


def test_a_failed_wake_keeps_it_awake_for_the_first_reason_until_a_person_resets_it() -> None:
    for known in ARMED:
        made = arming(**known)
        why = Reason("server.why_failed", detail=SILENT, draws_w=1.6)
        made.trip(why)
        made.trip(own_words("still silent"))
        assert made.why_not == Reason("server.tripped", why=why, server="web"), known
        assert "naproxy arm web" in str(made.why_not)
        assert made.reset() is None, known
        assert made.why_not is None, known


def test_a_reset_does_not_replace_a_commissioning() -> None:
    made = arming()
    made.trip(SILENT)
    assert made.reset() == UNPROVEN


def test_a_commissioning_resets_the_breaker() -> None:
    made = arming()
    made.trip(SILENT)
    made.prove()
    assert made.why_not is None


def test_proof_breaker_and_visitors_survive_a_restart() -> None:
    old, new = arming(), waiting()
    old.prove()
    old.trip(SILENT)
    new.load(old.dump())
    assert new == old


def test_saved_nonsense_arms_nothing() -> None:
    for value in (None, 1, True, [], {"a": 1}):
        made = arming()
        made.load({"proven": value, "tripped": value})
        assert made.why_not == UNPROVEN, value


def test_a_sentence_that_an_older_naproxy_kept_still_keeps_it_awake() -> None:
    made = arming()
    made.load({"proven": SUBJECT, "tripped": "not up after 5 calls to wake in 30 s"})
    why = own_words("not up after 5 calls to wake in 30 s")
    assert made.why_not == Reason("server.tripped", why=why, server="web")
