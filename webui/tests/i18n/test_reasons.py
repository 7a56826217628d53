"""The controller's reasons in the user's language."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from flask import Flask
from hypothesis import given
from hypothesis import strategies as st
from naproxy.core.reason import Reason, own_words, together
from naproxy_webui.i18n import reasons

IDLE = Reason("policy.idle", idle_s=3720)
INHIBITORS = [Reason("server.office_hours", until="18:00"), Reason("server.fetching", number=2)]


@pytest.fixture(autouse=True)
def in_german(app: Flask) -> Iterator[None]:
    """In German, a text that is not translated shows."""
    with app.test_request_context(headers={"Accept-Language": "de"}):
        yield


def test_a_reason_is_told_in_the_users_language() -> None:
    hours = INHIBITORS[0]
    for kept, said in (
        (hours.plain(), "Bürozeit bis 18:00."),
        (hours.text(), "Bürozeit bis 18:00."),  # as the history keeps it
        *((none, "") for none in (None, "", {})),
    ):
        assert reasons.plain(kept) == said, kept
    assert "1\u00a0h 2\u00a0min" in reasons.plain(IDLE.plain())


def test_several_reasons_are_a_sentence_each() -> None:
    said = reasons.sentences(together(*INHIBITORS).plain())
    assert said == [reasons.plain(each.plain()) for each in INHIBITORS]


def test_a_decision_includes_the_inhibitors() -> None:
    inhibited = Reason("server.would_sleep", why=IDLE, inhibitors=INHIBITORS)
    for each in (IDLE, *INHIBITORS):
        assert reasons.plain(each.plain()).removesuffix(".") in reasons.plain(inhibited.text())


def test_text_from_a_server_or_an_older_naproxy_is_shown_unchanged() -> None:
    for kept in ("apt upgrades <b>now</b>", own_words("apt upgrades <b>now</b>")):
        said = reasons.plain(kept if isinstance(kept, str) else kept.plain())
        assert said == "Apt upgrades <b>now</b>.", kept


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=50)
CODES = st.sampled_from(["core.all", "core.own_words", IDLE.code, "server.would_sleep"])
NAMES = st.sampled_from(["reasons", "text", "idle_s", "draws_w", "why", "code", "params"])


def kept(inner: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    params = st.dictionaries(NAMES | st.text(max_size=9), inner, max_size=4)
    reason = st.fixed_dictionaries({"code": CODES | SCALARS, "params": params})
    return reason | st.lists(inner, max_size=3) | params


@given(st.recursive(SCALARS, kept))
def test_any_stored_reason_has_words(hostile: object) -> None:
    assert bool(reasons.sentences(hostile)) == bool(hostile)
    assert all(reasons.sentences(hostile))


def test_hostile_rows_of_the_history_never_fail() -> None:
    for hostile in (
        "[" * 100_000,
        '{"code":"core.all","params":{"reasons":' * 5000,
        '{"code":"policy.idle","params":{"idle_s":NaN}}',
        '{"code":"policy.idle","params":{"idle_s":-1e999}}',
        f'{{"code":"policy.idle","params":{{"idle_s":{"9" * 4000}}}}}',
        '{"code":"policy.idle","params":{}}',
        f'{{"code":"{"a" * 5000}.x","params":{{}}}}',
        '{"code":"../../../etc/passwd.x","params":{}}',
    ):
        assert reasons.plain(hostile), hostile
