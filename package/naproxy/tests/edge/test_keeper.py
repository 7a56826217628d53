"""Who keeps the edge: certificates that are sent, and their ends."""

from __future__ import annotations

import asyncio
import socketserver
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from certificates import Authority, Issued
from edge_box import EdgeBox, edge_box, needs_haproxy
from keeping import Memory, until_ended
from naproxy.config import document as config
from naproxy.config.installation import Installation
from naproxy.core.reason import Reason, reason_of
from naproxy.edge.keeper import Keeper
from naproxy.edge.x509 import CertificateError, Sent, day_of

pytestmark = needs_haproxy
DAY_S = 86400.0

TEXT = """
[https]
port = {port}
[[server]]
id = "web"
address = "192.0.2.10"
mac = "02:00:00:00:00:01"
hosts = ["one.example", "bücher.example"]
[server.https]
mode = "{mode}"
redirect = {redirect}
[[certificate]]
id = "main"
"""


class Box(Memory):
    """A keeper whose time and memory are ours."""

    def __init__(self, box: EdgeBox, mode: str = "box") -> None:
        super().__init__()
        self.box = box
        self.now_s = 0.0
        self.here = Installation(
            run_dir=str(box.here.run_dir), edge_dir=str(box.folder), edge_user="daemon"
        )
        self.mode = mode
        self.heard: list[frozenset[str]] = []
        self.keeper = self.another()

    def another(self) -> Keeper:
        """A keeper as after a restart."""
        made = Keeper(self.here, self, lambda: self.now_s, served=self.hear)
        made.take(self.config(self.mode))
        return made

    def hear(self) -> None:
        self.heard.append(self.keeper.served)

    def config(self, mode: str, redirect: bool = False) -> config.Config:
        port = 443 if redirect else self.box.port
        return config.parse(TEXT.format(port=port, mode=mode, redirect=str(redirect).lower()))

    def once(self) -> dict[str, Any]:
        asyncio.run(self.keeper.once())
        return self.keeper.told()

    def sent(self, issued: Issued, name: str = "main") -> None:
        async def send() -> None:
            sent = Sent(self.box.authority.chain(issued), issued.key)
            await self.keeper.put(name, await self.keeper.judge(name, sent))

        asyncio.run(send())

    def refused(self, issued: Issued) -> Reason:
        with pytest.raises(CertificateError) as error:
            self.sent(issued)
        return error.value.reason


def with_certificates(made: config.Config, *ids: str) -> config.Config:
    return replace(made, certificate=tuple(config.Certificate(id=name) for name in ids))


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    with edge_box(tmp_path) as made:
        held = Box(made)
        held.now_s = time.time() + 60
        yield held


@pytest.fixture
def authority(box: Box) -> Authority:
    return box.box.authority


def test_what_is_sent_is_shown_and_stays_over_a_restart(box: Box, authority: Authority) -> None:
    told = box.once()
    assert told["edge"]["uncovered"] == ["one.example", "bücher.example"]
    assert told["certificates"][0]["problem"]["code"] == "https.not_sent"
    box.sent(authority.issue("one.example", "*.example"))
    box.once()
    box.box.start()
    told = box.once()
    [main] = told["certificates"]
    assert (main["id"], main["in_use_by"], main["problem"]) == ("main", ["web"], None)
    assert (told["edge"]["uncovered"], told["edge"]["problem"]) == ([], None)
    assert told["edge"]["running"]
    assert told["edge"]["version"].startswith("2.")
    assert box.box.ask("one.example")["alpn"] == "h2"
    workers, box.keeper = box.box.workers(), box.another()
    assert box.once()["certificates"] == told["certificates"]
    assert box.box.workers() == workers


def test_the_names_that_a_certificate_is_to_be_for_are_told(box: Box) -> None:
    made = with_certificates(box.config("box"), "main")
    both = ["one.example", "bücher.example"]
    for source, server, asked in (("upload", "", []), ("acme", "", both), ("server", "web", both)):
        own = replace(made.certificate[0], source=source, server=server)
        box.keeper.take(replace(made, certificate=(own,)))
        assert box.once()["certificates"][0]["asked"] == asked, source


def test_a_certificate_that_is_there_is_to_be_for_no_other_names(
    box: Box, authority: Authority
) -> None:
    box.sent(authority.issue("one.example"))
    assert box.once()["certificates"][0]["asked"] is None
    box.keeper.store.put("main", b"-----BEGIN CERTIFICATE-----\n")
    box.keeper = box.another()
    [main] = box.once()["certificates"]
    assert (main["asked"], main["names"]) == (None, [])


def test_a_name_is_served_while_its_certificate_is_good_and_haproxy_runs(
    box: Box, authority: Authority
) -> None:
    box.sent(authority.issue("one.example", "*.example", days=30))
    box.once()
    assert box.keeper.served == frozenset()
    box.box.start()
    box.once()
    box.once()
    assert box.keeper.served == {"one.example", "*.example"}
    box.now_s += 31 * DAY_S
    box.once()
    assert box.heard == [{"one.example", "*.example"}, frozenset()]


def test_that_somebody_came_by_https_is_known_over_a_restart(
    box: Box, authority: Authority
) -> None:
    box.sent(authority.issue("one.example", "*.example"))
    box.once()
    box.box.start()
    assert box.once()["edge"]["visited"] is False
    box.box.ask("one.example")
    assert box.once()["edge"]["visited"] is True
    box.keeper = box.another()
    assert box.once()["edge"]["visited"] is True
    box.keeper.take(box.config("none"))
    assert box.once()["edge"]["visited"] is False
    assert box.saved("https.visited") == {"yes": False}


def test_names_that_are_passed_on_need_no_certificate_and_are_served(box: Box) -> None:
    box.keeper.take(box.config("through"))
    sockets = box.box.here.jail / "through"
    sockets.mkdir()
    with socketserver.UnixStreamServer(str(sockets / "web.sock"), socketserver.BaseRequestHandler):
        box.once()
        box.box.start()
        edge = [box.once()["edge"] for _ in range(2)][1]
    assert (edge["running"], edge["uncovered"], edge["problem"]) == (True, [], None)
    assert (edge["serves"], edge["passes"]) == (False, ["one.example", "xn--bcher-kva.example"])
    assert box.keeper.served == {"one.example", "xn--bcher-kva.example"}


def test_it_is_said_that_nobody_passes_on(box: Box) -> None:
    box.keeper.take(box.config("through"))
    box.once()
    box.box.start()
    problem = [box.once()["edge"]["problem"] for _ in range(2)][1]
    assert (problem["code"], problem["params"]) == (
        "https.through_not_running",
        {"server": "web"},
    )


def test_an_edge_that_is_not_wanted_touches_nothing(box: Box) -> None:
    box.keeper.take(box.config("none"))
    told = box.once()
    assert (told["edge"]["wanted"], told["edge"]["problem"]) == (False, None)
    assert not box.box.folder.exists()


def test_https_ends_when_no_server_wants_it(box: Box) -> None:
    box.once()
    box.box.start()
    assert box.once()["edge"]["running"]
    box.keeper.take(box.config("unused"))
    until_ended(box.box.process, box.once)
    assert list(box.box.folder.glob("gen-*")) == []


def test_a_haproxy_that_does_not_run_is_said_when_it_has_had_time_to_start(box: Box) -> None:
    # The clock being set back does not hide it.
    for passed_s, code in (
        (0, "starting"),
        (19, "starting"),
        (1, "not_running"),
        (-3600, "not_running"),
    ):
        box.now_s += passed_s
        assert box.once()["edge"]["problem"]["code"] == f"https.{code}", passed_s


def test_a_folder_that_cannot_be_written_is_said(box: Box) -> None:
    box.box.folder.parent.mkdir(exist_ok=True)
    box.box.folder.write_text("in the way")
    assert box.once()["edge"]["problem"]["code"] == "https.not_kept"


def test_a_certificate_whose_time_it_is_not_is_refused(box: Box, authority: Authority) -> None:
    old = authority.dated("one.example", box.now_s - 90 * DAY_S, box.now_s - DAY_S)
    new = authority.dated("one.example", box.now_s + DAY_S, box.now_s + 90 * DAY_S)
    assert box.refused(old).code == "https.expired"
    assert box.refused(new).code == "https.not_yet"
    assert box.keeper.store.ids() == []


def test_before_the_clock_is_set_dates_say_nothing(box: Box, authority: Authority) -> None:
    box.now_s = 1000.0
    box.sent(authority.issue("one.example"))
    told = box.once()
    assert [each["code"] for each in told["certificates"][0]["notes"]] == ["https.not_trusted"]
    assert told["certificates"][0]["ends_in_days"] is None


def test_a_certificate_for_others_is_refused(box: Box, authority: Authority) -> None:
    said = box.refused(authority.issue("other.example"))
    sites = ["one.example", "xn--bcher-kva.example"]
    assert said == Reason("https.wrong_names", names=("other.example",), served=sites)
    box.sent(authority.issue("xn--bcher-kva.example"))


def test_one_that_haproxy_does_not_take_is_refused(box: Box, authority: Authority) -> None:
    """Such as one signed by SHA-1, which openssl reads."""
    said = box.refused(authority.issue("one.example", kind="rsa", digest="sha1"))
    assert said.code == "https.not_good"
    assert "cert-main.pem" in str(said)
    assert str(box.box.folder) not in str(said)
    assert box.keeper.store.ids() == []


def test_one_bad_file_does_not_keep_the_others_from_being_shown(
    box: Box, authority: Authority
) -> None:
    box.keeper.store.put("main", b"-----BEGIN CERTIFICATE-----")
    told = box.once()
    assert told["certificates"][0]["problem"]["code"] == "https.cut_off"
    assert box.keeper.configuration()


def test_an_end_is_said_at_each_step_once(box: Box, authority: Authority, said: list[str]) -> None:
    issued = authority.issue("one.example", days=90)
    box.sent(issued)
    box.once()
    end_s = box.keeper.status()["certificates"][0]["not_after_s"]
    heard = {}
    for hours in (726, 720, 714, 342, 336, 330, 174, 168, 30, 24, 6, 0, -24):
        box.now_s = end_s - 3600 * hours
        before = len(said)
        box.once()
        if hours in (720, 24):
            box.keeper = box.another()  # a restart says nothing twice
            box.once()
        if len(said) > before:
            assert len(said) == before + 1
            heard[hours] = said[-1]
    assert list(heard) == [30 * 24, 14 * 24, 7 * 24, 24, 0]
    assert "certificate main" in heard[24]
    assert box.keeper.status()["ending"][0]["params"]["why"]["code"] == "https.expired"
    box.now_s = end_s - 10 * DAY_S
    ending = reason_of(box.keeper.status()["ending"][0])
    assert ending == Reason(
        "https.certificate", name="main", why=Reason("https.ends_soon", days=10, day=day_of(end_s))
    )


def test_the_end_of_a_short_lived_one_is_said_in_proportion_to_its_life(
    box: Box, authority: Authority, said: list[str]
) -> None:
    box.sent(authority.issue("one.example", days=6))
    box.once()
    [told] = box.keeper.status()["certificates"]
    assert told["not_after_s"] - told["not_before_s"] == 6 * DAY_S
    assert told["problem"] is None
    heard = []
    for hours in (143, 72, 49, 47, 24, 21, 12, 10, 2, 1):
        box.now_s = told["not_after_s"] - 3600 * hours
        before = len(said)
        box.once()
        heard += [hours] * (len(said) - before)
        ending = box.keeper.status()["ending"]
        assert bool(ending) == (hours < 48), hours
    assert heard == [47, 21, 10, 1]
    why = ending[0]["params"]["why"]
    assert (why["code"], why["params"]["life_days"]) == ("https.ends_soon", 6.0)


def test_names_whose_certificates_have_all_ended_are_told(box: Box, authority: Authority) -> None:
    box.sent(authority.issue("one.example", "xn--bcher-kva.example", days=30))
    box.sent(authority.issue("one.example", days=60), "second")
    box.keeper.take(with_certificates(box.config("box"), "main", "second"))
    assert box.once()["edge"]["ended"] == []
    day = day_of(box.keeper.told()["certificates"][0]["not_after_s"])
    box.now_s += 31 * DAY_S
    assert box.once()["edge"]["ended"] == [{"name": "bücher.example", "day": day}]


def test_a_certificate_that_visitors_need_is_known(box: Box, authority: Authority) -> None:
    box.sent(authority.issue("one.example", "xn--bcher-kva.example"))
    assert box.keeper.needed_by("main") == []
    box.keeper.take(box.config("box", redirect=True))
    assert box.keeper.needed_by("main") == ["web"]
    box.sent(authority.issue("one.example"), "second")
    assert box.keeper.needed_by("main") == ["web"]
    assert box.keeper.needed_by("second") == []
    box.sent(authority.issue("one.example", "*.example"), "third")
    assert box.keeper.needed_by("main") == []


def test_what_a_kill_left_of_a_reading_is_removed(box: Box) -> None:
    left = box.box.here.run_dir / "x509-abc"
    left.mkdir()
    (left / "1").write_text("a key")

    async def begin() -> None:
        box.keeper.begin()
        box.keeper.stop()

    asyncio.run(begin())
    assert not left.exists()


def test_the_boxs_own_certificate_is_made_once_and_again_before_it_ends(box: Box) -> None:
    box.once()
    file = box.box.folder / "own.pem"
    first = file.read_bytes()
    assert file.stat().st_mode & 0o777 == 0o600
    box.keeper = box.another()
    box.once()
    assert file.read_bytes() == first
    box.now_s += 3640 * DAY_S
    box.keeper = box.another()
    box.once()
    assert file.read_bytes() != first
