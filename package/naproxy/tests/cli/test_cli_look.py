"""`naproxy look`: what it says of a look, and with a real controller."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from box import Box
from naproxy.cli import look
from naproxy.core.state import State
from naproxy.server.sight import Led, Look, Shown

NOW_S = time.mktime((2026, 3, 1, 14, 15, 0, 0, 0, -1))
END_S = 1788220800.0  # 2026-09-01
TO_HTTPS = Led("a.example", "https://a.example", "a.example", True, True, through_proxy=False)
CIRCLE = Led("a.example", "https://a.example", "a.example", True, True, through_proxy=True)


def lines(port: str = "refused", *led: Led, **more: Any) -> list[str]:
    seen = Look(NOW_S - 720, port, more.pop("shown", ()), led, more.pop("whole", True))
    said: dict[str, Any] = {
        **{"server": "web", "state": "awake", "what": "All is well.", "next": "", "blind": ""},
        **{"around": 0, "look": seen.dump(), **more},
    }
    return [line.strip() for line in look.describe(said, NOW_S)]


def test_a_server_that_leads_nowhere_is_said_in_three_lines() -> None:
    assert lines() == [
        "web  All is well.",
        "seen at 14:03",
        "- its port 443 is shut",
        "- visitors by HTTP are led nowhere else",
    ]


def test_seen_and_unseen_facts_are_printed() -> None:
    wrong = {"what": "It leads past the box.", "next": "mend it", "blind": "Nobody comes."}
    unseen = {"port": "unknown", "whole": False}
    for case, expected in (
        (wrong, ["web  It leads past the box.", "Next step: mend it", "Nobody comes."]),
        ({"around": 41}, ["41 visits today did not come through the box"]),
        ({"around": 1}, ["1 visit today did not come through the box"]),
        ({"state": "asleep"}, ["seen at 14:03, 12 min ago: it is not awake now"]),
        (unseen, ["- its port 443 could not be asked", "- not all was answered"]),
    ):
        said = lines(**case)
        assert [each for each in expected if each not in said] == [], case
    assert len(lines(**unseen)) == 4
    assert lines(look=None) == ["web  All is well."]


def test_each_certificate_that_is_shown_is_told() -> None:
    said = lines(
        "open",
        shown=(
            Shown("a.example", ("a.example", "*.a.example"), END_S, trusted=True),
            Shown("", (), None),
        ),
    )
    names = "a.example, *.a.example"
    assert said[2:5] == [
        "- its port 443 answers",
        f"- for a.example it shows a certificate of {names}, until 2026-09-01; browsers trust it",
        "- without a name it shows a certificate of no name; browsers do not trust it",
    ]


def test_whether_x_forwarded_proto_is_believed_is_told() -> None:
    led = "- visitors of http://a.example are led to https://a.example"
    believes = "- it believes X-Forwarded-Proto: who comes by HTTPS is not led there again"
    circle = "- those who come by HTTPS are led from a.example to https://a.example, too"
    assert lines("open", TO_HTTPS)[3:] == [led, believes]
    assert lines("open", TO_HTTPS, CIRCLE)[3:] == [led, circle]


# With a controller


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    made = Box(tmp_path_factory.mktemp("box"))
    named = made.file.read_text().replace('id = "web"', 'id = "web"\nhosts = ["one.example"]')
    made.file.write_text(named)
    made.start()
    yield made
    made.close()


@pytest.fixture
def box(started: Box) -> Iterator[Box]:
    """One box, awake; each test begins with the configuration that it began with."""
    before = started.file.read_bytes()
    started.wait(State.AWAKE)
    yield started
    started.server.leads = b""
    assert started.call("PUT", "/v1/config", before)[0] == 200
    assert started.post("wake")[0] == 202


def test_it_looks_now_and_says_by_its_status_whether_something_hinders(box: Box) -> None:
    good = box.naproxy("look")
    assert (good.returncode, good.stderr) == (0, "")
    assert "The box has looked: nobody bypasses it over HTTPS." in good.stdout
    box.server.leads = b"https://one.example/"
    wrong = box.naproxy("look", "web")
    assert wrong.returncode == 1
    assert "sends visitors of one.example on to https://one.example" in wrong.stdout
    assert "Next step" in wrong.stdout
    [said] = json.loads(box.naproxy("look", "--json").stdout)
    assert (said["server"], said["kind"], said["hinders"]) == ("web", "warn", True)
    assert said["what_reason"]["code"] == "server.leads_around"
    assert said["next_reason"]["code"] == "https.do_serve"


def test_the_status_names_those_without_a_certificate(box: Box) -> None:
    text = f'{box.file.read_text()}[server.https]\nmode = "box"\n'
    assert box.call("PUT", "/v1/config", text.encode())[0] == 200
    assert "https  There is no certificate for one.example." in box.naproxy("status").stdout


def test_of_a_server_that_sleeps_it_says_what_was_seen_last(box: Box) -> None:
    assert box.naproxy("look").returncode == 0
    assert box.naproxy("sleep", "web").returncode == 0
    packets = box.server.packets
    said = box.naproxy("look")
    assert said.returncode == 0
    assert "it is not awake now" in said.stdout
    assert box.server.packets == packets


def test_a_server_that_is_not_there_is_said(box: Box) -> None:
    said = box.naproxy("look", "nobody")
    assert said.returncode == 1
    assert "there is no server nobody, only web" in said.stderr
