"""No command ends in a traceback, whatever the controller answers."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from naproxy.api import client, shapes
from naproxy.api import command as asking
from naproxy.api.table import ROUTES
from naproxy.cli import __main__ as cli

_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda within: st.lists(within, max_size=3) | st.dictionaries(st.text(max_size=9), within),
    max_leaves=5,
)


def whole(low: int | None, high: int | None) -> st.SearchStrategy[int]:
    """Return what makes whole numbers that JSON can carry."""
    most = shapes.MOST_WHOLE
    return st.integers(-most if low is None else low, most if high is None else high)


def fitting(  # noqa: PLR0911 - one for each kind
    shape: Mapping[str, Any],
) -> st.SearchStrategy[Any]:
    """Return what makes values of a shape."""
    if "enum" in shape:
        return st.sampled_from(shape["enum"])
    kinds = shape.get("type")
    if isinstance(kinds, list):
        return st.one_of([fitting({**shape, "type": kind}) for kind in kinds])
    low, high = shape.get("minimum"), shape.get("maximum")
    match kinds:
        case "null":
            return st.none()
        case "boolean":
            return st.booleans()
        case "integer":
            return whole(low, high)
        case "number":
            floats = st.floats(low, high, allow_nan=False, allow_infinity=False)
            return floats | whole(low, high)
        case "string":
            least = shape.get("minLength", 0)
            return st.text(min_size=least, max_size=min(20, shape.get("maxLength", 20)))
        case "array":
            return st.lists(fitting(shape.get("items", {})), max_size=3)
        case "object" if "properties" in shape:
            needed = {name: fitting(shape["properties"][name]) for name in shape["required"]}
            return st.fixed_dictionaries(needed)
        case "object":
            others = shape.get("additionalProperties")
            values = fitting(others) if isinstance(others, Mapping) else _ANYTHING
            return st.dictionaries(st.text(max_size=9), values, max_size=3)
    return _ANYTHING


STATUS = fitting(ROUTES["status"].answer)

COMMANDS = (
    *(["status"], ["status", "web"], ["status", "--json"], ["metrics"]),
    *(["wake", "web"], ["sleep", "web"], ["mode", "web", "awake", "--for", "90m"]),
    *(["journal"], ["journal", "--decisions"], ["wakes"], ["cache", "empty"]),
    *(["look"], ["look", "web"], ["live", "web"], ["arm", "web"], ["leave", "web"]),
    *(["commission", "web"], ["commission", "web", "--report"], ["commission", "web", "--use"]),
    *(["meter", "list"], ["meter", "install"], ["meter", "calibrate", "m", "--zero"]),
    *(["update"], ["update", "--back"], ["update", "--confirm"], ["update", "x.raucb"]),
    *(["certificate", "list"], ["certificate", "show", "main"], ["certificate", "renew", "main"]),
    *(["certificate", "remove", "main"], ["certificate", "key", "main", "--folder", "/etc/x"]),
    *(["edge"], ["edge", "--config"], ["notify"], ["notify", "--test"]),
)
"""Each with what it asks the controller for."""


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the controller answers, by method and path; `*`: to all other requests."""
    answers: dict[str, Any] = {}

    def ask(_path: str, method: str, target: str, *_: Any, **__: Any) -> client.Answer:
        asked = f"{method} {target.partition('?')[0]}"
        return client.Answer(200, answers.get(asked, answers["*"]))

    monkeypatch.setattr(asking, "ask", ask)
    # A server that is waking, or a job that is running, is asked for again and again.
    clock = iter(range(10**9))
    monkeypatch.setattr(time, "monotonic", lambda: 60.0 * next(clock))

    def sleep(_: float) -> None:
        if next(clock) % 50 == 0:
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", sleep)
    return answers


def ended(command: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command and return what it complained of."""
    try:
        status = cli.main(command)
    except BaseException as error:
        pytest.fail(f"naproxy {' '.join(command)} ended in {error!r}")
    said = capsys.readouterr()
    assert status in (0, 1, 2, 130), command
    assert "Traceback" not in said.err + said.out, command
    return said.err


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(status=STATUS, other=_ANYTHING)
def test_no_command_ends_in_a_traceback_whatever_is_answered(
    told: dict[str, Any], capsys: pytest.CaptureFixture[str], status: Any, other: Any
) -> None:
    for number, server in enumerate(status["servers"]):
        server["id"] = "web" if number == 0 else f"web{number}"
    shapes.check(status, ROUTES["status"].answer)
    server = status["servers"][0] if status["servers"] else {}
    told |= {"GET /v1/status": status, "*": other if isinstance(other, dict) else {"a": other}}
    for name in ("wake", "sleep", "mode", "arm", "live", "leave"):
        told[f"POST /v1/servers/web/{name}"] = server
    for command in COMMANDS:
        err = ended(list(command), capsys)
        by_status = command[0] in ("status", "metrics", "wake", "sleep", "mode", "arm", "live")
        if by_status and status["servers"]:
            assert "unexpected" not in err, (command, err)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(answer=_ANYTHING)
def test_an_answer_without_a_valid_status_is_reported(
    told: dict[str, Any], capsys: pytest.CaptureFixture[str], answer: Any
) -> None:
    told["*"] = answer
    for command in (["status"], ["metrics"], ["look"], ["commission", "web"], ["edge"]):
        err = ended(command, capsys)
        assert err.startswith(f"naproxy {command[0]}: "), (command, err)


def test_a_box_without_a_server_says_where_to_go(
    told: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    edge: dict[str, Any] = {"uncovered": [], "problem": None, "ending": []}
    box = {"settings_refused": None, "edge": edge}
    told["*"] = {"box": box, "servers": [], "meters": []}
    assert cli.main(["status"]) == 0
    said = capsys.readouterr().out
    assert "not set up yet" in said
    assert ":8443" in said
    for command in ("status", "commission"):
        assert cli.main([command, "web"]) == 1
        assert "not set up yet" in capsys.readouterr().err, command


def test_a_full_disk_is_said_in_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "naproxy.cli", "config", "keys"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == "naproxy config: No space left on device\n"
