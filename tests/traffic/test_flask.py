"""Flask: a login page under the name of a file, pages chosen by Accept, Pragma."""

import sys
from collections.abc import Callable

import pytest

from tests.traffic.conftest import Behind


@pytest.fixture(scope="module")
def flask(serve: Callable[..., Behind]) -> Behind:
    return serve(sys.executable, "-m", "flask", "--app", "flask_app", "run", "--port", "{port}")


def test_a_visitor_who_has_logged_in_gets_their_file_and_not_the_login_page(flask: Behind) -> None:
    assert flask.ask("/invoices/7.pdf")[1] == b"<html>Log in</html>"
    for person in ("ada", "bob"):
        assert flask.ask("/invoices/7.pdf", Cookie=f"session={person}")[1].endswith(
            f"7 of {person}".encode()
        )
    for size in (8300, 16000, 30000):
        cookies = f"a={'v' * size}; session=ada"
        assert flask.ask("/invoices/7.pdf", Cookie=cookies)[1].endswith(b"7 of ada"), size
    assert flask.ask("/invoices/7.pdf")[1] == b"<html>Log in</html>"


def test_what_is_chosen_by_accept_is_kept_apart(flask: Behind) -> None:
    for _ in range(2):
        assert b"data" in flask.ask("/report", Accept="application/json, text/plain, */*")[1]
        assert b"page" in flask.ask("/report", Accept="text/html,*/*;q=0.8")[1]


def test_pragma_no_cache_counts(flask: Behind) -> None:
    assert flask.ask("/news")[1] != flask.ask("/news")[1]


def test_an_event_arrives_before_the_next_is_made_if_the_end_is_that_of_the_connection(
    flask: Behind,
) -> None:
    flask.each_event_in_time()
