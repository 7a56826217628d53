import contextlib
import os
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from history_box import DAY_S, HOUR_S, START_S, Box, event, second
from naproxy.core import page_h
from naproxy.core.page_h import Outcome
from naproxy.core.reason import Reason, own_words, stored_reason
from naproxy.core.state import Klass
from naproxy.history.tables import FILE, METERS
from naproxy.history.write import power
from naproxy.history.write.journal import Journal
from naproxy.history.write.writer import CHECKPOINT_EVERY, PRUNE_EVERY, SYNC_EVERY


def test_a_minute_and_an_hour_are_what_their_seconds_are_together(box: Box) -> None:
    box.meter(60, 40_000)
    box.meter(30, 50_000)
    box.history.flush()
    assert box.read(
        "SELECT t_s, meter, count, mean_mw, energy_mj, covered_ms FROM power_minutes"
    ) == [
        (START_S, "web", 3000, 40_000, 60 * 40_000, 60_000),
        (START_S + 60, "web", 1500, 50_000, 30 * 50_000, 30_000),
    ]
    assert box.read("SELECT t_s, count, mean_mw, min_mw, max_mw, energy_mj FROM power_hours") == [
        (HOUR_S, 4500, 43_333, 39_600, 50_400, 60 * 40_000 + 30 * 50_000)
    ]


def test_nothing_is_written_before_the_batch(box: Box) -> None:
    box.meter(60)
    assert box.seconds() == []
    box.history.tick()
    assert len(box.seconds()) == 60


def test_batches_and_restarts_that_cut_a_minute_lose_and_double_nothing(box: Box) -> None:
    for number in range(20):
        box.meter(17)
        if number % 5 == 0:
            box.restart()
        else:
            box.history.tick()
    box.history.flush()
    assert box.seconds() == list(range(START_S, START_S + 340))
    for tier in ("minutes", "hours"):
        assert box.energy(tier) == 340 * 43_000


def test_a_gap_stays_a_gap_and_no_zero(box: Box) -> None:
    box.meter(10)
    box.pass_s(200)
    box.meter(10)
    box.history.flush()
    assert len(box.seconds()) == 20
    assert box.read("SELECT t_s, covered_ms, min_mw FROM power_minutes") == [
        (START_S, 10_000, 42_600),
        (START_S + 180, 10_000, 42_600),
    ]


def test_zero_watts_are_written(box: Box) -> None:
    box.history.add_second("web", second(START_S, 0, min_mw=0, max_mw=0))
    box.history.flush()
    assert box.read("SELECT mean_mw, covered_ms FROM minutes") == [(0, 1000)]


def test_a_second_that_comes_late_is_added_to_its_minute(box: Box) -> None:
    box.meter(1)
    box.pass_s(300)
    box.history.tick()
    box.history.add_second("web", second(START_S + 1, 1000))
    box.history.flush()
    assert box.seconds() == [START_S, START_S + 1]
    assert box.energy("hours") == 44_000


def test_meters_are_kept_apart(box: Box) -> None:
    box.history.add_second("web", second(START_S, 1000))
    box.history.add_second("box", second(START_S, 2000))
    box.history.flush()
    found = box.read("SELECT meter, energy_mj FROM power_hours ORDER BY meter")
    assert found == [("box", 2000), ("web", 1000)]


def test_more_meters_than_there_is_room_for_are_said(box: Box, said: list[str]) -> None:
    for number in range(METERS + 1):
        box.history.add_second(f"meter{number}", second(START_S))
    box.history.flush()
    assert box.read("SELECT count(*), max(id) FROM meters") == [(METERS - 1, METERS - 1)]
    assert "other meters already" in said[0]


def test_a_second_that_cannot_be_true_is_said_once_and_left(box: Box, said: list[str]) -> None:
    box.meter(1)
    for number, wrong in enumerate(
        (
            {"covered_ms": 0},
            {"covered_ms": 1001},
            {"count": 0},
            {"min_mw": 44_000},
            {"max_mw": 2**31},
            {"energy_mj": 2**62},
        )
    ):
        said.clear()
        for _ in range(2):
            box.history.add_second(f"meter{number}", second(START_S, **wrong))
        assert len(said) == 1, wrong
        assert f"meter meter{number}" in said[0], wrong
    box.history.flush()
    assert box.energy("minutes") == 43_000


def test_a_disk_that_fails_for_a_while_costs_nothing(box: Box, said: list[str]) -> None:
    box.meter(30)
    box.journal.store.execute("PRAGMA busy_timeout = 1")
    with closing(sqlite3.connect(box.directory / FILE, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert not box.history.flush()
        assert "locked" in said[0]
        assert box.journal.error
    box.meter(30)
    assert box.history.flush()
    assert len(box.seconds()) == 60
    assert box.journal.error is None


def test_a_disk_that_fails_for_long_does_not_fill_the_memory() -> None:
    waiting = power.Power()
    for minute in range(power.MOST_WAITING + 5):
        waiting.add("web", second(60 * minute))
    assert waiting.given_up_s == 5


def test_requests_are_counted_by_class_and_outcome(box: Box) -> None:
    for outcome, flags in ((Outcome.HIT, 0), (Outcome.HIT, 0), (Outcome.HELD, page_h.E_DELAYED)):
        box.history.request("web", event(box, outcome, flags))
    box.history.flush()
    box.history.request("web", event(box))
    box.history.flush()
    wanted = [(Klass.PERSON, Outcome.HIT, 3, 0), (Klass.PERSON, Outcome.HELD, 1, 1)]
    for table in ("traffic_minutes", "traffic_hours"):
        found = box.read(f"SELECT class, outcome, requests, delayed FROM {table} ORDER BY outcome")
        assert found == wanted


def test_requests_that_another_run_has_counted_are_not_counted_again(box: Box) -> None:
    old = event(box)
    box.history.request("web", old)
    box.pass_s(120)
    box.restart()
    box.history.request("web", old)
    box.history.request("web", event(box))
    box.history.flush()
    assert box.read("SELECT sum(requests) FROM traffic_hours") == [(2,)]


def test_a_run_that_was_cut_off_is_made_up_for_by_the_next(box: Box) -> None:
    box.meter(120)
    box.history.tick()
    assert box.energy("hours") == 0
    box.journal.close()
    box.start()
    assert box.energy("hours") == 120 * 43_000


def test_requests_are_written_in_whole_minutes_so_that_a_crash_costs_none(box: Box) -> None:
    box.history.request("web", event(box))
    box.pass_s(60)
    late = event(box)
    box.history.request("web", late)
    for _ in range(SYNC_EVERY):
        box.history.tick()
    box.journal.close()
    box.start()
    box.history.request("web", late)  # Varnish's ring still has it
    box.history.flush()
    assert box.read("SELECT sum(requests) FROM traffic_minutes") == [(2,)]


def decisions(box: Box) -> list[Reason]:
    rows = box.journal.rows("decisions", "web", 0, 99)
    return [stored_reason(row["reason"]) for row in reversed(rows)]


def test_a_decision_is_written_when_it_or_its_reason_changes_not_its_figures(box: Box) -> None:
    five, more, later = (Reason("policy.idle", idle_s=s) for s in (5, 6.5, 7))
    fetching = Reason("server.fetching", number=2)
    for sleep, reason in (
        *((False, five), (False, more), (False, fetching)),
        *((False, later), (True, later)),
    ):
        box.journal.decision("web", box.house_s, sleep, reason)
        box.history.tick()
    assert decisions(box) == [five, fetching, later, later]


def test_of_many_decisions_in_a_minute_the_last_is_written(box: Box) -> None:
    for number in range(1000):
        box.journal.decision("web", box.house_s, False, own_words("ab"[number % 2]))
    box.history.tick()
    assert decisions(box) == [own_words("b")]


def test_old_seconds_go_before_old_minutes_and_hours_stay(box: Box) -> None:
    box.meter(60)
    box.history.tick()
    for days, left in ((8, [0, 1, 1]), (400, [0, 0, 1])):
        box.pass_s(days * DAY_S)
        for _ in range(PRUNE_EVERY):
            box.history.tick()
        tiers = ("seconds", "minutes", "hours")
        assert [box.read(f"SELECT count(*) FROM {tier}")[0][0] for tier in tiers] == left, days


def test_deletion_is_in_slices(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("naproxy.history.write.writer.SLICE_ROWS", 3)
    for _ in range(10):
        box.meter(1)
        box.pass_s(59)
    box.history.flush()
    box.pass_s(8 * DAY_S)
    left = []
    for _ in range(4):
        box.history.tick()
        left.append(len(box.seconds()))
    assert left == [7, 4, 1, 0]


def test_space_of_deleted_rows_is_used_again_and_the_file_does_not_grow(box: Box) -> None:
    pages = []
    for _ in range(3):
        for number in range(60 * 60):
            box.meter(1, 43_000 + number * 7919 % 601)
        box.history.flush()
        pages.append(box.read("SELECT page_count FROM pragma_page_count()")[0][0])
        box.pass_s(8 * DAY_S)
        for _ in range(PRUNE_EVERY):
            box.history.tick()
    minutes = 60 * 40 // 1024 + 2
    assert pages[2] - pages[1] <= minutes < pages[0] // 4


def test_the_disk_is_made_to_keep_it_every_tenth_batch(box: Box) -> None:
    due = []
    for _ in range(CHECKPOINT_EVERY):
        box.history.tick()
        due.append(box.history.sync_due)
    assert due == [n % SYNC_EVERY == 0 for n in range(1, CHECKPOINT_EVERY + 1)]


def test_after_an_hour_the_side_file_is_worked_off(box: Box) -> None:
    for _ in range(CHECKPOINT_EVERY):
        box.history.tick()
    box.meter(60)
    box.history.flush()
    box.history.sync()
    lone = f"file:{box.directory / FILE}?immutable=1"
    with closing(sqlite3.connect(lone, uri=True)) as db:
        assert db.execute("SELECT count(*) FROM minutes").fetchone() == (1,)


def test_a_disk_that_cannot_keep_it_is_said(
    box: Box, monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    def fails(*_: Any) -> None:
        raise OSError("Input/output error")

    monkeypatch.setattr("os.fdatasync", fails)
    box.history.tick()
    box.history.sync()
    assert "may not survive a power cut: Input/output error" in said[0]


def test_a_history_in_memory_has_nothing_to_sync(tmp_path: Path, said: list[str]) -> None:
    (tmp_path / FILE).mkdir()
    box = Box(tmp_path)
    for _ in range(CHECKPOINT_EVERY):
        box.history.tick()
    box.history.sync()
    assert ["memory" in words for words in said] == [True]
    box.stop()


def test_a_damaged_block_is_a_gap_and_its_minute_stays(box: Box) -> None:
    box.meter(60)
    box.history.flush()
    box.journal.store.execute("UPDATE seconds SET block = X'0199'")
    box.meter(60)
    box.history.flush()
    assert box.energy("hours") == 120 * 43_000
    assert box.journal.error is None


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small disk")
def test_what_is_vital_is_kept_on_a_full_disk(tmp_path: Path) -> None:
    def filled() -> Path:
        """Fill it to the last byte, as a log would."""
        file = tmp_path / "log"
        with file.open("wb", buffering=0) as log:
            for size in (1 << 16, 1 << 12, 1):
                with contextlib.suppress(OSError):
                    while True:
                        log.write(b"x" * size)
        return file

    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", tmp_path], check=True)
    try:
        journal = Journal(tmp_path)
        journal.save("arming.web", {"tripped": ""})
        full = filled()
        for number in range(3):
            journal.save("arming.web", {"tripped": f"{number}"}, vital=True)
            journal.save("learned", {"much": "x" * 100000})
        # The process is killed, and another begins.
        assert Journal(tmp_path).saved("arming.web") == {"tripped": "2"}
        full.unlink()
        journal.close()
    finally:
        subprocess.run(["umount", "-l", tmp_path], check=True)


def test_what_is_vital_and_could_not_be_kept_is_tried_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.store._db.execute("PRAGMA query_only=1")
    journal.save("arming.web", {"tripped": "it did not wake"}, vital=True)
    assert journal.error
    journal.store._db.execute("PRAGMA query_only=0")
    journal.save("learned", {})
    assert Journal(tmp_path).saved("arming.web") == {"tripped": "it did not wake"}
