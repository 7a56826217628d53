"""A calendar that others keep: the server is awake during its events, and wakes for them."""

import time
from pathlib import Path

import pytest

from tests.simulator.office import Office
from tests.simulator.office.namespace import wait_for

pytestmark = pytest.mark.long

BEGINS_S = 3


def calendar(file: Path, in_s: int) -> Path:
    def utc(s: float) -> str:
        return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(s))

    begin_s = time.time() + in_s
    file.write_text(
        "BEGIN:VCALENDAR\nBEGIN:VEVENT\nSUMMARY:Choir\n"
        f"DTSTART:{utc(begin_s)}\nDTEND:{utc(begin_s + 3600)}\n"
        "RRULE:FREQ=WEEKLY\nEND:VEVENT\nEND:VCALENDAR\n"
    )
    return file


def inhibited(office: Office) -> bool:
    codes = [each["code"] for each in office.box.status()["inhibitors"]]
    return "server.calendar_event" in codes


def test_a_server_wakes_for_an_event_and_stays_awake(office: Office) -> None:
    box = office.box
    box.sleep()
    file = calendar(box.config_file.with_name("office.ics"), BEGINS_S)
    box.reconfigure(server={"awake": {"calendar": str(file)}})
    wait_for(lambda: box.status()["calendar"]["events"], "what the calendar says")
    box.await_state("awake")
    woken = box.wakes()[0]
    assert (woken["who"], woken["reason"]["code"]) == ("schedule", "server.calendar_event")
    wait_for(lambda: inhibited(office), "the event")
    box.reconfigure()
    assert box.status()["calendar"] is None
    assert box.status()["inhibitors"] == []
