from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from naproxy.controller.webhooks import AGAIN_S, CANDIDATES, OLD_S, PEOPLE, Webhooks
from naproxy.core import page_h
from naproxy.core.page_h import Outcome
from naproxy.core.state import Klass
from naproxy.shm.events import Event
from naproxy.shm.page import Page
from samples import FETCH

GET, POST = 0, 2
HOOK = 5
NEWS = replace(
    FETCH, path=HOOK, server=1, klass=Klass.API, outcome=Outcome.PASS, status=204, method=POST
)


def told(shared: Page) -> list[int]:
    return [path for path in shared.layout.server[1].webhook if path]


def later(event: Event, s: float) -> Event:
    return replace(event, t_us=event.t_us + int(s * 1e6))


def twice(event: Event) -> list[Event]:
    return [event, later(event, AGAIN_S)]


def loads(networks: Iterable[int]) -> list[Event]:
    load = replace(NEWS, klass=Klass.PERSON, method=GET, flags=page_h.E_PAGE_LOAD, status=200)
    return [replace(load, network=network) for network in networks]


def knowing(shared: Page, *paths: int) -> Webhooks:
    webhooks = Webhooks(shared, 1)
    for path in paths:
        webhooks.heard(twice(replace(NEWS, path=path)))
    return webhooks


def test_posts_at_two_times_that_were_taken_make_a_webhook(shared: Page) -> None:
    Webhooks(shared, 1).heard(twice(NEWS))
    assert told(shared) == [HOOK]
    assert not any(shared.layout.server[0].webhook)


def test_a_burst_of_posts_makes_none(shared: Page) -> None:
    Webhooks(shared, 1).heard(later(NEWS, s) for s in range(int(AGAIN_S)))
    assert told(shared) == []


def test_nothing_else_does(shared: Page) -> None:
    for other in (
        *({"method": GET}, {"status": 404}, {"status": 302}),
        *({"klass": klass} for klass in (Klass.PERSON, Klass.SCANNER, Klass.MONITOR, 7)),
        {"flags": page_h.E_NEEDED | page_h.E_OWN},
    ):
        Webhooks(shared, 1).heard(twice(replace(NEWS, **other)))
        assert told(shared) == [], other


def test_a_path_that_people_load_as_a_page_is_not_a_webhook(shared: Page) -> None:
    webhooks = knowing(shared, HOOK, 6)
    webhooks.heard(loads(range(PEOPLE)))
    assert told(shared) == [6]


def test_loads_of_one_network_or_of_no_page_take_no_webhook_away(shared: Page) -> None:
    missing = [replace(load, status=405) for load in loads(range(PEOPLE))]
    for others in (loads([9] * 100), missing):
        knowing(shared, HOOK).heard(others)
        assert told(shared) == [HOOK]


def test_new_ones_push_none_out_that_has_news(shared: Page) -> None:
    full = range(1, page_h.WEBHOOKS + 1)
    knowing(shared, *full, 100)
    assert told(shared) == list(full)


def test_of_a_full_list_the_oldest_goes_that_has_no_news_any_more(shared: Page) -> None:
    webhooks = knowing(shared, *range(1, page_h.WEBHOOKS + 1))
    webhooks.heard([later(replace(NEWS, path=1), 2 * AGAIN_S)])
    webhooks.heard(twice(later(replace(NEWS, path=100), OLD_S)))
    assert told(shared) == [1, *range(3, page_h.WEBHOOKS + 1), 100]


def test_a_flood_of_paths_takes_bounded_memory(shared: Page) -> None:
    webhooks = Webhooks(shared, 1)
    webhooks.heard(replace(NEWS, path=path) for path in range(1, 3 * CANDIDATES))
    assert len(webhooks._candidates) == CANDIDATES


STRANGER = replace(NEWS, network=666)


def test_one_network_takes_at_most_half_of_the_places(shared: Page) -> None:
    webhooks = Webhooks(shared, 1)
    for path in range(100, 200):
        webhooks.heard(twice(replace(STRANGER, path=path)))
    assert len(told(shared)) == page_h.WEBHOOKS // 2
    webhooks.heard(twice(replace(NEWS, network=7)))
    assert HOOK in told(shared)


def test_a_flood_of_one_network_has_nobody_else_s_first_post_forgotten(shared: Page) -> None:
    webhooks = Webhooks(shared, 1)
    first, second = twice(replace(NEWS, network=7))
    flood = [replace(STRANGER, path=path) for path in range(100, 100 + 3 * CANDIDATES)]
    webhooks.heard([first, *flood, second])
    assert told(shared) == [HOOK]


def test_they_are_kept_over_a_restart(shared: Page, tmp_path: Path) -> None:
    webhooks = knowing(shared, HOOK)
    (tmp_path / "anew").mkdir()
    anew = Page(tmp_path / "anew")
    Webhooks(anew, 1).take_up(webhooks.kept())
    assert told(anew) == [HOOK]


def test_invalid_kept_values_are_ignored(shared: Page) -> None:
    for saved in ({}, {"webhook_paths": 5}, {"webhook_paths": ["a", -1, 0, 1 << 64, None]}):
        Webhooks(shared, 1).take_up(saved)
        assert told(shared) == [], saved
