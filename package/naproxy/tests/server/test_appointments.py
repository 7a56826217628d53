"""A server's own appointments: which matter, when it is woken for them, when it stays awake."""

from __future__ import annotations

import json
import math
from datetime import UTC

from naproxy.core.reason import Reason
from naproxy.server.appointments import BEGIN_S, LONGEST_S, SOON_S, Appointments, lead_s
from naproxy.server.inhibitors import Settings
from naproxy.server.jobs import Job

NOW_S = 1795449600.0  # 2026-11-23 16:00 UTC
HOUR_S = 3600.0
WAKE_S = 20.0
LEAD_S = lead_s(WAKE_S)
BACKUP = Job("backup.timer", 10 * HOUR_S)
DUE_S = NOW_S + BACKUP.in_s


def appointment(due_at_s: float = DUE_S) -> Reason:
    return Reason("sleep.appointment", name="backup.timer", due_at_s=due_at_s)


def known(*jobs: Job, ignore: tuple[str, ...] = (), quiet: tuple[str, ...] = ()) -> Appointments:
    found = Appointments(Settings(ignore_timers=ignore, quiet=quiet), UTC)
    found.told(jobs or (BACKUP,), NOW_S)
    return found


def names(found: Appointments) -> list[str]:
    return [each.name for each in found.next(NOW_S)]


HOUSEKEEPING = (
    *("apt-daily.timer", "apt-daily-upgrade.timer", "logrotate.timer", "man-db.timer"),
    *("fstrim.timer", "systemd-tmpfiles-clean.timer", "phpsessionclean.timer"),
    *("dpkg-db-backup.timer", "motd-news.timer", "e2scrub_all.timer", "anacron.timer"),
    *("cron.daily/apt-compat", "cron.daily/dpkg", "cron.daily/man-db", "cron.weekly/man-db"),
    *(
        "cron.daily/apache2",
        "cron.daily/lighttpd",
        "cron.daily/exim4-base",
        "apt-listchanges.timer",
    ),
    *("cron.d/e2scrub_all", "cron.d/php", "cron.daily/0anacron", "cron.daily/logrotate"),
)
ALL_ELSE = (
    *("backup.timer", "cron.d/backup", "root: rsync", "apt.timer", "cron.d/apt-mirror"),
    *("apt-mirror: apt-mirror", "apt-mirror.timer", "cron.daily/apt-mirror", "apt-offline: get"),
    *("apt-clone.service.timer", "cron.weekly/apt-backup", "cron.d/apache2", "cron.weekly/apache2"),
)


def test_the_systems_housekeeping_is_nothing_to_wake_for_and_all_else_is() -> None:
    for name in HOUSEKEEPING:
        assert names(known(Job(name, HOUR_S))) == [], name
    for name in ALL_ELSE:
        assert names(known(Job(name, HOUR_S))) == [name]


def test_hourly_jobs_do_not_wake_the_server() -> None:
    assert names(known(Job("www-data: php", 60, often=True))) == []


def test_jobs_that_the_office_ignores_wake_nothing_and_are_forgotten_at_once() -> None:
    for ignore in ("backup.timer", "backup*"):
        jobs = (BACKUP, Job("x.timer", 5))
        assert names(known(*jobs, ignore=(ignore,))) == ["x.timer"], ignore
        found = known(*jobs)
        found.configure(Settings(ignore_timers=(ignore,)), UTC)
        assert names(found) == ["x.timer"], ignore


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


def test_a_report_replaces_the_one_before() -> None:
    found = known()
    found.told([Job("x.timer", 60)], NOW_S)
    assert names(found) == ["x.timer"]


# Put to sleep, or not


def test_it_is_not_put_to_sleep_for_minutes_only() -> None:
    found = known(Job("backup.timer", SOON_S + LEAD_S))
    due_at_s = NOW_S + SOON_S + LEAD_S
    assert found.soon(NOW_S, WAKE_S) == appointment(due_at_s)
    assert known(Job("backup.timer", SOON_S + LEAD_S + 1)).soon(NOW_S, WAKE_S) is None


def test_it_stays_awake_until_the_job_had_a_moment_to_begin() -> None:
    found, awake_s = known(), LEAD_S - WAKE_S
    for after_s, wanted in ((0, appointment()), (BEGIN_S - 1, appointment()), (BEGIN_S, None)):
        assert found.begins(DUE_S + after_s, awake_s + after_s, WAKE_S) == wanted, after_s


def test_one_that_it_slept_through_has_a_moment_to_begin_after_the_wake() -> None:
    found, late_s = known(), DUE_S + HOUR_S
    assert found.begins(late_s, 1.0, WAKE_S) == appointment()
    assert found.begins(late_s + BEGIN_S, BEGIN_S + 1.0, WAKE_S) is None


# Woken


def test_it_is_woken_so_much_earlier_as_waking_takes_and_a_margin_or_as_soon_as_the_box_is_on() -> (
    None
):
    assert LEAD_S > WAKE_S
    assert known().due(DUE_S - LEAD_S - 1, NOW_S, WAKE_S) is None
    for t_s in (DUE_S - LEAD_S, DUE_S, DUE_S + HOUR_S):
        assert known().due(t_s, NOW_S, WAKE_S) == appointment(), t_s


def test_a_server_that_fell_asleep_after_an_appointment_is_not_woken_for_it_again() -> None:
    assert known().due(DUE_S + HOUR_S, DUE_S + 1, WAKE_S) is None


def test_the_box_looks_again_when_it_must_wake_it_if_there_is_anything_to_wake_it_for() -> None:
    assert known().change_s(NOW_S, WAKE_S) == BACKUP.in_s - LEAD_S
    none = Appointments(Settings(), UTC)
    assert none.change_s(NOW_S, WAKE_S) == math.inf
    assert none.due(NOW_S, NOW_S - HOUR_S, WAKE_S) is None


# The server's own clock


def test_its_own_clock_wakes_it_between_the_box_and_the_job_or_after_the_longest_sleep() -> None:
    alarm_s = known().alarm_s(NOW_S, WAKE_S)
    assert BACKUP.in_s - LEAD_S < alarm_s <= BACKUP.in_s - WAKE_S
    for found in (Appointments(Settings(), UTC), known(Job("x.timer", 9 * LONGEST_S))):
        assert found.alarm_s(NOW_S, WAKE_S) == LONGEST_S


# Kept over a restart


def test_they_are_kept_over_a_restart() -> None:
    found = Appointments(Settings(), UTC)
    found.load(known().dump())
    assert names(found) == ["backup.timer"]


def restarted(before: Appointments) -> Appointments:
    """Return what the next controller knows."""
    found = Appointments(Settings(), UTC)
    found.load(json.loads(json.dumps(before.dump())))
    return found


def test_a_restart_renews_no_moment_of_a_past_appointment() -> None:
    for late_s in (0.0, HOUR_S):
        found, came_s = known(), DUE_S + late_s
        assert found.begins(came_s, 1.0, WAKE_S) == appointment()
        for after_s in (60.0, 200.0):
            found = restarted(found)
            assert found.begins(came_s + after_s, 0.5, WAKE_S) == appointment(), (late_s, after_s)
        for after_s in (BEGIN_S, BEGIN_S + 60, HOUR_S):
            found = restarted(found)
            assert found.begins(came_s + after_s, 0.5, WAKE_S) is None, (late_s, after_s)
    missed = restarted(known())
    assert missed.begins(DUE_S + HOUR_S, 1.0, WAKE_S) == appointment(), "it slept through it"


def test_nonsense_counts_as_unknown() -> None:
    for saved in (None, 1, [1], [["x"]], [["soon", "x"]], [[1.0, "x", "y"]], {"a": 1}):
        found = Appointments(Settings(), UTC)
        found.load(saved)
        assert names(found) == [], saved
