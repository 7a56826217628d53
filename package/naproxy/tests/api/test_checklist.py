"""The checklist: what is done, what is not and where, and what does not apply."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from naproxy.api.calls import ApiError
from naproxy.api.checklist import BACKUP, LINES, Checklist, Facts, Line, checklist
from naproxy.config import document as config
from naproxy.core.reason import Reason
from naproxy.history.write.journal import Journal

EDGE: dict[str, Any] = {"uncovered": [], "problem": None, "ended": [], "visited": True}
ONE = """
[[server]]
id = "web"
address = "10.0.0.2"
mac = "02:00:00:00:00:01"
hosts = ["www.example.org"]
"""
ALL = (
    """
[office]
price_per_kwh = 0.3
[notify]
ntfy = "https://ntfy.example.org/box"
"""
    + ONE
    + """
[server.https]
mode = "box"
[[meter]]
id = "plug"
of = "web"
driver = "simulated"
file = "/run/watts"
"""
)


def status(
    name: str = "web",
    *,
    armed: bool = True,
    not_armed: str | None = None,
    people: int = 5,
    last_s: float | None = 1e9,
) -> dict[str, Any]:
    requests = {"person": {"hit": people}, "crawler": {"hit": 7}}
    waits = None if last_s else {"code": "server.no_visitor_yet"}
    return {
        "id": name,
        "armed": armed and not not_armed,
        "not_armed": {"code": not_armed} if not_armed else None,
        "https": None,
        "live": {"last_s": last_s, "waits": waits},
        "counters": {"requests": requests},
    }


def facts(text: str = ALL, **more: Any) -> Facts:
    made = {"servers": [status()], "edge": EDGE, "people": {}, "backup_s": 1e9, **more}
    return Facts(config=config.parse(text.encode()), **made)


def line(name: str, found: list[Line]) -> Line:
    return next(each for each in found if each.name == name)


def test_all_is_done_of_a_box_that_lacks_nothing() -> None:
    found = checklist(facts())
    assert [each.name for each in found] == list(LINES)
    assert [each.name for each in found if not each.done] == []


def test_nothing_is_done_of_a_box_that_was_just_set_up() -> None:
    bare = facts(ONE, servers=[status(armed=False, people=0)], backup_s=None)
    assert [each.name for each in checklist(bare) if each.done] == []


def test_without_a_server_there_is_no_list() -> None:
    assert checklist(facts("", servers=[])) == []


def test_a_line_names_the_servers_that_lack_it_and_leads_to_the_first() -> None:
    second = ONE.replace("web", "mail").replace("01", "02").replace("www", "mail")
    third = ONE.replace("web", "files").replace("01", "03").replace("www", "files")
    servers = [status(), status("mail", armed=False), status("files", armed=False)]
    found = line("proof", checklist(facts(ALL + second + third, servers=servers)))
    more = Reason("core.and_more", name="mail", count=1)
    assert (found.done, found.server) == (False, "mail")
    assert found.how == Reason("overview.no_proof", servers=more)


def test_a_server_that_only_waits_for_visitors_has_shown_that_it_wakes() -> None:
    for why, done in (("server.no_visitor_yet", True), ("server.not_commissioned", False)):
        given = facts(servers=[status(not_armed=why, last_s=None)])
        assert line("proof", checklist(given)).done is done, why


def test_visitors_are_people_of_the_last_days_or_since_the_start() -> None:
    for now, before, done in ((0, 0, False), (3, 0, True), (0, 9, True)):
        given = facts(servers=[status(people=now)], people={"web": before})
        found = line("visitors", checklist(given))
        assert found.done is done, (now, before)
        said = Reason("overview.visitors", number=now + before, days=7)
        assert (found.how == said) is done, (now, before)


def test_requests_prove_no_visitor_before_one_has_reached_the_servers_name() -> None:
    given = facts(servers=[status(people=3, last_s=None)], people={"web": 9})
    found = line("visitors", checklist(given))
    assert (found.done, found.server) == (False, "web")
    assert found.how == Reason("overview.no_visitors", servers="web", days=7)


def test_a_line_is_done_once_its_condition_holds() -> None:
    tariff = '[[tariff]]\nsince = "2026-01-01"\nprice_per_kwh = 0.3\n'
    bare = {**EDGE, "uncovered": ["www.example.org"]}
    for case, name, given, done in (
        ("HTTPS that nobody uses", "https", facts(ALL.replace('"box"', '"unused"')), True),
        ("a certificate that is missing", "https", facts(edge=bare), False),
        ("a tariff is a price", "price", facts(ONE + tariff), True),
    ):
        assert line(name, checklist(given)).done is done, case


def test_a_line_that_does_not_apply_stays_as_it_is_and_is_marked() -> None:
    found = line("meter", checklist(replace(facts(ONE), dismissed=frozenset({"meter"}))))
    assert (found.done, found.dismissed) == (False, True)


def answering(tmp_path: Path) -> tuple[Any, Journal]:
    journal = Journal(tmp_path)
    said = {"box": {"edge": EDGE}, "servers": [status()]}
    made = Checklist(journal, lambda: config.parse(ONE.encode()), lambda: said, lambda: 2e9)
    return made.handlers(), journal


def test_a_dismissed_line_is_kept_and_can_be_taken_back(tmp_path: Path) -> None:
    handlers, journal = answering(tmp_path)
    handlers["checklist.dismiss"](line="meter", dismissed=True)
    again = Checklist(journal, lambda: config.parse(ONE.encode()), dict, lambda: 2e9)
    assert again._dismissed() == ["meter"]
    said = handlers["checklist.dismiss"](line="meter", dismissed=False)
    assert [each["name"] for each in said["lines"] if each["dismissed"]] == []


def test_an_invalid_line_is_rejected_and_changes_nothing(tmp_path: Path) -> None:
    handlers, journal = answering(tmp_path)
    with pytest.raises(ApiError, match="no line everything") as caught:
        handlers["checklist.dismiss"](line="everything", dismissed=True)
    assert caught.value.status == 404
    assert journal.saved("checklist") == {}


@pytest.mark.parametrize("kept", [{"dismissed": 5}, {"dismissed": ["x", 1, None]}, {}])
def test_a_foreign_backups_entries_dismiss_nothing(tmp_path: Path, kept: Any) -> None:
    handlers, journal = answering(tmp_path)
    journal.save("checklist", kept)
    journal.save(BACKUP, {"fetched_s": "now"})
    lines = handlers["checklist"]()["lines"]
    assert not any(each["dismissed"] for each in lines)
    assert not next(each for each in lines if each["name"] == "backup")["done"]


def test_a_backup_that_cannot_restore_a_box_or_is_old_is_still_to_do() -> None:
    for more, done, code in (
        ({}, True, "overview.backup"),
        ({"backup_complete": False}, False, "overview.backup_without_keys"),
        ({"now_s": 1e9 + 80 * 86400}, True, "overview.backup"),
        ({"now_s": 1e9 + 100 * 86400}, False, "overview.backup_old"),
    ):
        lines = checklist(facts(ONE, servers=[status()], **more))
        [line] = [each for each in lines if each.name == "backup"]
        assert (line.done, line.how.code) == (done, code), more
