"""Calendar files: when their events are, in summer time and after changes; hostile ones."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from naproxy.core.reason import WrongError
from naproxy.server.ical import MOST_BYTES, MOST_EVENTS, Agenda, read

ZONE = ZoneInfo("Europe/Zurich")
OUTLOOK = """BEGIN:VTIMEZONE
TZID:W. Europe Standard Time
BEGIN:STANDARD
DTSTART:16010101T030000
TZOFFSETFROM:+0200
TZOFFSETTO:+0100
RRULE:FREQ=YEARLY;BYDAY=-1SU;BYMONTH=10
END:STANDARD
BEGIN:DAYLIGHT
DTSTART:16010101T020000
TZOFFSETFROM:+0100
TZOFFSETTO:+0200
RRULE:FREQ=YEARLY;BYDAY=-1SU;BYMONTH=3
END:DAYLIGHT
END:VTIMEZONE
"""


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZONE).timestamp()


def event(*lines: str) -> str:
    return "\n".join(("BEGIN:VEVENT", "SUMMARY:Meeting", "UID:1", *lines, "END:VEVENT", ""))


def found(body: str, first: str, last: str) -> Agenda:
    text = f"BEGIN:VCALENDAR\nVERSION:2.0\n{body}END:VCALENDAR\n"
    return read(text.replace("\n", "\r\n").encode(), ZONE, at(first), at(last))


def spans(body: str, first: str = "2026-11-16", last: str = "2026-11-23") -> list[str]:
    """Return the events as local `DD HH:MM-HH:MM`."""
    said = []
    for each in found(body, first, last).events:
        begin, end = (datetime.fromtimestamp(s, ZONE) for s in (each.begin_s, each.end_s))
        said.append(f"{begin:%d %H:%M}-{end:%H:%M}")
    return said


def test_a_single_event_has_its_title_and_its_time() -> None:
    body = event(
        "DTSTART;TZID=Europe/Zurich:20261118T090000", "DTEND;TZID=Europe/Zurich:20261118T103000"
    )
    (only,) = found(body.replace("Meeting", r"Meet\, Ann\n and"), "2026-11-16", "2026-11-23").events
    assert (only.begin_s, only.end_s) == (at("2026-11-18T09:00"), at("2026-11-18T10:30"))
    assert only.name == "Meet, Ann and"


def test_times_are_said_in_many_ways() -> None:
    start, nine = "DTSTART:20261118T090000", ["18 09:00-10:30"]
    for case, lines, expected in (
        ("UTC", ("DTSTART:20261118T080000Z", "DTEND:20261118T093000Z"), nine),
        ("length", (start, "DURATION:PT1H30M"), nine),
        ("whole day", ("DTSTART;VALUE=DATE:20261118",), ["18 00:00-00:00"]),
        ("no length", (start,), []),
        ("cancelled", (start, "DURATION:PT1H", "STATUS:CANCELLED"), []),
        ("from before", ("DTSTART:20261115T230000", "DURATION:PT3H"), ["15 23:00-02:00"]),
        ("folded lines", ("DTSTART:2026\n 1118T09\n\t0000", "DURATION:PT1H30M"), nine),
        (
            "an alarm's length",
            (
                "BEGIN:VALARM",
                "TRIGGER:-PT15M",
                "DURATION:PT9H",
                "END:VALARM",
                start,
                "DURATION:PT1H30M",
            ),
            nine,
        ),
    ):
        assert spans(event(*lines)) == expected, case


def test_a_rule_goes_on_for_years() -> None:
    # 3 August 2015 was a Monday, 589 weeks (31 times 19) before 16 November 2026.
    dates = ("DTSTART:20150803T090000", "DTEND:20150803T100000")
    for rule, *days in (
        ("FREQ=WEEKLY;BYDAY=MO,TH", 16, 19),
        ("FREQ=WEEKLY;INTERVAL=2;BYDAY=MO",),
        ("FREQ=WEEKLY;INTERVAL=19;BYDAY=MO", 16),
        ("FREQ=WEEKLY;INTERVAL=19;BYDAY=MO;UNTIL=20261115T000000Z",),
        ("FREQ=DAILY;UNTIL=20261117T080000Z", 16, 17),
        ("FREQ=DAILY;UNTIL=20261117", 16, 17),
        ("FREQ=DAILY;COUNT=4124", 16),
        ("FREQ=MONTHLY;BYDAY=3WE", 18),
        ("FREQ=YEARLY;BYMONTH=11;BYMONTHDAY=20", 20),
    ):
        expected = [f"{day} 09:00-10:00" for day in days]
        assert spans(event(*dates, f"RRULE:{rule}")) == expected, rule


def test_a_series_has_exceptions_and_moved_and_cancelled_ones() -> None:
    series = event(
        "DTSTART;TZID=Europe/Zurich:20260803T090000",
        "DTEND;TZID=Europe/Zurich:20260803T100000",
        "RRULE:FREQ=DAILY",
        "EXDATE;TZID=Europe/Zurich:20261117T090000",
        "EXDATE:20261118T080000Z,20261119T080000Z",
        "EXDATE;VALUE=DATE:20261122",
        "RDATE;TZID=Europe/Zurich:20261117T150000",
    )
    moved = event(
        "RECURRENCE-ID;TZID=Europe/Zurich:20261120T090000",
        "DTSTART;TZID=Europe/Zurich:20261120T140000",
        "DURATION:PT2H",
    )
    cancelled = event(
        "RECURRENCE-ID:20261121T080000Z", "DTSTART:20261121T080000Z", "STATUS:CANCELLED"
    )
    expected = ["16 09:00-10:00", "17 15:00-16:00", "20 14:00-16:00"]
    assert spans(series + moved + cancelled) == expected


def test_in_summer_time_a_series_stays_at_its_clock_time() -> None:
    for zone, defined in (("Europe/Zurich", ""), ("W. Europe Standard Time", OUTLOOK)):
        body = defined + event(
            f"DTSTART;TZID={zone}:20260105T090000",
            f'DTEND;TZID="{zone}":20260105T100000',
            "RRULE:FREQ=WEEKLY",
        )
        assert spans(body, "2026-07-06", "2026-07-07") == ["06 09:00-10:00"]
        assert spans(body, "2026-11-16", "2026-11-17") == ["16 09:00-10:00"]


def test_a_whole_day_is_an_hour_longer_when_the_clock_goes_back() -> None:
    body = event("DTSTART;VALUE=DATE:20261024", "DTEND;VALUE=DATE:20261026")
    (only,) = found(body, "2026-10-20", "2026-10-30").events
    assert only.end_s - only.begin_s == 49 * 3600


# What nobody should send


def test_an_entry_that_is_not_understood_is_left_out_and_said() -> None:
    good = event("DTSTART:20261118T090000", "DURATION:PT1H")
    bad = [
        ("DTSTART:tomorrow",),
        ("DURATION:PT1H",),
        ("DTSTART;TZID=Mars/Olympus:20261118T090000",),
        ("DTSTART:20261118T090000", "RRULE:FREQ=SECONDLY"),
        ("DTSTART:20261118T090000", "RRULE:FREQ=DAILY;INTERVAL=0"),
        ("DTSTART:20261118T090000", "RRULE:FREQ=DAILY;BYDAY=XX"),
        ("DTSTART:20261118T090000", f"RRULE:FREQ=DAILY;INTERVAL={'9' * 400}"),
        ("DTSTART:20261399T235959Z", "DURATION:PT1H"),
    ]
    for lines in bad:
        agenda = found(good + event(*lines), "2026-11-16", "2026-11-23")
        assert agenda.left_out == 1, lines
        assert agenda.why
        assert len(agenda.events) == 1, lines


def test_a_zone_that_rings_each_second_is_not_reckoned() -> None:
    defined = OUTLOOK.replace("FREQ=YEARLY;BYDAY=-1SU;BYMONTH=10", "FREQ=SECONDLY")
    body = defined + event("DTSTART;TZID=W. Europe Standard Time:20261118T090000", "DURATION:PT1H")
    agenda = found(body, "2026-11-16", "2026-11-23")
    assert agenda.why
    assert "server.calendar_zone" in agenda.why.codes()


def test_what_is_no_calendar_is_refused() -> None:
    for text, code in (
        (b"<!doctype html><title>Log in</title>", "server.calendar_other"),
        (b"", "server.calendar_other"),
        (b"\x1f\x8b\x08\x00", "server.calendar_other"),
        (b"BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART:2026", "server.calendar_cut_off"),
        (b"BEGIN:VCALENDAR\n" + b"x" * MOST_BYTES, "server.calendar_large"),
    ):
        with pytest.raises(WrongError) as refused:
            read(text, ZONE, 0, 1e9)
        assert refused.value.reason.code == code, text[:40]


def test_a_thousand_events_are_enough() -> None:
    many = event("DTSTART:20261116T000000", "DURATION:PT1M", "RRULE:FREQ=DAILY;BYMINUTE=")
    often = many.replace("BYMINUTE=", "BYHOUR=" + ",".join(map(str, range(24))) + ";BYMINUTE=")
    body = often.replace("BYMINUTE=", "BYMINUTE=" + ",".join(map(str, range(60))))
    with pytest.raises(WrongError) as refused:
        found(body, "2026-11-16", "2026-11-23")
    assert refused.value.reason.params == {"high": MOST_EVENTS}
