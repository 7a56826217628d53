"""The real Home Assistant finds boxes by MQTT, and a box reads its sensors as a meter."""

import asyncio
import json
import shlex
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, aclosing
from pathlib import Path
from typing import Any

import pytest
from naproxy import drivers
from naproxy.drivers.meter import Fault, Reading, Site

from tests.fixed import EACH_SECOND, command
from tests.patience import wait_for
from tests.simulator.office.namespace import ROOT
from tests.webui.stage import Stage

# isort: split
from free_port import free_port

VENV = ROOT / "build/many/home-assistant"
PASSWORD = "Night watch 7"
BROKER: dict[str, Any] = {
    "entry_id": "naproxy0000000000000000000000000",
    "version": 1,
    "minor_version": 1,
    "domain": "mqtt",
    "title": "broker",
    "data": {"broker": "127.0.0.1", "discovery": True},
    "options": {},
    "pref_disable_new_entities": False,
    "pref_disable_polling": False,
    "source": "user",
    "unique_id": None,
    "disabled_by": None,
}
"""What its page writes where somebody enters a broker."""

pytestmark = pytest.mark.skipif(
    not (VENV / "bin/hass").exists(), reason="Home Assistant is not installed: make test-many"
)


class HomeAssistant:
    """It has nothing but the broker."""

    def __init__(self, folder: Path, broker_port: int) -> None:
        self.port = free_port()
        self._url = f"http://127.0.0.1:{self.port}"
        storage = folder / ".storage"
        storage.mkdir()
        (folder / "configuration.yaml").write_text(
            f"http:\n  server_host: 127.0.0.1\n  server_port: {self.port}\napi:\n"
        )
        data = {"entries": [{**BROKER, "data": {**BROKER["data"], "port": broker_port}}]}
        entries = {"version": 1, "minor_version": 1, "key": "core.config_entries", "data": data}
        (storage / "core.config_entries").write_text(json.dumps(entries))
        with (folder / "said").open("wb") as log:
            argv = (VENV / "bin/hass", "-c", folder, "--skip-pip")
            self._process = subprocess.Popen(argv, stdout=log, stderr=log)
        self.token = ""

    def end(self) -> None:
        self._process.terminate()
        self._process.wait(60)

    def log_in(self) -> bool:
        """Become its first user, as in a browser; False while it starts."""
        client = {"client_id": f"{self._url}/"}
        user = {"name": "Tester", "username": "tester", "password": PASSWORD, "language": "en"}
        try:
            code = self._ask("/api/onboarding/users", {**client, **user})["auth_code"]
        except urllib.error.HTTPError as error:
            if error.code not in {404, 503}:
                raise
            return False
        except OSError:
            return False
        form = {"grant_type": "authorization_code", "code": code, **client}
        self.token = self._ask("/auth/token", urllib.parse.urlencode(form).encode())["access_token"]
        return True

    def sensors(self) -> dict[str, dict[str, Any]]:
        """Return its sensors and what they say, by their names."""
        states = self._ask("/api/states")
        return {
            each["attributes"]["friendly_name"]: each
            for each in states
            if each["entity_id"].startswith("sensor.naproxy")
        }

    def tell(self, entity: str, state: str, attributes: dict[str, str]) -> None:
        """Give a sensor this state, as the integration of a plug does."""
        self._ask(f"/api/states/{entity}", {"state": state, "attributes": attributes})

    def _ask(self, path: str, body: dict[str, Any] | bytes | None = None) -> Any:
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        asked = urllib.request.Request(self._url + path, data)
        if isinstance(body, dict):
            asked.add_header("Content-Type", "application/json")
        if self.token:
            asked.add_header("Authorization", f"Bearer {self.token}")
        with urllib.request.urlopen(asked, timeout=20) as answer:
            return json.load(answer)


class Boxes:
    """Two boxes with one controller, and the broker that they tell."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.port = free_port()
        conf = folder / "mosquitto.conf"
        conf.write_text(f"listener {self.port} 127.0.0.1\nallow_anonymous true\n")
        self._stack = stack
        self._start("mosquitto", "-c", conf)
        self.stage = stack.enter_context(Stage(days=0.1, visitors=False))
        self.tellers = [self._teller(folder, topic) for topic in ("naproxy", "naproxy-upstairs")]

    def _start(self, *argv: Any) -> "subprocess.Popen[bytes]":
        quiet = subprocess.DEVNULL
        process = subprocess.Popen(argv, stdout=quiet, stderr=quiet)
        self._stack.callback(process.wait)
        self._stack.callback(process.terminate)
        return process

    def _teller(self, folder: Path, topic: str) -> "subprocess.Popen[bytes]":
        file = folder / f"{topic}.toml"
        ours = self.stage.config_file.read_text()
        broker = f'host = "127.0.0.1"\nport = {self.port}\ntopic = "{topic}"\n'
        file.write_text(f"{ours}\n[mqtt]\n{broker}")
        # A host name each, as boxes have; the broker knows its clients by them.
        name = f"hostname box-{topic.removeprefix('naproxy').strip('-') or 'downstairs'}"
        program = f"{shlex.join(command(EACH_SECOND))} mqtt --config '{file}'"
        control = f"--socket '{self.stage.run_dir}/control.sock'"
        return self._start("unshare", "-u", "sh", "-c", f"{name}; exec {program} {control}")


@pytest.fixture(scope="module")
def boxes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Boxes]:
    with ExitStack() as stack:
        yield Boxes(tmp_path_factory.mktemp("boxes"), stack)


def available(home: HomeAssistant) -> list[str]:
    return [name for name, each in home.sensors().items() if each["state"] != "unavailable"]


@pytest.fixture(scope="module")
def home(boxes: Boxes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HomeAssistant]:
    folder = tmp_path_factory.mktemp("home")
    made = HomeAssistant(folder, boxes.port)
    try:
        wait_for(made.log_in, "Home Assistant", 180)
        wait_for(lambda: len(available(made)) == 6, "its sensors", 60)
        yield made
    finally:
        print((folder / "said").read_text()[-3000:])
        made.end()


def test_power_energy_and_state_have_their_classes(home: HomeAssistant) -> None:
    sensors = home.sensors()
    about = {
        name.removeprefix("Naproxy box-downstairs "): tuple(
            each["attributes"].get(key)
            for key in ("device_class", "state_class", "unit_of_measurement")
        )
        for name, each in sensors.items()
        if "downstairs" in name
    }
    assert about == {
        "simulated power": ("power", "measurement", "W"),
        "simulated energy": ("energy", "total_increasing", "kWh"),
        "web state": ("enum", None, None),
    }


def test_figures_are_those_of_the_box(home: HomeAssistant, boxes: Boxes) -> None:
    def same() -> bool:
        status = boxes.stage.api("GET", "/v1/status")
        [meter] = status["meters"]
        said = home.sensors()
        power = float(said["Naproxy box-downstairs simulated power"]["state"])
        energy = float(said["Naproxy box-downstairs simulated energy"]["state"])
        measured = status["box"]["energy_j"][meter["id"]] / 3.6e6
        return bool(abs(power - meter["power_w"]) < 5 and abs(measured - energy) < 1e-3)

    wait_for(same, "the box's figures", 20)


def test_a_server_that_falls_asleep_is_seen_to(home: HomeAssistant, boxes: Boxes) -> None:
    name = "Naproxy box-downstairs web state"
    with boxes.stage.asleep():
        wait_for(lambda: home.sensors()[name]["state"] == "asleep", "the state", 20)


def test_two_boxes_with_a_topic_each_are_two_devices(home: HomeAssistant) -> None:
    names = set(home.sensors())
    one = {name.replace("downstairs", "*") for name in names if "downstairs" in name}
    other = {name.replace("upstairs", "*") for name in names if "upstairs" in name}
    assert len(one) == 3
    assert one == other


def read(home: HomeAssistant, folder: Path, entity: str, token: str) -> Reading | str:
    """Return what the box's meter says of a sensor, or the kind of its fault."""
    file = folder / "token"
    file.write_text(token)
    file.chmod(0o600)
    settings = drivers.settings("meter", "homeassistant")(
        id="plug",
        of="web",
        host="127.0.0.1",
        port=home.port,
        source=entity,
        password_file=str(file),
    )
    source = drivers.driver("meter", settings, Site("127.0.0.1", lambda: None))

    async def first() -> Any:
        async with aclosing(source.readings()) as items:
            return await anext(items)

    try:
        said = asyncio.run(first())
    except Fault as fault:
        said = fault
    return said.kind if isinstance(said, Fault) else said


def test_a_box_measures_with_a_sensor_of_power(home: HomeAssistant, tmp_path: Path) -> None:
    entity = "sensor.naproxy_box_upstairs_simulated_power"
    [power_w] = [
        float(each["state"]) for each in home.sensors().values() if each["entity_id"] == entity
    ]
    said = read(home, tmp_path, entity, home.token)
    assert isinstance(said, Reading)
    assert abs(said.power_w - power_w) < 5  # the server's power, a second later
    home.tell("sensor.plug", "0.0433", {"unit_of_measurement": "kW"})
    assert read(home, tmp_path, "sensor.plug", home.token) == Reading(43.3)


def test_a_sensor_without_power_is_a_fault(home: HomeAssistant, tmp_path: Path) -> None:
    home.tell("sensor.gone", "unavailable", {"unit_of_measurement": "W"})
    home.tell("sensor.energy", "7", {"unit_of_measurement": "kWh"})
    for entity, token, kind in (
        ("sensor.gone", home.token, "silence"),
        ("sensor.energy", home.token, "format"),
        ("sensor.never_heard_of", home.token, "refused"),
        ("sensor.energy", f"{home.token[:-3]}AAA", "refused"),
    ):
        assert read(home, tmp_path, entity, token) == kind, entity


def test_a_box_that_dies_is_not_available(home: HomeAssistant, boxes: Boxes) -> None:
    """The last: it kills one."""
    boxes.tellers[1].kill()
    name = "Naproxy box-upstairs web state"
    wait_for(lambda: home.sensors()[name]["state"] == "unavailable", "the broker's word", 30)
    assert home.sensors()["Naproxy box-downstairs web state"]["state"] != "unavailable"
