import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from naproxy.core.reason import Reason, own_words
from naproxy.core.request import WakeRequest
from naproxy.core.state import State
from naproxy.history.tables import FILE
from naproxy.history.write.journal import Journal
from naproxy.server.stages import Stage

STAGES = (Stage("network", 4.0), Stage("answer", 0.25))
WAKE_REQUEST = WakeRequest(
    "192.0.2.17", "page", "GET", "person", "Firefox", "www.example.org", "/news"
)
IDLE = Reason("policy.idle", idle_s=63)
DAY_S = 86400.0


class Clock:
    def __init__(self) -> None:
        self.now_s = 1_000_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def journal(tmp_path: Path, clock: Clock, said: list[str]) -> Iterator[Journal]:
    made = Journal(tmp_path, clock)
    yield made
    made.close()


def test_rows_are_those_of_one_server_since_a_time_newest_first_and_no_more_than_asked(
    journal: Journal, clock: Clock
) -> None:
    for number in range(10):
        clock.now_s += 1
        journal.transition("ab"[number % 2], State.AWAKE, State.ASLEEP, own_words(str(number)))
    found = journal.rows("transitions", "a", 1_000_004.0, 2)
    assert [(r["t_s"], r["from"], r["to"], r["reason"]) for r in found] == [
        (1_000_009.0, "awake", "asleep", own_words("8").plain()),
        (1_000_007.0, "awake", "asleep", own_words("6").plain()),
    ]


def _rows(journal: Journal, server: str | None = None) -> list[dict[str, object]]:
    return journal.rows("transitions", server, 0, 100)


def test_the_ledger_says_who_woke_and_how_long_it_took(journal: Journal) -> None:
    row = journal.wake_opened("web", WAKE_REQUEST)
    assert row is not None
    journal.wake_closed(row, "up", 4.25, 3, STAGES)
    [wake] = journal.rows("wakes", None, 0, 10)
    del wake["id"]
    assert wake == {
        **{"t_s": 1_000_000.0, "server": "web", "who": "192.0.2.17", "class": "person"},
        **{"host": "www.example.org", "path": "/news", "method": "GET", "agent": "Firefox"},
        **{"reason": "page", "waited_s": 4.25, "packets": 3, "outcome": "up"},
        "stages": [{"stage": "network", "took_s": 4.0}, {"stage": "answer", "took_s": 0.25}],
    }


def test_the_last_wake_of_known_stages_is_found(journal: Journal, clock: Clock) -> None:
    assert journal.last_stages("web") is None
    for server, stages in (("web", STAGES), ("web", ()), ("other", STAGES[:1])):
        clock.now_s += 1
        row = journal.wake_opened(server, WAKE_REQUEST)
        assert row is not None
        journal.wake_closed(row, "up", 4.25, 3, stages)
    assert journal.last_stages("web") == (1_000_001.0, STAGES)


def test_a_wake_that_no_request_asked_for_has_a_reason(journal: Journal) -> None:
    why = Reason("server.office_hours", until_at_s=1.8e9)
    journal.wake_opened("web", WakeRequest("schedule", why))
    [wake] = journal.rows("wakes", None, 0, 10)
    assert (wake["class"], wake["reason"]) == ("", why.plain())


def test_sentences_that_an_older_naproxy_kept_stay_as_they_are(journal: Journal) -> None:
    who = "who, host, path, method, agent, class"
    for table, columns, values, words in (
        ("transitions", '"from", "to"', "'awake', 'asleep'", "idle 63 s"),
        ("wakes", who, "'command', '', '', '', '', ''", "by hand"),
        ("decisions", "sleep", "1", "63"),
    ):
        journal.store.execute(
            f"INSERT INTO {table} (t_s, server, {columns}, reason)"
            f" VALUES (1, 'web', {values}, '{words}')"
        )
        [row] = journal.rows(table, "web", 0, 10)
        assert row["reason"] == own_words(words).plain(), table


def test_the_last_known_state_is_not_unknown(journal: Journal) -> None:
    assert journal.last_known("web") is State.UNKNOWN
    journal.transition("web", State.AWAKE, State.ASLEEP, IDLE)
    journal.transition("web", State.ASLEEP, State.UNKNOWN, Reason("server.stopped"))
    assert journal.last_known("web") is State.ASLEEP
    assert journal.last_known("shop") is State.UNKNOWN


def test_what_is_saved_is_there_after_a_restart_and_all_else_is_empty(
    journal: Journal, tmp_path: Path
) -> None:
    journal.save("key", {"a": 1})
    journal.save("key", {"a": 2})
    journal.close()
    again = Journal(tmp_path)
    assert (again.saved("key"), again.saved("nothing")) == ({"a": 2}, {})


def test_rows_of_another_table_are_refused(journal: Journal) -> None:
    with pytest.raises(ValueError, match="saved"):
        journal.rows("saved; DROP TABLE saved", None, 0, 1)


def test_values_are_never_read_as_sql(journal: Journal) -> None:
    evil = "'; DROP TABLE wakes; --"
    journal.wake_opened(evil, WakeRequest(evil, evil, path=evil))
    assert journal.rows("wakes", evil, 0, 1)[0]["path"] == evil


def test_old_rows_go_and_each_servers_last_state_stays(journal: Journal, clock: Clock) -> None:
    journal.transition("web", State.AWAKE, State.ASLEEP, IDLE)
    journal.transition("web", State.ASLEEP, State.AWAKE, own_words("last"))
    journal.wake_opened("web", WAKE_REQUEST)
    clock.now_s += 100 * DAY_S
    journal.prune(90)
    assert [r["reason"] for r in _rows(journal)] == [own_words("last").plain()]
    assert journal.rows("wakes", None, 0, 10) == []


def of_another_version(tmp_path: Path) -> bytes:
    path = tmp_path / "another.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 99")
    return path.read_bytes()


def test_a_file_that_is_damaged_or_of_another_version_is_set_aside_and_said(
    tmp_path: Path, clock: Clock, said: list[str]
) -> None:
    text, header = b"not a database at all" * 100, b"SQLite format 3\x00" + b"\xff" * 4096
    for content in (text, header, of_another_version(tmp_path)):
        clock.now_s += 1
        (tmp_path / FILE).write_bytes(content)
        with closing(Journal(tmp_path, clock)) as journal:
            journal.transition("web", State.AWAKE, State.ASLEEP, IDLE)
            assert len(_rows(journal)) == 1, content[:20]
        assert (tmp_path / f"{FILE}.bad-{clock.now_s:.0f}").read_bytes() == content
        assert "set aside" in said[-1], content[:20]
    assert "generation is known here: 99" in said[-1]


def test_a_file_that_is_damaged_while_in_use_is_begun_anew(
    journal: Journal, tmp_path: Path, said: list[str]
) -> None:
    for number in range(200):
        journal.transition("web", State.AWAKE, State.ASLEEP, own_words(str(number) * 50))
    with sqlite3.connect(tmp_path / FILE) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    other.close()
    size = (tmp_path / FILE).stat().st_size
    with (tmp_path / FILE).open("r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * (size - 4096))
    journal.close()
    again = Journal(tmp_path, Clock())
    for _ in range(3):
        again.transition("web", State.AWAKE, State.ASLEEP, own_words("after"))
    assert _rows(again)[0]["reason"] == own_words("after").plain()
    assert again.error is None
    assert any("set aside" in words for words in said)


def test_where_nothing_can_be_written_it_goes_on_in_memory(tmp_path: Path, said: list[str]) -> None:
    (tmp_path / FILE).mkdir()
    journal = Journal(tmp_path, Clock())
    journal.transition("web", State.AWAKE, State.ASLEEP, IDLE)
    assert len(_rows(journal)) == 1
    assert "memory" in said[0]


def test_what_is_new_is_found_without_reading_all(journal: Journal, clock: Clock) -> None:
    def fill(db: sqlite3.Connection) -> None:
        for _ in range(3000):
            clock.now_s += 1
            journal.transition("web", State.AWAKE, State.FALLING_ASLEEP, IDLE)
            journal.wake_opened("web", WAKE_REQUEST)
            decided = "INSERT INTO decisions (t_s, server, sleep, reason) VALUES (?, 'web', 0, '')"
            db.execute(decided, (clock.now_s,))

    assert journal.store.batch(fill)
    # Decisions have no index by time: of them the last ones are read.
    steps: list[None] = []
    journal.store._db.set_progress_handler(lambda: steps.append(None), 100)
    for table, most in (("transitions", 10), ("wakes", 10), ("decisions", 40)):
        steps.clear()
        found = journal.rows(table, None, clock.now_s - 1, 200)
        assert [row["t_s"] for row in found] == [clock.now_s, clock.now_s - 1], table
        assert len(steps) < most, table
