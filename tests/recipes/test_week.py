"""Pages of real websites that the box checks by itself: a week of sleeps and wakes.

The week's figures are in build/recipes/week.json.
"""

from collections.abc import Iterator

import pytest

from tests.recipes.place import QUICK
from tests.recipes.programs import FORUM, SITE, WIKI
from tests.recipes.week import NEVER, PAGES, Counts, Week, begin
from tests.recipes.wordpress import HOST as SHOP
from tests.simulator.office import Office
from tests.simulator.office.namespace import ROOT

pytestmark = pytest.mark.long

WEEK_HOURS = 7 * 24
LEAST_SLEEPS = 6
"""On a slow machine the week is over sooner."""


@pytest.fixture(scope="module")
def week() -> Iterator[Counts]:
    with Office(keep=ROOT / "build/recipes-week", board=QUICK) as office:
        it = begin(office)
        begun = it.hour
        while it.hour - begun < WEEK_HOURS or it.counts.sleeps < LEAST_SLEEPS:
            live(it)
        (ROOT / "build/recipes").mkdir(exist_ok=True)
        yield it.finish(ROOT / "build/recipes/week.json")


def live(it: Week) -> None:
    """Let people come and the server sleep; every third time somebody edits something."""
    it.awake()
    if it.counts.sleeps % 3 == 2:
        it.edit(f"From {it.counts.sleeps} on.")
    it.settle()
    it.sleep()


def test_pages_that_are_the_same_for_everybody_are_answered_asleep(week: Counts) -> None:
    assert week.answered >= 2 * week.sleeps
    shop = [(SHOP, path) for path in ("/", "/about/", "/hours/")]
    # Django says Vary: Cookie with each page of the forum.
    for page in (*shop, (SITE, "/"), (SITE, "/hours/"), (FORUM, "/category/")):
        assert week.by_page["".join(page)] >= 2, page


def test_no_wrong_answer_survives_the_next_wake(week: Counts) -> None:
    assert (week.uncaught, week.again) == (0, 0)
    assert week.box["compared"] >= week.answered
    assert week.box["old"] >= week.wrong


def test_nobody_gets_a_page_of_another_or_of_an_attacker(week: Counts) -> None:
    assert week.personal == 0


@pytest.mark.parametrize("page", sorted(NEVER), ids="".join)
def test_personal_pages_forms_searches_and_pages_of_the_moment_are_never_answered(
    week: Counts, page: tuple[str, str]
) -> None:
    assert page in PAGES
    assert week.by_page["".join(page)] == 0


def test_pages_that_their_server_wants_to_be_asked_for_are_never_answered(week: Counts) -> None:
    """MediaWiki's manual has it say must-revalidate, and Vary: Cookie."""
    assert week.by_page[f"{WIKI}/wiki/Main_Page"] == 0
