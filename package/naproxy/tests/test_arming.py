import pytest
from naproxy.arming import Arming

SUBJECT = "02:00:00:00:00:01 ssh etherwake"


def arming(**known: object) -> Arming:
    return Arming("web", subject=SUBJECT, **known)  # type: ignore[arg-type]


def test_a_server_that_was_never_commissioned_is_not_armed_and_says_what_to_do() -> None:
    assert arming().why_not == "not commissioned: run naproxy commission web"


def test_a_proof_arms() -> None:
    made = arming()
    made.prove()
    assert made.why_not == ""


def test_the_configuration_can_vouch_for_a_server() -> None:
    assert arming(trusted=True).why_not == ""


def test_a_proof_of_another_card_is_none() -> None:
    made = arming()
    made.prove()
    made.subject = "02:00:00:00:00:02 ssh etherwake"
    assert "another network card" in made.why_not
    assert "naproxy commission web" in made.why_not


@pytest.mark.parametrize("known", [{"proven": SUBJECT}, {"trusted": True}])
def test_a_failed_wake_keeps_it_awake_and_says_why(known: dict[str, object]) -> None:
    made = arming(**known)
    made.trip("it draws 1.6 W, as when asleep")
    assert "it draws 1.6 W, as when asleep" in made.why_not
    assert "naproxy arm web" in made.why_not


def test_the_first_reason_is_kept() -> None:
    made = arming(proven=SUBJECT)
    made.trip("silent")
    made.trip("still silent")
    assert made.tripped == "silent"


def test_a_person_resets_the_breaker() -> None:
    made = arming(proven=SUBJECT)
    made.trip("silent")
    assert made.reset() == ""
    assert made.why_not == ""


def test_a_reset_does_not_replace_a_commissioning() -> None:
    made = arming()
    made.trip("silent")
    assert made.reset() == "not commissioned: run naproxy commission web"


def test_a_commissioning_resets_the_breaker() -> None:
    made = arming()
    made.trip("silent")
    made.prove()
    assert made.why_not == ""


def test_proof_and_breaker_survive_a_restart() -> None:
    old, new = arming(), arming()
    old.prove()
    old.trip("silent")
    new.load(old.dump())
    assert new == old


@pytest.mark.parametrize("value", [None, 1, True, [], {"a": 1}])
def test_what_was_saved_and_is_nonsense_arms_nothing(value: object) -> None:
    made = arming()
    made.load({"proven": value, "tripped": value})
    assert made.why_not == "not commissioned: run naproxy commission web"
