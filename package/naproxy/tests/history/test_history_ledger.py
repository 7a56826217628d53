import sqlite3
from typing import Any

import pytest
from history_box import START_S, Box
from naproxy.core.reason import own_words, stored_reason
from naproxy.core.request import WakeRequest
from naproxy.core.state import State
from naproxy.history.read import ledger

EVER = (0.0, 1e11)


def wake(box: Box, server: str = "web", **wake_request: Any) -> None:
    values = {"who": "192.0.2.1", "reason": "page", "klass": "person", "path": "/"} | wake_request
    row = box.journal.wake_opened(server, WakeRequest(**values))
    assert row is not None
    box.journal.wake_closed(row, "up", 2.5, 1)
    box.pass_s(600)


def found(db: sqlite3.Connection, **search: Any) -> list[dict[str, Any]]:
    return ledger.wakes(db, ledger.Search(*EVER, **search)).rows


def test_pages_have_every_wake_once_also_those_of_the_same_moment(
    box: Box, db: sqlite3.Connection
) -> None:
    for number in range(23):
        row = box.journal.wake_opened("web", WakeRequest(str(number), "page", klass="person"))
        assert row
        if number % 7 == 0:
            box.pass_s(1)
    seen, cursor = [], ""
    while True:
        page = ledger.wakes(db, ledger.Search(*EVER), cursor, 5)
        seen += [int(row["who"]) for row in page.rows]
        if page.next is None:
            break
        cursor = page.next
    assert seen == list(range(22, -1, -1))


def test_what_comes_while_somebody_pages_moves_nothing(box: Box, db: sqlite3.Connection) -> None:
    for number in range(4):
        wake(box, path=f"/{number}")
    first = ledger.wakes(db, ledger.Search(*EVER), "", 2)
    wake(box, path="/new")
    second = ledger.wakes(db, ledger.Search(*EVER), first.next or "", 2)
    assert [row["path"] for row in second.rows] == ["/1", "/0"]


def test_a_cursor_that_no_page_gave_is_refused(db: sqlite3.Connection) -> None:
    for cursor in ("x", "1", "1_x", "nan_1", "inf_1", "1e99_1", "1_-1", "1_" * 9):
        with pytest.raises(ledger.CursorError):
            ledger.wakes(db, ledger.Search(*EVER), cursor)


def test_the_ledger_is_searched(box: Box, db: sqlite3.Connection) -> None:
    wake(box, who="192.0.2.77", path="/feed.xml", klass="api", reason="miss", agent="x")
    wake(box, server="shop", path="/shop", agent="Some-News/1.0")
    wake(box, who="command", reason="by hand", klass="", path="")
    wake(box, who="command", path="/a class is not the box's own doing")
    for search, paths in (
        ({"server": "shop"}, ["/shop"]),
        ({"klass": "api"}, ["/feed.xml"]),
        ({"cause": "miss"}, ["/feed.xml"]),
        ({"cause": "command"}, [""]),
        ({"outcome": "trouble"}, []),
        ({"text": "FEED"}, ["/feed.xml"]),
        ({"text": "192.0.2.77"}, ["/feed.xml"]),
        ({"text": "news/1"}, ["/shop"]),
        ({"text": "%"}, []),
        ({"text": "_"}, []),
        ({"text": "' OR 1=1 --"}, []),
        ({"text": "feed", "klass": "person"}, []),
    ):
        assert [row["path"] for row in found(db, **search)] == paths, search


def test_decisions_and_transitions_come_in_pages_too(box: Box, db: sqlite3.Connection) -> None:
    for number in range(5):
        box.journal.transition("web", State.AWAKE, State.ASLEEP, own_words(str(number)))
        box.pass_s(10)
    first = ledger.events(db, "transitions", ledger.Search(*EVER, "web"), "", 3)
    rest = ledger.events(db, "transitions", ledger.Search(*EVER), first.next or "", 3)
    assert [stored_reason(row["reason"]) for row in first.rows + rest.rows] == [
        own_words(text) for text in "43210"
    ]
    assert rest.next is None
    with pytest.raises(ValueError, match="saved"):
        ledger.events(db, "saved", ledger.Search(*EVER))


def test_a_rule_matches_as_the_vmod_does() -> None:
    row = {"path": "/feed.xml?since=1", "agent": "Feedly/1.0", "who": "192.0.2.77"}
    for kind, text, matches in (
        ("path", "/feed", True),
        ("path", "/Feed", False),
        ("path", "/feed.xml?since=2", False),
        ("agent", "FEEDLY", True),
        ("agent", "bot", False),
        ("address", "192.0.2.77", True),
        ("address", "192.0.2.0/24", True),
        ("address", "192.0.2.64/29", False),
        ("address", "2001:db8::/32", False),
    ):
        assert ledger.matcher(kind, text)(row) is matches, (kind, text)
    assert not ledger.matcher("address", "0.0.0.0/0")({"who": "unix socket"})


def test_a_rule_that_cannot_be_is_refused() -> None:
    for kind, text in (("address", "office"), ("host", "x")):
        with pytest.raises(ValueError):  # noqa: PT011 - ipaddress has its own words
            ledger.matcher(kind, text)


def test_who_wakes_most_comes_first_with_what_it_has_in_common(
    box: Box, db: sqlite3.Connection
) -> None:
    for number in range(5):
        wake(box, who=f"192.0.2.{number}", path=f"/feed.xml?n={number}", klass="api", agent="F")
    wake(box, who="192.0.2.1", path="/")
    wake(box, who="policy", reason="ahead", klass="", path="")
    rows = ledger.requests(db, "web", *EVER)
    assert len(rows) == 6
    [first, second] = ledger.groups(rows, "path")
    assert (first.key, first.wakes, first.classes, first.agents) == (
        "/feed.xml",
        5,
        {"api": 5},
        {"F": 5},
    )
    assert (first.first_s, first.last_s) == (START_S, START_S + 2400)
    assert len(first.addresses) == 5
    assert (second.key, second.wakes) == ("/", 1)
    assert ledger.groups(rows, "address")[0].key == "192.0.2.1"


def test_what_groups_cost_is_added_up(box: Box, db: sqlite3.Connection) -> None:
    for _ in range(3):
        wake(box, path="/a")
    rows = ledger.requests(db, "web", *EVER)
    for row, extra_j in zip(rows, (10.0, None, 5.0), strict=True):
        row |= {"awake_s": 60.0, "extra_j": extra_j}
    [group] = ledger.groups(rows, "path")
    assert (group.awake_s, group.extra_j) == (180.0, 15.0)
