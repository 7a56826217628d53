import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from box import Box
from free_port import free_port
from naproxy.cli import __main__ as cli
from naproxy.cli import mqtt
from naproxy.config import document as config
from naproxy.config.document import Mqtt
from naproxy.core.reason import Reason, own_words
from naproxy.core.schema import ConfigError
from naproxy.core.state import State

from tests.fixed import EACH_SECOND, command
from tests.patience import PATIENCE_S, wait_for

MOSQUITTO = Path("/usr/sbin/mosquitto")
real = [
    pytest.mark.skipif(not MOSQUITTO.exists(), reason="mosquitto not installed"),
    pytest.mark.skipif(os.geteuid() != 0, reason="raw packets need root"),
]


CERTIFICATE = {"id": "main", "names": ["shop.example", "*.shop.example"], "not_after_s": 1.8e9}


def status(power_w: float | None = 43.3) -> dict[str, Any]:
    return {
        "box": {"energy_j": {"bench": 7_200_000.0}, "edge": {"certificates": [CERTIFICATE]}},
        "meters": [{"id": "bench", "power_w": power_w, "estimated": False}],
        "servers": [
            {
                "id": "web",
                "state": "asleep",
                "reason": Reason("policy.idle", idle_s=63).plain(),
                "held": 0,
                "alert": None,
            }
        ],
    }


def test_the_payload_has_the_names_and_units_of_the_export() -> None:
    said = dict(mqtt.states(status(), "naproxy"))
    assert json.loads(said["naproxy/meter/bench"]) == {"power_w": 43.3, "energy_j": 7_200_000.0}
    told = json.loads(said["naproxy/server/web"])
    assert told["state"] == "asleep"
    assert told["reason"] == "Nobody had needed it for 63 s."
    assert told["alert"] is None
    alerted = status(None)
    why = Reason("server.still_not_up", why=own_words("it draws 0 W"))
    alerted["servers"][0]["alert"] = why.plain()
    said = dict(mqtt.states(alerted, "naproxy"))
    alert = json.loads(said["naproxy/server/web"])["alert"]
    assert alert == "It is still not up: it draws 0 W."
    assert json.loads(said["naproxy/meter/bench"])["power_w"] is None  # silent is not 0


def test_a_certificate_tells_when_it_ends_and_is_called_by_its_first_name() -> None:
    told = json.loads(dict(mqtt.states(status(), "naproxy"))["naproxy/certificate/main"])
    assert told == {"not_after_s": 1.8e9, "names": CERTIFICATE["names"]}
    sensors = [json.loads(text) for _, text in mqtt.discovery(status(), Mqtt(), "box")]
    assert "certificate of shop.example ends" in [sensor["name"] for sensor in sensors]


def test_discovery_names_each_sensor_once_and_where_it_is() -> None:
    said = [json.loads(text) for _, text in mqtt.discovery(status(), Mqtt(), "box")]
    assert [s["device_class"] for s in said] == ["power", "energy", "timestamp", "enum"]
    assert len({s["unique_id"] for s in said}) == 4
    topics = ("meter/bench", "certificate/main", "server/web")
    assert {s["state_topic"] for s in said} == {f"naproxy/{topic}" for topic in topics}
    assert {s["availability_topic"] for s in said} == {"naproxy/status"}


def test_an_estimate_is_called_one() -> None:
    estimated = status()
    estimated["meters"][0]["estimated"] = True
    names = [json.loads(text)["name"] for _, text in mqtt.discovery(estimated, Mqtt(), "box")]
    assert names[0] == "bench power (estimated)"


def test_a_topic_that_is_a_pattern_is_refused(subtests: pytest.Subtests) -> None:
    for topic in ("a/#", "+", "/a", "a/", "$SYS"):
        server = '[[server]]\nid = "web"\naddress = "192.0.2.1"\nmac = "02:00:00:00:00:01"\n'
        with subtests.test(topic=topic), pytest.raises(ConfigError, match=r"mqtt\.topic"):
            config.parse(f'[mqtt]\ntopic = "{topic}"\n{server}')


class Broker:
    """A real mosquitto on loopback."""

    def __init__(self, directory: Path, more: str = "") -> None:
        self.port = free_port()
        self._file = directory / "mosquitto.conf"
        self._file.write_text(f"listener {self.port} 127.0.0.1\nallow_anonymous true\n{more}")
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(
            [MOSQUITTO, "-c", self._file], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()

    def retained(self, topic: str) -> str:
        """What a listener that comes now is told first; empty if nothing in ten seconds."""
        command = ["mosquitto_sub", "-p", str(self.port), "-t", topic, "-C", "1", "-W", "10"]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    made = Broker(tmp_path_factory.mktemp("broker"))
    yield made
    made.stop()


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory, broker: Broker) -> Iterator[Box]:
    made = Box(tmp_path_factory.mktemp("box"))
    with made.file.open("a") as file:
        file.write(f'[mqtt]\nhost = "127.0.0.1"\nport = {broker.port}\n')
    made.start()
    made.wait(State.AWAKE)
    yield made
    made.close()


@pytest.fixture
def teller(box: Box, broker: Broker) -> Iterator["subprocess.Popen[bytes]"]:
    control = str(box.run_dir / "control.sock")
    teller = [*command(EACH_SECOND), "mqtt", "--config", str(box.file)]
    process = subprocess.Popen([*teller, "--socket", control])
    wait_for(lambda: broker.retained("naproxy/status") == "online", "online")
    yield process
    if process.poll() is None:
        process.kill()
        process.wait()
    # Or the next one would be taken to be online before it is.
    wait_for(lambda: broker.retained("naproxy/status") == "offline", "offline")


@pytest.mark.usefixtures("teller")
class TestWithARealBroker:
    pytestmark = real

    def test_a_listener_is_told_the_state_and_its_changes(self, box: Box, broker: Broker) -> None:
        sensor = json.loads(broker.retained("homeassistant/sensor/naproxy_server_web_state/config"))
        assert json.loads(broker.retained(sensor["state_topic"]))["state"] == "awake"
        box.sleep()
        asleep = '"state": "asleep"'
        wait_for(lambda: asleep in broker.retained(sensor["state_topic"]), "the change")

    def test_it_says_goodbye(self, broker: Broker, teller: "subprocess.Popen[bytes]") -> None:
        teller.send_signal(signal.SIGTERM)
        assert teller.wait(PATIENCE_S) == 0
        assert broker.retained("naproxy/status") == "offline"

    def test_when_it_is_killed_the_broker_says_so(
        self, broker: Broker, teller: "subprocess.Popen[bytes]"
    ) -> None:
        teller.kill()
        wait_for(lambda: broker.retained("naproxy/status") == "offline", "offline")

    def test_a_broker_that_goes_and_comes_is_found_again(self, broker: Broker) -> None:
        broker.stop()  # and with it what it retained
        broker.start()
        wait_for(lambda: broker.retained("naproxy/status") == "online", "online")


@pytest.mark.skipif(not MOSQUITTO.exists(), reason="mosquitto not installed")
def test_two_boxes_of_the_same_name_stay_connected(tmp_path: Path) -> None:
    log = tmp_path / "log"
    broker = Broker(tmp_path, f"user root\nlog_dest file {log}\nlog_type notice\n")
    log.touch()
    boxes = []
    try:
        for name in ("one", "two"):
            file = tmp_path / f"{name}.toml"
            file.write_text(
                f'[mqtt]\nhost = "127.0.0.1"\nport = {broker.port}\n'
                '[[server]]\nid = "web"\naddress = "192.0.2.1"\nmac = "02:00:00:00:00:01"\n'
            )
            teller = [*command(EACH_SECOND), "mqtt", "--config", str(file)]
            boxes.append(subprocess.Popen(teller, stderr=subprocess.DEVNULL))
            number = len(boxes)
            wait_for(lambda n=number: log.read_text().count(" as naproxy-") == n, "the box")
        for box in boxes:
            box.send_signal(signal.SIGTERM)
            assert box.wait(PATIENCE_S) == 0
    finally:
        for box in boxes:
            box.kill()
            box.wait()
        broker.stop()
    said = log.read_text()
    assert "already connected" not in said
    names = set(re.findall(r" as (naproxy-\S+)", said))
    assert len(names) == 2
    assert all(len(name) <= 23 for name in names)


def test_without_a_broker_it_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "naproxy.toml"
    file.write_text('[[server]]\nid = "web"\naddress = "192.0.2.1"\nmac = "02:00:00:00:00:01"\n')
    assert cli.main(["mqtt", "--config", str(file)]) == 1
    assert "mqtt.host is empty" in capsys.readouterr().err
