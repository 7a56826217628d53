"""Calendar files: when their events are, in summer time and after changes; hostile ones."""

from datetime import datetime
from time import process_time
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


# What programs write beside the standard


def lines(*more: str, start: str = ":20261118T090000") -> str:
    return event(f"DTSTART{start}", *more)


def test_a_zone_is_known_by_any_name_that_programs_give_it() -> None:
    for name, expected in (
        ("europe/zurich", "09:00"),
        ("/Europe/Zurich", "09:00"),
        ("/freeassociation.sourceforge.net/Tzfile/Europe/Zurich", "09:00"),
        ("/mozilla.org/20050126_1/Europe/Berlin", "09:00"),
        ("/citadel.org/20210210_1/America/Argentina/Buenos_Aires", "13:00"),
        ("W. Europe Standard Time", "09:00"),
        ("w. europe standard time", "09:00"),
        ("Eastern Standard Time", "15:00"),
        ("(UTC+01:00) Amsterdam, Berlin, Bern", "09:00"),
        ("(GMT+01.00) Amsterdam / Berlin / Bern", "09:00"),
        (r"(UTC+01:00) Amsterdam\, Berlin\, Bern\, Rom", "09:00"),
        ("(UTC-05:00) Eastern Time (US & Canada)", "15:00"),
        ("(UTC+05:30) Chennai, Kolkata", "04:30"),
        ("Kuala Lumpur, Singapore", "02:00"),
        ("Pacific Time (US & Canada), Tijuana", "18:00"),
        ("UTC+05:30", "04:30"),
        ("GMT+01:00", "09:00"),
        ("GMT-0500", "15:00"),
        ("+02:00", "08:00"),
        ("UTC", "10:00"),
        ("tzone://Microsoft/Utc", "10:00"),
        ("(UTC) Coordinated Universal Time", "10:00"),
    ):
        for said in (name, f'"{name}"'):
            body = lines("DURATION:PT1H", start=f";TZID={said}:20261118T090000")
            begin = spans(body)[0].split()[1].split("-")[0]
            assert begin == expected, said
            assert found(body, "2026-11-16", "2026-11-23").why is None, said


def test_a_zone_of_cities_has_their_summer_time() -> None:
    for cities in ("Amsterdam, Berlin, Bern", r"Amsterdam\, Berlin\, Bern"):
        zone = f";TZID=(UTC+01:00) {cities}:20260907T100000"
        assert spans(lines("DURATION:PT2H", start=zone), "2026-09-01", "2026-09-30") == [
            "07 10:00-12:00"
        ]


def test_a_zone_of_unknown_cities_has_its_offset_and_is_named() -> None:
    body = lines("DURATION:PT2H", start=";TZID=(UTC-03:00) Brasilia:20260907T100000")
    agenda = found(body, "2026-09-01", "2026-09-30")
    assert [each.begin_s for each in agenda.events] == [at("2026-09-07T15:00")]
    assert (agenda.doubted, agenda.left_out) == (1, 0)


def test_a_zone_s_name_may_be_escaped_where_it_is_defined() -> None:
    defined = OUTLOOK.replace("TZID:W. Europe Standard Time", r"TZID:Foo\, Bar")
    body = defined + lines("DURATION:PT2H", start=';TZID="Foo, Bar":20260907T100000')
    assert spans(body, "2026-09-01", "2026-09-30") == ["07 10:00-12:00"]
    assert found(body, "2026-09-01", "2026-09-30").doubted == 0


def test_a_rule_for_exceptions_is_not_followed_and_named() -> None:
    body = lines("DURATION:PT1H", "RRULE:FREQ=DAILY;COUNT=3", "EXRULE:FREQ=DAILY;INTERVAL=2")
    agenda = found(body, "2026-11-16", "2026-11-23")
    assert (len(agenda.events), agenda.doubted) == (3, 1)


def test_a_zone_that_the_file_defines_may_have_lines_of_its_program() -> None:
    for name in ("/freeassociation.sourceforge.net/Tzfile/Mars/Olympus", "Custom Zone"):
        defined = OUTLOOK.replace(
            "TZID:W. Europe Standard Time",
            f"TZID:{name}\nX-LIC-LOCATION:Mars/Olympus\nX-MICROSOFT-CDO-TZID:4",
        )
        body = defined + lines("DURATION:PT2H", start=f";TZID={name}:20260907T100000")
        assert spans(body, "2026-09-01", "2026-09-30") == ["07 10:00-12:00"], name


def test_an_unknown_zone_is_taken_for_the_office_s_and_named() -> None:
    body = lines("DURATION:PT1H", start=";TZID=Mars/Olympus:20261118T090000")
    agenda = found(body, "2026-11-16", "2026-11-23")
    assert [each.begin_s for each in agenda.events] == [at("2026-11-18T09:00")]
    assert (agenda.left_out, agenda.doubted) == (0, 1)
    assert agenda.why
    assert agenda.why.codes() == ("server.calendar_entry", "server.calendar_zone")


def test_the_calendar_s_zone_is_that_of_times_without_one_and_of_google_s_series() -> None:
    own = "X-WR-TIMEZONE:America/New_York\n"
    assert spans(own + lines("DURATION:PT1H")) == ["18 15:00-16:00"]
    # A meeting at 9 in New York in summer is one at 9 in winter.
    series = lines("DURATION:PT1H", "RRULE:FREQ=DAILY;COUNT=200", start=":20260701T130000Z")
    assert "18 15:00-16:00" in spans(own + series)
    assert "18 14:00-15:00" in spans(series)


def test_an_end_without_a_zone_has_that_of_the_start() -> None:
    body = lines("DTEND:20261118T110000", start=";TZID=America/New_York:20261118T090000")
    assert spans(body) == ["18 15:00-17:00"]


def test_an_all_day_series_ends_on_the_day_that_exchange_means() -> None:
    outlook = OUTLOOK
    for where, until, last in (
        (ZONE, "20261118T230000Z", 19),  # midnight in Zurich
        (ZONE, "20261119T000000Z", 19),
        (ZONE, "20261119T235959Z", 19),
        (ZONE, "20261119", 19),
        (ZoneInfo("America/New_York"), "20261119T050000Z", 19),
        (ZoneInfo("America/New_York"), "20261118T230000Z", 19),  # midnight in the file's zone
        (ZoneInfo("Asia/Tokyo"), "20261118T150000Z", 19),
    ):
        body = outlook + lines(
            "DTEND;VALUE=DATE:20261118", f"RRULE:FREQ=DAILY;UNTIL={until}", start=":20261117"
        )
        text = f"BEGIN:VCALENDAR\n{body}END:VCALENDAR"
        events = read(text.encode(), where, at("2026-11-10"), at("2026-11-28")).events
        days = [datetime.fromtimestamp(each.begin_s, where).day for each in events]
        assert days == list(range(17, last + 1)), (where, until)


def test_until_of_another_kind_than_the_start_ends_a_series_as_the_library_has_it() -> None:
    for start, until, number in (
        (";TZID=Europe/Berlin:20260901T230000", "20260907", 6),
        (";TZID=America/New_York:20260901T200000", "20260907T200000", 6),
        (";TZID=Europe/Berlin:20260901T003000", "20260907", 7),
    ):
        body = lines("DURATION:PT1M", f"RRULE:FREQ=DAILY;UNTIL={until}", start=start)
        assert len(spans(body, "2026-08-01", "2026-10-01")) == number, (start, until)


def test_a_whole_day_may_be_one_elsewhere() -> None:
    body = lines("DTEND;TZID=Japan;VALUE=DATE:20261119", start=";TZID=Japan;VALUE=DATE:20261118")
    assert spans(body) == ["17 16:00-16:00"]


def test_a_change_of_all_that_follows_moves_them() -> None:
    series = lines("DURATION:PT2H", "RRULE:FREQ=DAILY;COUNT=4", start=":20261117T100000")
    moved = event(
        "RECURRENCE-ID;RANGE=THISANDFUTURE:20261119T100000",
        "DTSTART:20261119T150000",
        "DURATION:PT1H",
    )
    assert spans(series + moved) == [
        *("17 10:00-12:00", "18 10:00-12:00", "19 15:00-16:00", "20 15:00-16:00")
    ]


def test_a_change_from_before_the_series_was_changed_does_not_count() -> None:
    series = lines("DURATION:PT1H", "RRULE:FREQ=DAILY;COUNT=2", "EXDATE:20261119T090000",
                   "SEQUENCE:2")  # fmt: skip
    moved = event(
        *("RECURRENCE-ID:20261119T090000", "DTSTART:20261119T150000", "DURATION:PT1H"),
        "SEQUENCE:1",
    )
    assert spans(series + moved) == ["18 09:00-10:00"]


def test_exceptions_are_said_in_many_ways() -> None:
    for exdate in (
        "EXDATE:20261118T090000",
        "EXDATE:20261118T080000Z",
        "EXDATE;VALUE=DATE:20261118",
        "EXDATE;TZID=America/New_York:20261118T030000",
        "EXDATE;TZID=W. Europe Standard Time:20261118T090000,20261101T090000,",
    ):
        zoned = ";TZID=Europe/Zurich:20261117T090000"
        body = lines("DURATION:PT1H", "RRULE:FREQ=DAILY;COUNT=3", exdate, start=zoned)
        assert spans(body) == ["17 09:00-10:00", "19 09:00-10:00"], exdate
    for exdate in (
        "EXDATE:20261118",
        "EXDATE:20261118T000000",
        "EXDATE:20261117T230000Z",
        "EXDATE:20261118T000000Z",
        "EXDATE;TZID=Europe/Zurich:20261118T000000",
    ):
        body = lines("RRULE:FREQ=DAILY;COUNT=3", exdate, start=";VALUE=DATE:20261117")
        assert [each[:2] for each in spans(body)] == ["17", "19"], exdate


def test_further_times_may_have_a_length_of_their_own() -> None:
    body = lines(
        "DURATION:PT1H",
        "RDATE;VALUE=PERIOD:20261119T080000Z/PT3H,20261120T080000Z/20261120T100000Z",
        "RDATE:20261121T090000",
    )
    assert spans(body) == [
        *("18 09:00-10:00", "19 09:00-12:00", "20 09:00-11:00", "21 09:00-10:00")
    ]


def test_of_an_event_that_was_sent_again_the_last_counts() -> None:
    old = lines("DURATION:PT1H", "SEQUENCE:9")
    new = lines("DURATION:PT1H", "SEQUENCE:10", start=":20261119T150000")
    for body in (old + new, new + old):
        assert spans(body) == ["19 15:00-16:00"]
    assert spans(old + new.replace("DURATION", "STATUS:CANCELLED\nDURATION")) == []


def test_rules_are_read_whatever_is_between_their_parts() -> None:
    for rule in (
        "FREQ=DAILY;COUNT=2;",
        ";FREQ=DAILY;;COUNT=2",
        "freq=daily; count=2",
        "FREQ=WEEKLY;COUNT=2;BYDAY=WE,TH,",
        'FREQ=WEEKLY;COUNT=2;BYDAY="WE,TH"',
        "RRULE:FREQ=DAILY;COUNT=2",
        "RSCALE=GREGORIAN;FREQ=DAILY;COUNT=2;SKIP=OMIT",
        "FREQ=DAILY;COUNT=2;X-OWN=1",
        "FREQ=MINUTELY;INTERVAL=1440;COUNT=2",
    ):
        assert spans(lines("DURATION:PT1H", f"RRULE:{rule}")) == [
            *("18 09:00-10:00", "19 09:00-10:00")
        ], rule


def test_a_rule_that_is_not_understood_leaves_the_first_time() -> None:
    for rule in ("FREQ=SECONDLY", "FREQ=DAILY;BYDAY=XX", "RSCALE=CHINESE;FREQ=YEARLY", "often"):
        agenda = found(lines("DURATION:PT1H", f"RRULE:{rule}"), "2026-11-16", "2026-11-23")
        assert [each.name for each in agenda.events] == ["Meeting"], rule
        assert (agenda.left_out, agenda.doubted) == (0, 1), rule


def test_an_end_before_the_start_is_left_out_with_a_reason() -> None:
    for end in ("DTEND:20261118T080000", "DURATION:-PT1H"):
        agenda = found(lines(end), "2026-11-16", "2026-11-23")
        assert (agenda.events, agenda.left_out) == ([], 1), end
        assert agenda.why
        assert agenda.why.codes() == ("server.calendar_entry", "server.calendar_backwards")


def test_a_file_is_read_in_any_encoding_and_with_any_line_ends() -> None:
    text = (
        f"BEGIN:VCALENDAR\r\n{lines('DURATION:PT1H').replace('Meeting', 'Büro')}END:VCALENDAR\r\n"
    )
    for data in (
        text.encode(),
        text.encode("utf-8-sig"),
        text.encode("utf-16"),
        text.encode("utf-16-le"),
        text.encode("utf-16-be"),
        text.encode("cp1252"),
        text.replace("\r\n", "\n").replace("\n", "\r").encode(),
        f"\r\n \r\n{text}\r\n\r\n".encode(),
        text.replace("BEGIN:V", "begin:V").replace("DURATION", "Duration").encode(),
    ):
        (only,) = read(data, ZONE, at("2026-11-16"), at("2026-11-23")).events
        assert (only.name, only.begin_s) == ("Büro", at("2026-11-18T09:00")), data[:20]


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


def test_a_zone_that_changes_each_second_is_not_computed() -> None:
    defined = OUTLOOK.replace("FREQ=YEARLY;BYDAY=-1SU;BYMONTH=10", "FREQ=SECONDLY")
    body = defined + event("DTSTART;TZID=W. Europe Standard Time:20261118T090000", "DURATION:PT1H")
    agenda = found(body, "2026-11-16", "2026-11-23")
    assert agenda.why
    assert "server.calendar_zone" in agenda.why.codes()


def test_a_hostile_calendar_takes_no_longer_than_a_large_one() -> None:
    days = [f"{year}{month:02}{day:02}" for year in range(1970, 2170) for month in range(1, 13)
            for day in range(1, 29)]  # fmt: skip
    series = lines("DURATION:PT1H", "RRULE:FREQ=DAILY", "EXDATE;VALUE=DATE:" + ",".join(days))
    nested = "BEGIN:VEVENT\n" * 60_000
    colons = lines("DTEND;TZID=" + ":" * 900_000 + ":20261118T100000")
    for case, body in (
        ("each second", lines("DURATION:PT1H", "RRULE:FREQ=SECONDLY", start=":19700101T000000")),
        ("exceptions", series),
        ("nested", nested),
        ("colons", colons),
    ):
        began_s = process_time()
        found(body, "2026-11-16", "2026-11-23")
        assert process_time() - began_s < 5, case


def test_an_invalid_calendar_is_rejected() -> None:
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
