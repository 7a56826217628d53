from datetime import UTC

import pytest
from naproxy.controller.coming_back import ComingBack
from naproxy.core.state import State
from naproxy.shm import page
from naproxy.shm.page import Page

NOW = 1_800_000_000.0


def told_s(shared: Page) -> float:
    return (int(shared.server(1).retry_at_us) - page.monotonic_us()) / 1e6


def test_robots_are_told_to_come_in_the_offices_hours(shared: Page) -> None:
    coming_back = ComingBack(shared, 1, lambda: UTC)
    coming_back.look(100, NOW, State.ASLEEP, NOW + 7200)
    assert told_s(shared) == pytest.approx(7260, abs=5)
    coming_back.look(200, NOW + 100, State.ASLEEP, None)
    assert shared.server(1).retry_at_us == 0, "nothing is known"


def test_nothing_is_told_by_a_clock_that_is_not_set(shared: Page) -> None:
    ComingBack(shared, 1, lambda: UTC).look(100, 3600, State.ASLEEP, 7200)
    assert shared.server(1).retry_at_us == 0


def test_a_page_that_says_so_already_is_not_written_again(shared: Page) -> None:
    coming_back = ComingBack(shared, 1, lambda: UTC)
    coming_back.look(100, NOW, State.ASLEEP, NOW + 7200)
    before = int(shared.server(1).seq)
    coming_back.look(130, NOW, State.ASLEEP, NOW + 7200)
    assert shared.server(1).seq == before
