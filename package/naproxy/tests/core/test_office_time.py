"""The office, the box and whoever looks are in three zones: all is told by the office's clock."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from naproxy.box import logs
from naproxy.box.clock import zone_name
from naproxy.cli import commands
from naproxy.config import document, edit
from naproxy.core import office_time
from naproxy.core.hours import zone
from naproxy.core.reason import Reason, WrongError, stored_reason
from naproxy.core.words import words

OFFICE = ZoneInfo("Europe/Zurich")
BOX = ZoneInfo("America/New_York")
SPRING, AUTUMN = "2026-03-29", "2026-10-25"  # their nights are 23 and 25 hours long


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=OFFICE).timestamp()


@pytest.fixture
def far_box(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The box's own clock is in New York."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", BOX.key)
        office_time.follow(OFFICE.key)
        yield
    time.tzset()  # or later tests have New York's clock still


def test_a_reason_is_told_by_the_offices_clock(
    far_box: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    until_s = at("2026-11-22T16:02")
    monkeypatch.setattr("time.time", lambda: at("2026-11-22T15:18"))
    kept = Reason("server.kept_awake_until", until_at_s=until_s).text()
    assert str(stored_reason(kept)) == "It is kept awake by hand until 16:02."
    assert words(stored_reason(kept), "de", BOX) == "Er wird von Hand wach gehalten bis 10:02."
    monkeypatch.setattr("time.time", lambda: at("2026-11-23T08:00"))
    assert str(stored_reason(kept)) == "It is kept awake by hand until 2026-11-22 16:02."


def test_a_reason_that_an_earlier_version_kept_with_a_text_is_still_told() -> None:
    kept = json.dumps({"code": "server.office_hours", "params": {"until": "18:00"}})
    assert str(stored_reason(kept)) == "Office hours until 18:00."


def test_a_moment_that_no_clock_shows_is_told_as_it_is() -> None:
    for t_s in (1e300, -1e300, float("inf"), float("nan")):
        assert str(t_s)[:3] in str(Reason("server.office_hours", until_at_s=t_s)), t_s


def test_the_command_reads_and_tells_times_by_the_offices_clock(far_box: None) -> None:
    now_s = at("2026-11-22T15:18")
    assert commands._moment_s(commands._shown("16:00"), now_s) == at("2026-11-22T16:00")
    assert commands._moment_s(commands._shown("15:00"), now_s) == at("2026-11-23T15:00")
    assert commands._moment_s(commands._shown("2026-03-29 03:30"), now_s) == at("2026-03-29T03:30")
    assert commands.clock(at("2026-11-22T16:00"), now_s) == "16:00"


def test_logs_are_told_by_the_offices_clock(far_box: None) -> None:
    now_s = at("2026-11-22T15:18")
    lines = [
        "Nov 22 09:17:59 box naproxy: of syslog",
        "Dec 31 18:30:00 box kernel: last year",
        f"{at('2026-10-25T03:30'):.6f} box systemd[1]: of journalctl",
        "  a line that goes on",
        "Feb 30 00:00:00 box x: no day",
    ]
    assert logs.by_office_clock(lines, now_s) == [
        "2026-11-22 15:17:59 box naproxy: of syslog",
        "2026-01-01 00:30:00 box kernel: last year",
        "2026-10-25 03:30:00 box systemd[1]: of journalctl",
        *lines[3:],
    ]


def test_without_a_zone_of_its_own_the_office_has_the_boxs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", BOX.key)
    assert office_time.follow("") == BOX
    with pytest.raises(WrongError):
        office_time.follow("Mars/Base")
    assert office_time.where() == BOX


# A server had a zone of its own once.

OLD = """
[[server]]
id = "web"
address = "192.0.2.10"
mac = "00:11:22:33:44:55"
[server.awake]
hours = ["mon-fri 08:00-18:00"]
time_zone = "Europe/Zurich"
"""


def test_a_zone_of_a_server_is_the_offices_now_unless_it_has_one() -> None:
    for office, now in (("", "Europe/Zurich"), ('[office]\ntime_zone = "UTC"\n', "UTC")):
        found = document.look(office + OLD)
        assert found.config.office.time_zone == now, office
        assert [each.where for each in found.warnings] == ["server.web.awake.time_zone"], office
        changes = [edit.Change("set", "office.name", "x")]
        written = edit.edit((office + OLD).encode(), changes)
        assert document.look(written).warnings == [], office
        assert document.parse(written).office.time_zone == now, office


# The machine's own zone

ZONES = Path("/usr/share/zoneinfo")


def machine(etc: Path, target: Path | None, timezone: str | None = None) -> str:
    """Return the name of the zone of a machine with such files in /etc."""
    etc.mkdir(exist_ok=True)
    for name in ("localtime", "timezone"):
        (etc / name).unlink(missing_ok=True)
    if target is not None:
        (etc / "localtime").symlink_to(target)
    if timezone is not None:
        (etc / "timezone").write_text(timezone)
    return zone_name(etc)


def test_a_machines_zone_has_an_iana_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TZ", raising=False)
    # In Buildroot's zoneinfo each name is a link into the folder posix.
    zoneinfo = tmp_path / "share/zoneinfo"
    (zoneinfo / "posix/Etc").mkdir(parents=True)
    shutil.copy(ZONES / "Etc/UTC", zoneinfo / "posix/Etc/UTC")
    (zoneinfo / "Etc").symlink_to("posix/Etc")
    buildroot = tmp_path / "run-localtime"
    buildroot.symlink_to(zoneinfo / "Etc/UTC")
    cases: list[tuple[Path | None, str | None, str]] = [
        (buildroot, None, "Etc/UTC"),
        (zoneinfo / "posix/Etc/UTC", None, "Etc/UTC"),
        (ZONES / "right/Europe/Zurich", None, "Europe/Zurich"),
        (ZONES / "posix/right/Europe/Zurich", None, "Europe/Zurich"),
        (ZONES / "Europe/Zurich", None, "Europe/Zurich"),
        (ZONES / "America/Argentina/Buenos_Aires", None, "America/Argentina/Buenos_Aires"),
        (ZONES / "Factory", None, "UTC"),
        (ZONES / "Mars/Olympus", None, "UTC"),
        (tmp_path / "missing", None, "UTC"),
        (None, None, "UTC"),
        (None, "Europe/Berlin\n", "Europe/Berlin"),
        (None, "posix/Europe/Berlin\n", "Europe/Berlin"),
        (None, "no such zone\n", "UTC"),
        (tmp_path / "missing", "Europe/Berlin", "Europe/Berlin"),
    ]
    for target, timezone, name in cases:
        assert machine(tmp_path / "etc", target, timezone) == name, (target, timezone)


def test_a_copied_zone_has_debians_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TZ", raising=False)
    shutil.copy(ZONES / "Europe/Berlin", tmp_path / "localtime")
    (tmp_path / "timezone").write_text("Europe/Berlin\n")
    assert zone_name(tmp_path) == "Europe/Berlin"


def test_the_zone_of_an_office_that_was_saved_with_its_folder_is_the_one_without() -> None:
    for name in ("posix/Europe/Berlin", "right/Europe/Berlin", "Europe/Berlin"):
        assert str(zone(name)) == "Europe/Berlin"
