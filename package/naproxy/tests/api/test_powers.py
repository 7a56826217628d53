"""Powers that a commissioning measured, and [server.power]: what is used, and what is kept."""

import os
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from box import Box
from fitted import commissioned, fit
from naproxy.api import powers
from naproxy.core.reason import Reason
from naproxy.core.state import State
from naproxy.server.fit import measured

MEASURED = {"on_w": 51.2, "off_w": 2.4, "switch_j": 201.0}
DEFAULT = {"on_w": 43.3, "off_w": 1.6, "switch_j": 170.7}
NO_METER = Reason("server.no_meter")
GOOD = fit(51.23, 2.38, 201.04)


def test_measured_powers_are_used_only_where_they_can_be() -> None:
    assert measured(GOOD) == MEASURED
    negative = measured(fit(43.3, -0.4, -5.0))
    assert negative == {"on_w": 43.3, "off_w": 0.0, "switch_j": 0.0}
    assert measured(fit(1.0, 2.0, 0.0)) is None
    assert measured(fit(43.3, 1.6, 170.7, sure=0.3)) is None
    assert measured(None) is None


def test_a_switch_energy_that_may_far_exceed_the_measured_one_is_not_used() -> None:
    for high_j, used in ((400.0, True), (500.0, False)):
        found = fit(50.0, 1.0, 200.0) | {"switch_j": {"value": 200.0, "low": 0.0, "high": high_j}}
        assert (measured(found) is not None) is used


def test_values_in_the_file_are_told_apart_from_defaults() -> None:
    text = b'[[server]]\nid = "a"\n[[server]]\nid = "b"\n[server.power]\non_w = 60\n'
    assert powers.given(text, "a") == {}
    assert powers.given(text, "b") == {"on_w": 60.0}
    assert powers.given(b"", "a") == {}


# With a real controller


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    if os.geteuid() != 0 or not Path("/usr/sbin/etherwake").exists():
        pytest.skip("needs root and etherwake")
    box = Box(tmp_path_factory.mktemp("box")).start()
    box.wait(State.AWAKE)
    yield box
    box.close()


@pytest.fixture
def box(started: Box) -> Iterator[Box]:
    """One box; each test begins with the file that it began with."""
    before = started.file.read_bytes()
    yield started
    assert started.call("PUT", "/v1/config", before)[0] == 200


def typed(box: Box, lines: str) -> None:
    text = f"{box.file.read_text()}[server.power]\n{lines}\n"
    assert box.call("PUT", "/v1/config", text.encode())[0] == 200


def in_file(box: Box) -> dict[str, Any]:
    server: dict[str, Any] = tomllib.loads(box.file.read_text())["server"][0]
    power: dict[str, Any] = server.get("power", {})
    return power


def test_measured_values_are_shown_beside_those_in_force_and_change_nothing(box: Box) -> None:
    commissioned(box, GOOD)
    said = box.call("GET", "/v1/servers/web/power")
    assert said == (200, {"measured": MEASURED, "in_force": DEFAULT, "given": {}})
    assert in_file(box) == {}


def test_typed_values_are_replaced_only_on_request(box: Box) -> None:
    commissioned(box, GOOD)
    typed(box, "on_w = 60.0  # by our plug")
    status, refused = box.post("power")
    assert (status, refused["where"]) == (409, "replace")
    assert refused["code"] == "power.given"
    assert refused["error"].startswith(
        "the file itself has on_w = 60, and on_w = 51.2, off_w = 2.4"
    )
    assert in_file(box) == {"on_w": 60.0}
    assert box.post("power", replace=True)[0] == 200
    assert in_file(box) == MEASURED
    assert "# by our plug" in box.file.read_text()


def test_a_typed_value_equal_to_the_measured_one_is_kept(box: Box) -> None:
    commissioned(box, GOOD)
    typed(box, "on_w = 51.2")
    assert box.post("power")[0] == 200
    assert in_file(box) == MEASURED


def test_poorly_measured_values_are_not_used(box: Box) -> None:
    unsure = fit(43.3, 1.6, 170.7, sure=0.3)
    for found, no_fit, code in (
        (None, NO_METER, "power.not_measured"),
        (unsure, None, "power.not_sure"),
    ):
        commissioned(box, found, no_fit=no_fit)
        status, refused = box.post("power", replace=True)
        assert (status, refused["code"]) == (409, code)
        if no_fit:
            assert refused["params"] == {"why": no_fit.plain()}
    assert in_file(box) == {}


def test_a_file_changed_by_hand_is_not_overwritten(box: Box) -> None:
    commissioned(box, GOOD)
    text = box.file.read_text()
    box.file.write_text(f"{text}# by hand\n")
    assert box.post("power")[0] == 409
    assert box.file.read_text().endswith("# by hand\n")
    for rubbish in ("rubbish [", "server = 3", "[[server]]\nid = 'web'\npower = 3"):
        box.file.write_text(rubbish)
        status, said = box.post("power")
        assert status == 500
        assert "cannot be read" in said["error"]
    box.file.write_text(text)


# The command


def test_the_command_offers_what_was_measured_and_has_it_used(box: Box) -> None:
    commissioned(box, GOOD)
    said = box.naproxy("commission", "web", "--report").stdout
    assert "reckoned with: 43.3 W awake, 1.6 W asleep, 170.7 J for a sleep and a wake" in said
    assert said.rstrip().endswith("naproxy commission web --report --use")
    assert in_file(box) == {}
    done = box.naproxy("commission", "web", "--report", "--use")
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip().endswith(
        "reckoned with: 51.2 W awake, 2.4 W asleep, 201 J for a sleep and a wake"
    )
    assert in_file(box) == MEASURED


def test_the_command_says_what_it_does_not_replace_and_how_to(box: Box) -> None:
    commissioned(box, GOOD)
    typed(box, "off_w = 3.0")
    refused = box.naproxy("commission", "web", "--report", "--use")
    assert refused.returncode == 1
    assert "the file itself has off_w = 3" in refused.stderr
    assert "--report --use --replace" in refused.stderr
    assert in_file(box) == {"off_w": 3.0}
    assert box.naproxy("commission", "web", "--report", "--use", "--replace").returncode == 0
    assert in_file(box) == MEASURED


def test_the_command_refuses_what_makes_no_sense(box: Box) -> None:
    commissioned(box, None, no_fit=NO_METER)
    for words in (
        ("--replace",),
        ("--use", "--no-wait"),
        ("--use", "--cancel"),
        ("--report", "--use"),
    ):
        refused = box.naproxy("commission", "web", *words)
        assert refused.returncode == 1, words
        assert refused.stderr.startswith("naproxy commission: "), words
    assert in_file(box) == {}
