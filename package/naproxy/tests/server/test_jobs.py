"""What a server tells of its timers and crontabs, and what is made of it."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from hypothesis import example, given
from hypothesis import strategies as st
from naproxy.core.hours import zone
from naproxy.server import jobs
from naproxy.server.jobs import Job, UnreadableError

ZURICH = ZoneInfo("Europe/Zurich")
HOUR_S = 3600.0
DAY_S = 24 * HOUR_S


def at(text: str) -> float:
    """Return the epoch seconds of a time in Zurich."""
    return datetime.fromisoformat(text).replace(tzinfo=ZURICH).timestamp()


NOW_S = at("2026-11-23 16:00")


def text(*lines: str, now_s: float = NOW_S) -> str:
    told = [jobs.FIRST_LINE, f"now {now_s:.0f}", "zone Europe/Zurich +0100", *lines, jobs.LAST_LINE]
    return "\n".join([*told, ""])


def told(*lines: str, now_s: float = NOW_S) -> list[Job]:
    return jobs.parse(text(*lines, now_s=now_s), UTC, zone)


def cron(when: str, *, now: str = "2026-11-23 16:00") -> float:
    """Return when a line of a crontab is due next, in epoch seconds; infinity: not in a year."""
    now_s = at(now)
    found = told("crontab /var/spool/cron/crontabs/joe", f"|{when} backup", now_s=now_s)
    return now_s + found[0].in_s if found else math.inf


# ------------------------------------------------------------------------- crontabs


CRONTAB = {
    "0 2 * * *": "2026-11-24 02:00",
    "0 16 * * *": "2026-11-24 16:00",  # now is over
    "1 16 * * *": "2026-11-23 16:01",
    "*/20 * * * *": "2026-11-23 16:20",
    "5-59/25 * * * *": "2026-11-23 16:05",
    "30/20 * * * *": "2026-11-23 16:30",
    "0 8-18/2 * * *": "2026-11-23 18:00",
    "0 3,21 * * *": "2026-11-23 21:00",
    "0 0 1 * *": "2026-12-01 00:00",
    "0 0 31 * *": "2026-12-31 00:00",
    "15 4 * * 0": "2026-11-29 04:15",
    "15 4 * * 7": "2026-11-29 04:15",
    "15 4 * * Sun": "2026-11-29 04:15",
    "15 4 * * mon-fri": "2026-11-24 04:15",
    "15 4 * * 5-7": "2026-11-27 04:15",
    "0 0 * feb *": "2027-02-01 00:00",
    "0 0 13 * 5": "2026-11-27 00:00",  # the 13th or a Friday
    "0 0 */2 * 5": "2026-11-27 00:00",  # an odd day that is a Friday
    "@daily": "2026-11-24 00:00",
    "@weekly": "2026-11-29 00:00",
    "@monthly": "2026-12-01 00:00",
    "@yearly": "2027-01-01 00:00",
    "@hourly": "2026-11-23 17:00",
}
NEVER = ("@reboot", "0 0 30 2 *", "0 0 29 2 *", "60 * * * *", "* 24 * * *", "1-0 * * * *")


def test_a_line_of_a_crontab_is_due_or_left_out_if_not_within_a_year() -> None:
    for when, due in CRONTAB.items():
        assert cron(when) == at(due), when
    for when in NEVER:
        assert cron(when) == math.inf, when


def test_a_time_that_clocks_skip_in_spring_is_when_they_go_on() -> None:
    assert cron("30 2 * * *", now="2027-03-27 12:00") == at("2027-03-28 03:00")


def test_a_time_that_clocks_show_twice_in_autumn_is_the_first() -> None:
    due_s = cron("30 2 * * *", now="2026-10-24 12:00")
    assert due_s - at("2026-10-25 00:00") == 2.5 * HOUR_S


def test_the_hour_is_that_of_the_server_s_zone_not_of_the_box() -> None:
    lines = ["zone America/New_York -0500", "crontab /etc/cron.d/x", "|0 2 * * * root x"]
    assert told(*lines)[0].in_s == 16 * HOUR_S  # 02:00 there is 08:00 in Zurich


def test_a_zone_that_the_box_does_not_know_is_as_far_ahead_as_the_server_says() -> None:
    for name in ("Mars/Olympus", "/etc/localtime", "../../etc/passwd", ""):
        lines = [f"zone {name} +0330", "crontab /etc/cron.d/x", "|0 2 * * * root x"]
        assert told(*lines)[0].in_s == 7.5 * HOUR_S, name  # 15:00 UTC is 18:30 there


@given(
    st.integers(0, 59),
    st.integers(0, 23),
    st.floats(at("2026-01-01 00:00"), at("2028-01-01 00:00")),
)
@example(30, 2, at("2027-03-28 00:00"))
@example(30, 2, at("2026-10-25 02:45"))
def test_a_daily_job_is_due_within_a_day_at_that_time(minute: int, hour: int, now_s: float) -> None:
    lines = ["crontab /etc/cron.d/x", f"|{minute} {hour} * * * root x"]
    now_s = float(int(now_s))
    (job,) = told(*lines, now_s=now_s)
    shown = datetime.fromtimestamp(now_s + job.in_s, ZURICH)
    assert 0 < job.in_s <= DAY_S + 2 * HOUR_S
    skipped = (shown.month, shown.hour, shown.minute, hour) == (3, 3, 0, 2)
    assert (shown.hour, shown.minute) == (hour, minute) or skipped


def test_a_job_is_called_by_its_program_without_what_that_is_given() -> None:
    joes = "/var/spool/cron/crontabs/joe"
    for file, line, name in (
        ("/etc/crontab", "0 2 * * * root /usr/local/bin/backup --password x", "root: backup"),
        ("/etc/crontab", "0 2 * * *\troot\t/usr/local/bin/backup", "root: backup"),
        (joes, "0 2 * * * A=b nightly x", "joe: nightly"),
        (joes, "0 2 * * * cd /x && ./run", "joe: run"),
        ("/etc/cron.d/sync", "0 2 * * * joe /opt/sync secret", "cron.d/sync"),
    ):
        assert [each.name for each in told(f"crontab {file}", f"|{line}")] == [name], line


def test_lines_that_order_nothing_are_passed_over() -> None:
    lines = ["|# m h dom", "|", "|MAILTO=joe", '|PATH = "/a b c d e f"', "|0 2 * * *", "|x"]
    assert told("crontab /var/spool/cron/crontabs/joe", *lines) == []


DAILY = (
    "|25 6 * * * root test -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.daily; }"
)


def test_programs_of_run_parts_are_listed_by_name_unless_anacron_runs_them() -> None:
    lines = ("parts /etc/cron.daily apt-compat backup", "crontab /etc/crontab", DAILY)
    assert {each.name for each in told(*lines)} == {"cron.daily/apt-compat", "cron.daily/backup"}
    assert told("anacron", *lines) == []


def test_hourly_jobs_are_told_apart() -> None:
    often = {
        "*/5 * * * *": True,
        "17 * * * *": True,
        "17 0-23 1-31 * 0-6": True,
        "@hourly": True,
        "0 */2 * * *": False,
        "0 2 * * *": False,
        "0,30 3 * * *": False,  # 23.5 hours lie between two nights
        "*/5 3 * * *": False,
        "*/15 * * * mon": False,
        "*/15 * 1 * *": False,
        "*/15 * * jan *": False,
        "0 8-18 * * *": False,
    }
    for when, expected in often.items():
        (job,) = told("crontab /etc/cron.d/x", f"|{when} root x")
        assert job.often is expected, when


def test_a_job_of_several_lines_is_often_if_no_gap_of_its_day_exceeds_an_hour() -> None:
    for lines, often in (
        (("0 0-11 * * * root x", "30 12-23 * * * root x"), False),  # 11:00 to 12:30
        (("0 0-12 * * * root x", "30 12-23 * * * root x"), True),
        (("0 */2 * * * root x", "0 1-23/2 * * * root x"), True),
        (("0 */2 * * * root x", "0 1-23/2 * * * root y"), False),
        (("0 * * * mon-fri root x", "0 * * * sat,sun root x"), False),
    ):
        jobs = told("crontab /etc/cron.d/x", *(f"|{line}" for line in lines))
        assert {each.often for each in jobs} == {often}, lines


def test_a_nightly_line_is_not_hidden_by_an_hourly_one_of_the_same_file() -> None:
    for file, user in (("/etc/cron.d/x", "root "), ("/var/spool/cron/crontabs/max.muster", "")):
        lines = (f"|7 * * * * {user}/opt/x --look", f"|0,30 3 * * * {user}/opt/x --copy")
        (job,) = told(f"crontab {file}", *lines)
        assert not job.often, file


# --------------------------------------------------------------------------- timers

# What systemctl of Debian 12 (systemd 252) printed in a virtual machine, at one moment.
DEBIAN_S = datetime(2026, 11, 23, 16, 28, 45, tzinfo=UTC).timestamp()
DEBIAN_JSON = (
    '[{"next":1795452124113155,"left":1795452124113155,"last":0,"passed":0,'
    '"unit":"systemd-tmpfiles-clean.timer","activates":"systemd-tmpfiles-clean.service"},'
    '{"next":1795452900000000,"left":1795452900000000,"last":0,"passed":0,'
    '"unit":"often.timer","activates":"often.service"},'
    '{"next":1795458519080993,"left":1795458519080993,"last":0,"passed":0,'
    '"unit":"backup.timer","activates":"backup.service"},'
    '{"next":null,"left":null,"last":0,"passed":0,"unit":"apt-daily.timer","activates":""},'
    '{"next":null,"left":null,"last":0,"passed":0,"unit":"fstrim.timer","activates":""}]'
)
DEBIAN_TABLE = """\
Mon 2026-11-23 16:42:04 UTC 13min left    - - systemd-tmpfiles-clean.timer systemd-tmpfiles-clean.service
Mon 2026-11-23 16:55:00 UTC 26min left    - - often.timer                  often.service
Mon 2026-11-23 18:28:39 UTC 1h 59min left - - backup.timer                 backup.service
-                           -             - - apt-daily.timer
-                           -             - - fstrim.timer
"""  # noqa: E501 - as systemd writes it


def test_both_formats_of_systemctl_are_read() -> None:
    for printed in (DEBIAN_JSON, DEBIAN_TABLE):
        found = told(*(f"timers {line}" for line in printed.splitlines()), now_s=DEBIAN_S)
        assert [(job.name, round(job.in_s / 60)) for job in found] == [
            ("systemd-tmpfiles-clean.timer", 13),
            ("often.timer", 26),
            ("backup.timer", 120),
        ]


def test_a_timer_that_ran_within_the_hour_before_runs_often() -> None:
    for last, often in (("16:25:00", True), ("15:00:00", False)):
        ran = f"Mon 2026-11-23 {last} UTC 1min ago"
        row = f"Mon 2026-11-23 16:55:00 UTC 26min left {ran} x.timer x"
        assert [job.often for job in told(f"timers {row}", now_s=DEBIAN_S)] == [often], last


def test_the_next_of_the_same_name_counts() -> None:
    lines = ["crontab /etc/cron.d/x", "|0 20 * * * root x", "|0 18 * * * root x"]
    assert told(*lines) == [Job("cron.d/x", 2 * HOUR_S)]


def test_garbage_in_a_crontab_is_passed_over() -> None:
    assert told("crontab /etc/cron.d/x", "|\x00\xff * * * *", "|* * * * * \x1b[2J") != []


def test_a_name_is_cut_and_safe_to_show() -> None:
    timer = [{"unit": "\x1b[2J" + "x" * 500, "next": int((NOW_S + 60) * 1e6), "last": 0}]
    (job,) = told(f"timers {json.dumps(timer)}")
    assert len(job.name) == jobs.MOST_NAME
    assert job.name.isprintable()


def test_a_timer_of_the_past_or_in_a_hundred_years_or_never_is_left_out() -> None:
    past, far = int((NOW_S - 1) * 1e6), int((NOW_S + 100 * 366 * DAY_S) * 1e6)
    for next_us in (None, 0, -1, "soon", True, [], past, far):
        timer = [{"unit": "x.timer", "next": next_us, "last": 0}]
        assert told(f"timers {json.dumps(timer)}") == [], next_us


UNREADABLE = (
    "",
    "end",
    "x",
    text()[:-5],  # cut off
    text("timers [{]"),
    text('timers [{"next": 1' + "0" * 5000 + "}]"),
    text("timers [" + "[" * 100_000),
    text("timers [1]"),
    text("timers Mon 2026-11-23 16:55:00 CET 26min left - - x.timer x.service"),
    text("hostile line"),
    text(*["|"] * 10_000),
    text("crontab /etc/cron.d/x", *["|* * * * * root x"] * 2000),
    text(f"parts {'x' * jobs.MOST_BYTES}"),
    text(now_s=10**11),
    text().replace("now ", "now x"),
    text().replace(f"now {NOW_S:.0f}\n", ""),
)


def test_an_incomplete_or_invalid_report_is_unreadable() -> None:
    for number, wrong in enumerate(UNREADABLE):
        try:
            jobs.parse(wrong, UTC, zone)
        except UnreadableError:
            continue
        raise AssertionError(number, wrong[:80])


@given(st.lists(st.text(max_size=60), max_size=8))
def test_any_report_is_read_or_rejected(lines: list[str]) -> None:
    try:
        found = told(*lines, "crontab /etc/cron.d/x", *(f"|{line}" for line in lines))
    except UnreadableError:
        return
    assert all(0 <= job.in_s <= jobs.AHEAD_S for job in found)
