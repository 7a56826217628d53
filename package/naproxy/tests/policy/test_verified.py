"""Which pages are verified: the same for strangers, an hour apart, and after each sleep."""

import json
from typing import Any

import pytest
from naproxy.core import page_h
from naproxy.policy import verified
from naproxy.policy.sameness import Copy
from naproxy.policy.verified import AGAIN_S, SETTLE_S, Address, Key, Verified, patterns

T_S = 1_700_000_000.0
HOURS, PRICES = Key(11, https=False), Key(12, https=False)
ADA, BOB = 1, 2
SAME, OTHER = Copy("same"), Copy("other")


def known(*keys: Key, url: str = "/hours") -> Verified:
    """Return one whose pages were loaded from two networks."""
    made = Verified()
    for key in keys or (HOURS,):
        made.stored(T_S, key, Address("a.example", url if key == HOURS else f"{url}/{key.path}"))
        for network in (ADA, BOB):
            made.loaded(T_S, key.path, network)
    return made


def settled(*keys: Key, **given: Any) -> Verified:
    """Return one whose pages are verified."""
    made = known(*keys, **given)
    for key in keys or (HOURS,):
        made.checked(T_S, key, SAME, SAME)
        made.checked(T_S + SETTLE_S, key, SAME, SAME)
    return made


def sleep(made: Verified, *keys: Key, copy: Copy = SAME) -> None:
    """Let it sleep from 10,000 s on for as long, and visitors get each page."""
    made.begin_copies(T_S + 9_990)
    for key in keys or (HOURS,):
        made.copied(T_S + 9_995, key, copy)
    made.slept(T_S + 10_000)
    for key in keys or (HOURS,):
        made.answered(key.path)
    made.woke(T_S + 20_000)


def compare(made: Verified, one: Copy, other: Copy | None = None, **given: Any) -> None:
    sent = given.get("sent", False)
    made.compared(T_S + 20_005, given.get("key", HOURS), one, other or one, sent=sent)
    made.end_compare(T_S + 20_010)


def why(made: Verified) -> list[tuple[str, str]]:
    return [(each["url"], each["why"]) for each in made.status()["excluded_pages"]]


def test_a_page_is_verified_once_it_was_the_same_for_strangers_for_an_hour() -> None:
    made = known()
    assert [key for key, _ in made.due(T_S)] == [HOURS]
    made.checked(T_S, HOURS, SAME, SAME)
    assert made.due(T_S + SETTLE_S - 1) == []
    assert made.table() == []
    made.checked(T_S + SETTLE_S, HOURS, SAME, SAME)
    assert made.table() == [HOURS.path]


def test_a_page_that_changes_by_the_hour_is_never_verified() -> None:
    made = known()
    for n in range(50):
        made.checked(T_S + n * SETTLE_S, HOURS, Copy(f"{n}"), Copy(f"{n}"))
        assert made.table() == []


def test_a_verified_page_that_was_edited_begins_its_hour_again() -> None:
    made = settled()
    made.checked(T_S + 9_000, HOURS, OTHER, OTHER)
    assert made.table() == []
    made.checked(T_S + 9_000 + SETTLE_S, HOURS, OTHER, OTHER)
    assert made.table() == [HOURS.path]


def test_a_page_that_differs_twice_between_strangers_is_excluded_for_good() -> None:
    made = known()
    made.checked(T_S, HOURS, SAME, OTHER)
    assert [key for key, _ in made.due(T_S + AGAIN_S)] == [HOURS]
    made.checked(T_S + AGAIN_S, HOURS, SAME, OTHER)
    assert made.due(T_S + 1e9) == []
    assert why(made) == [("/hours", "differs")]


def test_a_page_whose_headers_speak_against_it_is_looked_at_again_after_a_day() -> None:
    made = settled()
    made.checked(T_S + 9_000, HOURS, SAME, Copy("", "personal"))
    assert (made.table(), why(made)) == ([], [("/hours", "personal")])
    assert made.due(T_S + 9_000 + 86_399) == []
    assert made.due(T_S + 9_000 + 86_400) != []


def test_addresses_with_a_query_are_never_checked() -> None:
    made = known(url="/?s=search")
    assert made.due(T_S + 1e9) == []
    assert why(made) == [("/?s=search", "query")]


def test_a_server_that_does_not_answer_leaves_nothing_verified() -> None:
    made = settled()
    made.failed(T_S + 5_000, HOURS)
    assert made.table() == []
    made.checked(T_S + 5_600, HOURS, SAME, SAME)
    assert made.table() == [HOURS.path]


# A sleep


def test_a_page_that_is_the_same_after_the_wake_stays_verified() -> None:
    made = settled()
    sleep(made)
    assert [key for key, _ in made.compare()] == [HOURS]
    compare(made, SAME)
    assert made.table() == [HOURS.path]
    told = made.status()
    assert [told[key] for key in ("answered", "compared", "edited", "differed")] == [1, 1, 0, 0]
    assert told["since_s"] == T_S + 10_000


def test_a_page_that_changed_by_itself_is_never_answered_again() -> None:
    made = settled()
    sleep(made)
    compare(made, OTHER)
    for network in (ADA, BOB, 3):
        made.stored(T_S + 30_000, HOURS, Address("a.example", "/hours"))
        made.loaded(T_S + 30_000, HOURS.path, network)
    assert made.due(T_S + 1e9) == []
    assert (made.table(), why(made)) == ([], [("/hours", "changed")])
    told = made.status()
    assert [told[key] for key in ("compared", "differed", "old")] == [1, 1, 1]


@pytest.mark.parametrize("now", [Copy("", "status"), Copy("", "personal"), Copy("", "token")])
def test_a_page_that_may_not_be_kept_after_the_wake_is_caught(now: Copy) -> None:
    made = settled()
    sleep(made)
    compare(made, now)
    assert (made.table(), why(made)) == ([], [("/hours", now.why_not)])


def test_a_page_that_differs_between_strangers_after_the_wake_is_caught() -> None:
    made = settled()
    sleep(made)
    compare(made, SAME, OTHER, sent=True)
    assert why(made) == [("/hours", "differs")]


@pytest.mark.parametrize(
    ("modified_s", "caught"),
    [
        (T_S + 9_998, False),  # between the copy and the sleep
        (T_S + 20_002, False),  # after the wake
        (T_S + 15_000, True),  # while nobody could
        (T_S + 9_000, True),  # before the copy that does not have it
    ],
)
def test_a_page_was_edited_if_it_says_so_of_a_time_when_the_server_was_awake(
    modified_s: float, caught: bool
) -> None:
    made = settled()
    sleep(made, copy=Copy("same", modified_s=T_S))
    compare(made, Copy("other", modified_s=modified_s))
    assert (why(made) == [("/hours", "changed")]) == caught
    assert made.status()["edited"] == (not caught)
    assert made.table() == [], "it must settle first"


def test_what_somebody_sent_explains_a_change_once() -> None:
    made = settled()
    sleep(made)
    compare(made, OTHER, sent=True)
    assert why(made) == []
    made.checked(T_S + 30_000, HOURS, OTHER, OTHER)
    assert made.table() == [HOURS.path]
    sleep(made, copy=OTHER)
    compare(made, SAME, sent=True)
    assert why(made) == [("/hours", "changed")]


def test_two_cases_exclude_the_pattern() -> None:
    keys = [Key(n, https=False) for n in range(20, 24)]
    made = settled(*keys, url="/shop")
    sleep(made, *keys)
    made.compared(T_S + 20_005, keys[0], OTHER, OTHER, sent=False)
    assert len(made.table()) == 3
    made.compared(T_S + 20_006, keys[1], OTHER, OTHER, sent=False)
    assert made.table() == []
    assert ("/shop/*", "pattern") in why(made)


def test_two_cases_at_the_top_of_a_website_exclude_only_themselves() -> None:
    made = Verified()
    keys = [Key(n, https=False) for n in range(20, 23)]
    for key, url in zip(keys, ("/today", "/open", "/about"), strict=True):
        made.stored(T_S, key, Address("a.example", url))
        for network in (ADA, BOB):
            made.loaded(T_S, key.path, network)
        made.checked(T_S, key, SAME, SAME)
        made.checked(T_S + SETTLE_S, key, SAME, SAME)
    sleep(made, *keys)
    for key in keys[:2]:
        made.compared(T_S + 20_005, key, OTHER, OTHER, sent=False)
    assert made.table() == [keys[2].path]


def test_a_page_that_was_answered_and_not_compared_waits_for_the_next_check() -> None:
    made = settled(HOURS, PRICES)
    sleep(made)
    made.copied(T_S + 9_996, PRICES, SAME)
    made.end_compare(T_S + 20_010)
    assert made.table() == [PRICES.path]
    made.checked(T_S + 20_610, HOURS, SAME, SAME)
    assert made.table() == [HOURS.path, PRICES.path]


def test_of_what_nobody_got_a_few_are_compared() -> None:
    keys = [Key(n, https=False) for n in range(100, 150)]
    made = settled(HOURS, *keys)
    made.begin_copies(T_S + 9_990)
    for key in (*keys, HOURS):
        made.copied(T_S + 9_995, key, SAME)
    assert len(made.compare()) == verified.SAMPLE
    made.answered(HOURS.path)
    assert made.compare()[0][0] == HOURS
    assert len(made.compare()) == verified.SAMPLE + 1
    made.end_compare(T_S + 20_010)
    assert set(keys) <= set(made.answerable()), "they need no other check"


def test_a_page_that_is_another_just_before_the_sleep_is_not_answered_in_it() -> None:
    made = settled(HOURS, PRICES)
    made.begin_copies(T_S + 9_990)
    made.copied(T_S + 9_995, HOURS, OTHER)
    made.copied(T_S + 9_995, PRICES, SAME)
    assert made.copied_table([HOURS, PRICES]) == [PRICES.path]


def test_a_variant_that_was_not_verified_keeps_the_page_from_being_answered() -> None:
    made = settled()
    made.begin_copies(T_S + 9_990)
    made.copied(T_S + 9_995, HOURS, SAME)
    assert made.copied_table([HOURS]) == [HOURS.path]
    assert made.copied_table([HOURS, Key(HOURS.path, https=True)]) == []
    made.stored(T_S + 9_996, Key(HOURS.path, https=True), Address("a.example", "/hours"))
    made.loaded(T_S + 9_997, HOURS.path, ADA)
    assert made.table() == []


def test_a_variant_that_was_caught_keeps_the_other_from_being_answered() -> None:
    both = (HOURS, Key(HOURS.path, https=True))
    made = settled(*both)
    assert made.table() == [HOURS.path]
    sleep(made, *both)
    compare(made, OTHER, key=both[1])
    assert made.table() == []


# Who may ask for it


def test_one_network_must_come_in_three_different_hours() -> None:
    made = Verified()
    made.stored(T_S, HOURS, Address("a.example", "/hours"))
    for hour, checked in ((0, False), (0, False), (1, False), (2, True)):
        made.loaded(T_S + hour * 3600, HOURS.path, ADA)
        assert bool(made.due(T_S + 1e6)) == checked


def test_one_network_has_half_of_the_candidates_at_most() -> None:
    made = Verified()
    made.stored(T_S, HOURS, Address("a.example", "/hours"))
    made.loaded(T_S, HOURS.path, BOB)
    for path in range(100, 100 + 4 * verified.CANDIDATES):
        made.loaded(T_S, path, ADA)
    made.loaded(T_S, HOURS.path, 3)
    assert [key for key, _ in made.due(T_S)] == [HOURS]


def test_a_flood_of_addresses_from_two_networks_displaces_no_page_that_many_want() -> None:
    made = settled()
    for network in (3, 4, 5):
        made.loaded(T_S, HOURS.path, network)
    for path in range(100, 100 + 3 * verified.ENTRIES):
        key = Key(path, https=False)
        made.stored(T_S + path, key, Address("a.example", f"/search/{path}"))
        for network in (ADA, BOB):
            made.loaded(T_S + path, path, network)
        made.checked(T_S + path, key, SAME, SAME)
        made.checked(T_S + path + SETTLE_S, key, SAME, SAME)
    assert HOURS.path in made.table()
    assert len(made.table()) == page_h.VERIFIED
    loaded = Verified()
    loaded.load(json.loads(json.dumps(made.dump())), T_S + 1e5)
    assert len(loaded.dump()["pages"]) == verified.ENTRIES
    assert HOURS.path in loaded.table()


def test_what_most_networks_want_is_checked_first() -> None:
    made = known(PRICES, HOURS)
    made.loaded(T_S, HOURS.path, 3)
    assert [key for key, _ in made.due(T_S)] == [HOURS, PRICES]


def test_after_too_many_cases_no_page_is_answered() -> None:
    keys = [Key(n + 100, https=False) for n in range(verified.CAUGHT)]
    made = settled(HOURS)
    for key in keys:
        made.stored(T_S, key, Address("a.example", f"/{key.path}x/a"))
        for network in (ADA, BOB):
            made.loaded(T_S, key.path, network)
        made.checked(T_S, key, SAME, SAME)
        made.checked(T_S + SETTLE_S, key, SAME, SAME)
    sleep(made, *keys)
    for key in keys:
        assert HOURS.path in made.table()
        made.compared(T_S + 20_005, key, OTHER, OTHER, sent=False)
    assert made.table() == []


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("/", set()),
        ("/?p=1", set()),
        ("/about", set()),
        ("/about/", set()),
        ("/room-12/", {"/room-#"}),
        ("/shop/item", {"/shop/*"}),
        ("/shop/item-12?x=3", {"/shop/*", "/shop/item-#"}),
        ("/2026/11/hello/", {"/#/#/*"}),
        ("/v2x/a", {"/v#x/*"}),
    ],
)
def test_the_patterns_of_an_address(url: str, expected: set[str]) -> None:
    assert patterns(url) == expected


# Kept over a restart


def test_what_is_known_survives_a_restart() -> None:
    made = settled(HOURS, PRICES)
    sleep(made, PRICES)
    compare(made, OTHER, key=PRICES)
    again = Verified()
    again.load(json.loads(json.dumps(made.dump())), T_S + 30_000)
    assert again.table() == made.table() == [HOURS.path]
    assert again.status() == made.status()
    assert again.dump() == made.dump()


def test_a_restart_amid_a_sleep_does_not_save_a_page_from_being_compared() -> None:
    made = settled()
    sleep(made, copy=Copy("same", modified_s=T_S))
    again = Verified()
    again.load(json.loads(json.dumps(made.dump())), T_S + 20_001)
    assert again.copied_table([HOURS]) == [HOURS.path]
    again.woke(T_S + 20_002)
    compare(again, Copy("other", modified_s=T_S + 9_000))
    assert why(again) == [("/hours", "changed")]


@pytest.mark.parametrize("cut", range(15))
def test_what_makes_no_sense_is_not_taken_up(cut: int) -> None:
    whole = settled().dump()
    row = list(whole["pages"][0])
    for value in (None, "x", -1, [], 1e300, {}):
        spoiled = [*row[:cut], value, *row[cut + 1 :]]
        made = Verified()
        made.load({**whole, "pages": [spoiled], "caught": [value]}, T_S + 9_000)
        made.status()
        json.dumps(made.dump(), allow_nan=False)
    for saved in (None, [], {}, {"pages": 3, "caught": {}, "counts": ["x"] * 6}):
        made = Verified()
        made.load(saved, T_S)
        assert made.table() == []
