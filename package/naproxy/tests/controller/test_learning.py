from dataclasses import replace

from naproxy.controller.learning import LET_IN, Learner, path_hash
from naproxy.core import page_h
from naproxy.core.classify import CRAWL_PAGES, SCAN_PATHS
from naproxy.core.state import Klass
from naproxy.shm.page import Page
from samples import FETCH

HOUR_US = 3_600_000_000
EVENT = replace(FETCH, client=77, path=5, agent=0, flags=page_h.E_PAGE_LOAD)


def learned(shared: Page) -> dict[int, int]:
    return {slot.client: slot.klass for slot in shared.layout.learned if slot.client}


def test_the_hash_is_that_of_the_vmod() -> None:
    # FNV-1a of "a\0b", from its definition.
    found = 0xCBF29CE484222325
    for byte in b"a\0b":
        found = ((found ^ byte) * 0x100000001B3) & (2**64 - 1)
    assert path_hash("a", "b") == found


def test_a_scanner_comes_into_the_table(shared: Page) -> None:
    learner = Learner(shared)
    learner.heard(replace(EVENT, path=n, status=404) for n in range(1, SCAN_PATHS))
    assert learned(shared) == {}
    learner.heard([replace(EVENT, path=99, status=404)])
    assert learned(shared) == {77: Klass.SCANNER}


def test_a_client_that_asks_for_robots_txt_of_one_of_the_sites_is_a_crawler(shared: Page) -> None:
    learner = Learner(shared)
    learner.serve(["www.example.org"])
    learner.heard([replace(EVENT, client=1, path=path_hash("other.example", "/robots.txt"))])
    learner.heard([replace(EVENT, client=2, path=path_hash("www.example.org", "/robots.txt"))])
    assert learned(shared) == {2: Klass.CRAWLER}


def test_a_program_that_polls_is_a_monitor(shared: Page) -> None:
    learner = Learner(shared)
    api = replace(EVENT, klass=Klass.API, flags=0)
    learner.heard(replace(api, t_us=n * HOUR_US // 12) for n in range(40))
    assert learned(shared) == {77: Klass.MONITOR}


def test_people_stay_people(shared: Page) -> None:
    learner = Learner(shared)
    for n in range(10 * CRAWL_PAGES):
        learner.heard([replace(EVENT, path=n), replace(EVENT, path=1000 + n, flags=0)])
    assert learned(shared) == {}


def test_an_offices_rule_has_the_last_word(shared: Page) -> None:
    learner = Learner(shared)
    ruled = replace(EVENT, flags=page_h.E_PAGE_LOAD | page_h.E_RULE, status=404)
    learner.heard(replace(ruled, path=n) for n in range(10 * SCAN_PATHS))
    assert learned(shared) == {}


def test_a_restart_forgets_nobody(shared: Page) -> None:
    Learner(shared).heard(replace(EVENT, path=n, status=404) for n in range(2 * SCAN_PATHS))
    again = Learner(shared)
    again.heard([replace(EVENT, client=5)])
    assert learned(shared) == {77: Klass.SCANNER}


def test_those_who_asked_last_keep_their_slots(shared: Page) -> None:
    learner = Learner(shared)

    def scan(client: int) -> None:
        learner.heard(
            replace(EVENT, client=client, path=n, status=404) for n in range(2 * SCAN_PATHS)
        )

    scan(1)
    slots = page_h.LEARNED - LET_IN
    for client in range(2, slots + 1):
        scan(client)
    learner.heard([replace(EVENT, client=1, flags=page_h.E_LEARNED, klass=Klass.SCANNER)])
    scan(999)
    assert 1 in learned(shared)
    assert 2 not in learned(shared)
    assert len(learned(shared)) == slots


def test_search_engines_that_may_wake_a_server_come_before_what_was_learned(shared: Page) -> None:
    learner = Learner(shared)
    learner.let_in(dict.fromkeys(range(100, 100 + LET_IN + 1), 0b10))
    slots = list(shared.layout.learned)[:LET_IN]
    assert [slot.client for slot in slots] == list(range(101, 101 + LET_IN))
    assert {(slot.klass, slot.wakes) for slot in slots} == {(Klass.CRAWLER, 0b10)}


def test_search_engines_of_before_a_restart_are_let_in_no_longer(shared: Page) -> None:
    Learner(shared).let_in({100: 1})
    Learner(shared).let_in({})
    assert learned(shared) == {}


def test_an_unknown_class_from_the_ring_is_ignored(shared: Page) -> None:
    learner = Learner(shared)
    learner.heard([replace(EVENT, klass=200), replace(EVENT, klass=200, flags=page_h.E_LEARNED)])
    assert learned(shared) == {}
