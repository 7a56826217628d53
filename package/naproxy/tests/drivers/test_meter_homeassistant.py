"""A sensor of Home Assistant. The answers are the real one's; the server stands in for it."""

import json
from pathlib import Path
from typing import Any

from meters import fault, ok, power_w, web

# `GET /api/states/sensor.server_power`, https://developers.home-assistant.io/docs/api/rest/
STATE: dict[str, Any] = {
    "entity_id": "sensor.server_power",
    "state": "43.3",
    "attributes": {
        "state_class": "measurement",
        "unit_of_measurement": "W",
        "device_class": "power",
        "friendly_name": "Server Power",
    },
    "last_changed": "2026-11-27T10:00:00.000000+00:00",
    "context": {"id": "01HX", "parent_id": None, "user_id": None},
}


def options(tmp_path: Path, port: int) -> dict[str, Any]:
    token = tmp_path / "token"
    token.write_text("eyJhbGciOi\n")
    token.chmod(0o600)
    where = {"host": "127.0.0.1", "port": port, "source": "sensor.server_power"}
    return {**where, "password_file": str(token)}


def said(state: dict[str, Any]) -> bytes:
    return ok(json.dumps(state).encode())


def test_a_sensor_is_asked_with_the_token(tmp_path: Path) -> None:
    asked: list[bytes] = []

    def respond(head: bytes) -> bytes:
        asked.append(head)
        return said(STATE)

    with web(respond) as port:
        assert power_w("homeassistant", **options(tmp_path, port)) == 43.3
    assert asked[0].startswith(b"GET /api/states/sensor.server_power ")
    assert b"Authorization: Bearer eyJhbGciOi\r\n" in asked[0]


def test_a_sensor_in_kilowatts_is_read_in_watts(tmp_path: Path) -> None:
    state = {**STATE, "state": "0.0433", "attributes": {"unit_of_measurement": "kW"}}
    with web(lambda _: said(state)) as port:
        assert abs(power_w("homeassistant", **options(tmp_path, port)) - 43.3) < 1e-9


def test_what_is_no_power_is_a_fault_and_never_0_w(tmp_path: Path) -> None:
    for change, kind in (
        ({"state": "unavailable"}, "silence"),
        ({"state": "unknown"}, "silence"),
        ({"state": "on"}, "not_a_number"),
        ({"state": "nan"}, "not_a_number"),
        ({"attributes": {"unit_of_measurement": "kWh"}}, "format"),
        ({"attributes": {"unit_of_measurement": ["W"]}}, "format"),
        ({"attributes": {}}, "format"),
        ({"attributes": None}, "format"),
    ):
        answer = said({**STATE, **change})
        with web(lambda _, answer=answer: answer) as port:
            assert fault("homeassistant", **options(tmp_path, port)).kind == kind, change
