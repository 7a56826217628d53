"""The commands `naproxy commission`, `live` and `arm` with a real controller."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from box import Box
from naproxy.cli import commission
from naproxy.core.reason import Reason
from naproxy.core.state import State
from naproxy.shm import page

from tests.patience import wait_for

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="raw packets need root"),
    pytest.mark.skipif(not Path("/usr/sbin/etherwake").exists(), reason="etherwake not installed"),
]

QUICK = ("--awake", "0.1s", "--asleep", "0.1s")


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Box]]:
    made: list[Box] = []

    def new(**server: Any) -> Box:
        made.append(Box(tmp_path, armed="false", **server).start())
        made[-1].wait(State.AWAKE)
        return made[-1]

    yield new
    for box in made:
        box.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    """One box for the tests that must find it as it was: awake, never commissioned."""
    started = Box(tmp_path_factory.mktemp("shared"), armed="false").start()
    started.wait(State.AWAKE)
    yield started
    started.close()


WAITS = Reason("server.no_visitor_yet", name=Reason("server.its_website"), server="web")


def visit(box: Box) -> None:
    """Say what Varnish says when a visitor reaches the server's name through the box."""
    box.record().visited_us = page.monotonic_us()


def test_a_line_for_each_cycle_and_a_table_are_told(
    make: Callable[..., Box],
) -> None:
    box = make()
    visit(box)
    wait_for(lambda: box.status()["live"]["last_s"] is not None, "the visitor")
    done = box.naproxy("commission", "web", "--cycles", "2", *QUICK)
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line for line in done.stdout.splitlines() if "firmware" not in line]
    for number in (1, 2):
        pattern = rf"cycle {number} of 2: asleep after \d+\.\d s, up after \d+\.\d\d s"
        assert re.fullmatch(pattern, lines[number - 1]), done.stdout
    assert any(line.startswith("to wake, by the probe") for line in lines)
    assert lines[-2:] == ["power not fitted: There is no meter.", "armed: It woke 2 times."]
    assert box.status()["armed"] is True
    assert "commission" not in box.naproxy("status").stdout


def test_a_server_that_passed_is_armed_by_the_first_visitor(
    make: Callable[..., Box],
) -> None:
    box = make()
    done = box.naproxy("commission", "web", "--cycles", "2", *QUICK)
    assert done.returncode == 0, done.stderr
    assert "go directly to the server get no answer while it sleeps: 2 times" in done.stderr
    lines = done.stdout.splitlines()
    assert lines[-2:] == ["passed: It woke 2 times.", f"not armed yet: {WAITS}"]
    status = box.status()
    assert (status["armed"], status["not_armed"]) == (False, WAITS.plain())
    assert WAITS.plain() in status["inhibitors"]
    visit(box)
    wait_for(lambda: box.status()["armed"], "the server to be armed")
    assert box.status()["live"]["waits"] is None


def test_a_server_that_passed_is_armed_when_a_person_confirms(
    make: Callable[..., Box],
) -> None:
    box = make()
    box.naproxy("commission", "web", "--cycles", "1", *QUICK)
    assert box.status()["armed"] is False
    done = box.naproxy("live", "web")
    assert done.returncode == 0, done.stderr
    status = box.status()
    assert (status["armed"], status["live"]["last_s"]) == (True, None)
    assert box.naproxy("live", "mail").returncode == 1


@pytest.mark.long
def test_the_first_visitor_is_remembered_over_a_restart(make: Callable[..., Box]) -> None:
    box = make()
    visit(box)
    wait_for(lambda: box.status()["live"]["last_s"] is not None, "the visitor")
    before = box.status()["live"]["first_s"]
    box.end()
    box.record().visited_us = 0
    box.start()
    assert box.status()["live"]["first_s"] == before
    box.wait(State.AWAKE)
    box.naproxy("commission", "web", "--cycles", "1", *QUICK)
    assert box.status()["armed"] is True


@pytest.mark.long
def test_it_is_left_to_the_server_when_to_sleep(make: Callable[..., Box]) -> None:
    box = make()
    assert box.naproxy("leave", "web").stdout.startswith("web  awake")
    assert "sleep.itself" in [each["code"] for each in box.status()["inhibitors"]]
    assert box.naproxy("leave", "mail").returncode == 1


def test_an_interrupt_cancels_it_and_it_ends_awake(make: Callable[..., Box]) -> None:
    box = make()
    socket = str(box.run_dir / "control.sock")
    command = ("commission", "web", "--asleep", "60s", "--socket", socket)
    started = subprocess.Popen(
        # What a shell starts in the background ignores interrupts.
        ["env", "--default-signal=INT", sys.executable, "-m", "naproxy.cli", *command],
        stdout=subprocess.PIPE,
        text=True,
    )
    box.wait(State.ASLEEP)
    started.send_signal(signal.SIGINT)
    said, _ = started.communicate(timeout=20)
    assert said.splitlines()[-1] == "not armed: cancelled: The test was cancelled."
    assert started.returncode == 1
    box.wait(State.AWAKE)


def test_progress_is_in_the_status_and_no_other_sleep_allowed(
    make: Callable[..., Box],
) -> None:
    box = make()
    done = box.naproxy("commission", "web", "--no-wait", "--asleep", "60s", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["ended"] is False
    box.wait(State.ASLEEP)
    assert "is being commissioned: cycle 1 of 5, asleep" in box.naproxy("status").stdout
    assert box.post("sleep")[0] == 409
    status, answer = box.post("commission")
    assert (status, answer["code"]) == (409, "server.commissioned_already")
    assert box.naproxy("commission", "web", "--cancel").returncode == 0
    box.wait(State.AWAKE)


def test_an_invalid_plan_is_rejected_and_nothing_begins(shared: Box) -> None:
    for body, where in (
        ({"cycles": 0}, "cycles"),
        ({"cycles": 1.5}, "cycles"),
        ({"cycles": True}, "cycles"),
        ({"cycles": 10**9}, "cycles"),
        ({"awake_s": -1}, "awake_s"),
        ({"awake_s": 1e300}, "awake_s"),
        ({"asleep_s": None}, "asleep_s"),
        ({"cycle": 5}, "cycle"),
    ):
        status, answer = shared.post("commission", **body)
        assert (status, answer["where"]) == (400, where), body
    for number in (b"NaN", b"Infinity", b"1e999"):
        body = b'{"awake_s": ' + number + b"}"
        assert shared.call("POST", "/v1/servers/web/commission", body)[0] == 400, number
    assert shared.status()["commissioning"] is None


def test_a_commissioning_that_never_began_has_no_status_and_no_cancel(shared: Box) -> None:
    for method, target, refused in (
        ("GET", "web/commission", 404),
        ("DELETE", "web/commission", 409),
        ("GET", "nope/commission", 404),
        ("DELETE", "web/wake", 405),
    ):
        assert shared.call(method, f"/v1/servers/{target}")[0] == refused, target
    told = shared.naproxy("commission", "web", "--report")
    assert (told.returncode, "It was never tested" in told.stderr) == (1, True)
    why = Reason("server.not_commissioned", server="web")
    assert f"does not sleep by itself: {why}" in shared.naproxy("status").stdout
    armed = shared.naproxy("arm", "web")
    assert (armed.returncode, str(why) in armed.stderr) == (1, True)


def test_the_table_has_watts_and_joules_with_their_intervals() -> None:
    fit = {
        "on_w": {"value": 43.31, "low": 42.0, "high": 44.6},
        "off_w": {"value": 1.62, "low": 0.5, "high": 2.7},
        "switch_j": {"value": 171.0, "low": 150.2, "high": 191.8},
        "confidence": 0.95,
    }
    report = {
        "times": {"rose_s": {"p50": 0.15, "p95": 0.2, "worst": 0.21}},
        "fit": fit,
        "done": [{}],
        "passed": True,
        "armed": True,
        "reason": Reason("server.woke_every_time", times=5).plain(),
    }
    assert commission.table(report) == [
        "seconds                            p50     p95   worst",
        "to wake, by the probe             0.15    0.20    0.21",
        "power                              fit  95 % interval",
        "P_on                              43.3  42.0 to 44.6 W",
        "P_off                              1.6  0.5 to 2.7 W",
        "E_switch                         171.0  150.2 to 191.8 J",
        "armed: It woke 5 times.",
    ]


def test_the_table_has_the_stages_of_a_wake_before_and_now_and_the_possible_gain() -> None:
    wake = {
        "stages": [{"stage": "network", "took_s": 1.5}, {"stage": "answer", "took_s": 0.25}],
        "before": [{"stage": "link", "took_s": 2.0}, {"stage": "answer", "took_s": 0.2}],
        "last": None,
        "advice": [
            {
                "stage": "network",
                "reason": Reason("server.gain_link", took_s=1.5).plain(),
                "commands": ["first", "second"],
            }
        ],
    }
    assert commission.stage_lines(wake) == [
        "the wake by stages, seconds        now  before",
        "to the link of the cable                  2.00",
        "to an answer of the network       1.50",
        "to the proper answer              0.25    0.20",
        "in all                            1.75    2.20",
    ]
    words, *commands = commission.advice_lines(wake)
    assert words == f"to gain: {Reason('server.gain_link', took_s=1.5)}"
    assert commands == ["    first", "    second"]


@pytest.mark.parametrize("wake", [{}, {"stages": [], "before": [], "advice": []}])
def test_a_report_without_stages_has_no_lines_about_them(wake: dict[str, Any]) -> None:
    assert commission.stage_lines(wake) == commission.advice_lines(wake) == []
