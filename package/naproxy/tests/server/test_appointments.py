"""A server's own appointments: which matter, when it is woken for them, when it stays awake."""

from __future__ import annotations

import math
from datetime import UTC

import pytest
from naproxy.core.reason import Reason
from naproxy.server.appointments import BEGIN_S, LONGEST_S, SOON_S, Appointments, lead_s
from naproxy.server.inhibitors import Settings
from naproxy.server.jobs import Job

NOW_S = 1795449600.0  # 2026-11-23 16:00 UTC
HOUR_S = 3600.0
WAKE_S = 20.0
LEAD_S = lead_s(WAKE_S)
BACKUP = Job("backup.timer", 10 * HOUR_S)


def known(*jobs: Job, ignore: tuple[str, ...] = (), quiet: tuple[str, ...] = ()) -> Appointments:
    found = Appointments(Settings(ignore_timers=ignore, quiet=quiet), UTC)
    found.told(jobs or (BACKUP,), NOW_S)
    return found


def names(found: Appointments) -> list[str]:
    return [each.name for each in found.next(NOW_S)]


@pytest.mark.parametrize(
    "name",
    [
        *("apt-daily.timer", "apt-daily-upgrade.timer", "logrotate.timer", "man-db.timer"),
        *("fstrim.timer", "systemd-tmpfiles-clean.timer", "phpsessionclean.timer"),
        *("dpkg-db-backup.timer", "motd-news.timer", "e2scrub_all.timer", "anacron.timer"),
        *("cron.daily/apt-compat", "cron.daily/dpkg", "cron.daily/man-db", "cron.weekly/man-db"),
        *("cron.d/e2scrub_all", "cron.d/php", "cron.daily/0anacron", "cron.daily/logrotate"),
    ],
)
def test_the_system_s_housekeeping_is_nothing_to_wake_for(name: str) -> None:
    assert names(known(Job(name, HOUR_S))) == []


@pytest.mark.parametrize("name", ["backup.timer", "cron.d/backup", "root: rsync", "apt.timer"])
def test_all_else_is_kept(name: str) -> None:
    assert names(known(Job(name, HOUR_S))) == [name]


def test_what_runs_every_hour_is_nothing_to_wake_for() -> None:
    assert names(known(Job("www-data: php", 60, often=True))) == []


@pytest.mark.parametrize("ignore", ["backup.timer", "backup*"])
def test_the_office_says_what_else_is_nothing_to_wake_for(ignore: str) -> None:
    assert names(known(BACKUP, Job("x.timer", 5), ignore=(ignore,))) == ["x.timer"]


def test_what_the_office_ignores_is_forgotten_at_once() -> None:
    found = known(BACKUP, Job("x.timer", 60))
    found.configure(Settings(ignore_timers=("x.timer",)), UTC)
    assert names(found) == ["backup.timer"]


def test_the_office_says_what_it_is_woken_for_all_the_same() -> None:
    ignore = ("!logrotate.timer", "!root: sync")
    jobs = [Job("logrotate.timer", 10), Job("root: sync", 20, often=True), Job("man-db.timer", 5)]
    assert names(known(*jobs, ignore=ignore)) == ["logrotate.timer", "root: sync"]


def test_in_quiet_hours_nothing_is_expected_of_it() -> None:
    day = Job("x.timer", 16 * HOUR_S)
    assert names(known(BACKUP, day, quiet=("mon-sun 22:00-06:00",))) == ["x.timer"]


def test_however_many_it_tells_the_next_ones_are_kept() -> None:
    jobs = [Job(f"{n}.timer", float(n)) for n in range(5000, 0, -1)]
    assert names(known(*jobs)) == [f"{n}.timer" for n in range(1, 17)]


def test_what_it_tells_replaces_what_it_told() -> None:
    found = known()
    found.told([Job("x.timer", 60)], NOW_S)
    assert names(found) == ["x.timer"]


# Put to sleep, or not


def test_it_is_not_put_to_sleep_for_minutes_only() -> None:
    found = known(Job("backup.timer", SOON_S + LEAD_S))
    assert found.soon(NOW_S, WAKE_S) == Reason(
        "sleep.appointment", name="backup.timer", due_at_s=NOW_S + SOON_S + LEAD_S
    )


def test_it_sleeps_if_the_next_one_is_later() -> None:
    assert known(Job("backup.timer", SOON_S + LEAD_S + 1)).soon(NOW_S, WAKE_S) is None


def test_it_stays_awake_until_the_job_had_a_moment_to_begin() -> None:
    found, due_s = known(), NOW_S + BACKUP.in_s
    awake_s = LEAD_S - WAKE_S
    assert found.begins(due_s, awake_s, WAKE_S) is not None
    assert found.begins(due_s + BEGIN_S - 1, awake_s + BEGIN_S - 1, WAKE_S) is not None
    assert found.begins(due_s + BEGIN_S, awake_s + BEGIN_S, WAKE_S) is None


def test_one_that_it_slept_through_has_a_moment_to_begin_after_the_wake() -> None:
    found, late_s = known(), NOW_S + BACKUP.in_s + HOUR_S
    assert found.begins(late_s, 1.0, WAKE_S) == Reason(
        "sleep.appointment", name="backup.timer", due_at_s=NOW_S + BACKUP.in_s
    )
    assert found.begins(late_s + BEGIN_S, BEGIN_S + 1.0, WAKE_S) is None


# Woken


def test_it_is_woken_so_much_earlier_as_waking_takes_and_a_margin() -> None:
    found, due_s = known(), NOW_S + BACKUP.in_s
    assert found.due(due_s - LEAD_S - 1, NOW_S, WAKE_S) is None
    assert found.due(due_s - LEAD_S, NOW_S, WAKE_S) == Reason(
        "sleep.appointment", name="backup.timer", due_at_s=NOW_S + BACKUP.in_s
    )
    assert LEAD_S > WAKE_S


def test_a_box_that_was_off_at_the_time_wakes_it_later() -> None:
    assert known().due(NOW_S + BACKUP.in_s + HOUR_S, NOW_S, WAKE_S) is not None


def test_who_fell_asleep_after_it_is_not_woken_for_it_again() -> None:
    due_s = NOW_S + BACKUP.in_s
    assert known().due(due_s + HOUR_S, due_s + 1, WAKE_S) is None


def test_the_box_looks_again_when_it_must_wake_it() -> None:
    assert known().change_s(NOW_S, WAKE_S) == BACKUP.in_s - LEAD_S


def test_without_one_there_is_nothing_to_look_for() -> None:
    found = Appointments(Settings(), UTC)
    assert found.change_s(NOW_S, WAKE_S) == math.inf
    assert found.due(NOW_S, NOW_S - HOUR_S, WAKE_S) is None


# The server's own clock


def test_its_own_clock_wakes_it_after_the_box_would_have_and_before_the_job() -> None:
    alarm_s = known().alarm_s(NOW_S, WAKE_S)
    assert BACKUP.in_s - LEAD_S < alarm_s <= BACKUP.in_s - WAKE_S


def test_its_own_clock_never_lets_it_sleep_longer_than_that() -> None:
    assert Appointments(Settings(), UTC).alarm_s(NOW_S, WAKE_S) == LONGEST_S
    assert known(Job("x.timer", 9 * LONGEST_S)).alarm_s(NOW_S, WAKE_S) == LONGEST_S


# Kept over a restart


def test_they_are_kept_over_a_restart() -> None:
    found = Appointments(Settings(), UTC)
    found.load(known().dump())
    assert names(found) == ["backup.timer"]


@pytest.mark.parametrize("saved", [None, 1, [1], [["x"]], [["soon", "x"]], {"a": 1}])
def test_what_makes_no_sense_is_nothing_known(saved: object) -> None:
    found = Appointments(Settings(), UTC)
    found.load(saved)
    assert names(found) == []


def test_the_reason_has_the_moment() -> None:
    due_s = NOW_S + BACKUP.in_s
    reason = known().due(due_s, NOW_S, WAKE_S)
    assert reason == Reason("sleep.appointment", name="backup.timer", due_at_s=due_s)
