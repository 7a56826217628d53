"""The command `naproxy update` and the control API, with a real controller and the real RAUC."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from box import Box
from rauc_machine import BOARD, RaucMachine, Signer, bundle, usable

pytestmark = pytest.mark.skipif(bool(usable()), reason=usable() or "")


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Signer:
    return Signer(tmp_path_factory.mktemp("keys"), "Naproxy releases")


@pytest.fixture
def machine(tmp_path: Path, ours: Signer, monkeypatch: pytest.MonkeyPatch) -> Iterator[RaucMachine]:
    (tmp_path / "rauc").mkdir()
    made = RaucMachine(tmp_path / "rauc", ours)
    for name, value in made.environment().items():
        monkeypatch.setenv(name, value)
    made.boot("A")
    yield made
    made.shut_down()


@pytest.fixture
def box(make: Callable[..., Box], machine: RaucMachine) -> Box:
    made = make()
    made.arguments.append(f"--rauc-conf={machine.conf}")
    return made.start()


def test_an_update_is_written_and_undone(
    box: Box, machine: RaucMachine, ours: Signer, tmp_path: Path
) -> None:
    told = box.naproxy("update").stdout
    assert f"{BOARD}, version" in told
    assert "not confirmed yet" in told
    file = str(bundle(tmp_path / "new.raucb", ours))
    looked = box.naproxy("update", file, "--check")
    assert looked.returncode == 0, looked.stderr
    assert "9.0.0 for naproxy-raspberrypi, signed by CN = Naproxy releases" in looked.stdout
    assert machine.primary() == "A"
    assert box.naproxy("update", file).returncode == 0
    assert machine.primary() == "B"
    assert box.naproxy("update", "--stay").returncode == 0
    assert machine.primary() == "A"
    assert box.naproxy("update", "--confirm").returncode == 0
    assert json.loads(box.naproxy("update", "--json").stdout)["confirmed"] is True


def test_the_command_says_why_it_refused(
    box: Box, machine: RaucMachine, ours: Signer, tmp_path: Path
) -> None:
    older = box.naproxy("update", str(bundle(tmp_path / "old.raucb", ours, version="0.0.1")))
    assert (older.returncode, machine.primary()) == (1, "A")
    assert "0.0.1 is not newer than the running version" in older.stderr
    missing = box.naproxy("update", str(tmp_path / "missing"))
    assert missing.returncode == 1
    assert "No such file" in missing.stderr


def test_bad_requests_are_named_and_change_nothing(box: Box) -> None:
    requests: list[tuple[str, dict[str, Any], int, str | None]] = [
        *(("POST /check", {"file": file}, 400, "file") for file in ("relative", 7, "/a\0b")),
        ("POST /check", {"file": "/a", "command": "x"}, 400, "command"),
        ("POST /install", {"older": "yes"}, 400, "older"),
        ("POST /install", {}, 409, None),
        ("POST /activate", {"slot": "A; reboot"}, 400, "slot"),
        ("POST /activate", {}, 400, "slot"),
        ("POST /confirm", {"slot": "B"}, 400, "slot"),
        ("POST /nothing", {}, 404, None),
        ("PUT ", {}, 405, None),
    ]
    for line, body, status, where in requests:
        method, _, path = line.partition(" ")
        got, answer = box.call(method, f"/v1/update{path}", json.dumps(body).encode())
        assert (got, answer["where"]) == (status, where), (line, body)
        slots = box.call("GET", "/v1/update")[1]["slots"]
        assert [slot["boots_next"] for slot in slots if slot["booted"]] == [True], (line, body)
