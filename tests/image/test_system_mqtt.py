"""The box tells Home Assistant by itself, where a broker is named."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.image.test_system_services import LAN, Office
from tests.simulator.office.namespace import wait_for


class Told(Office):
    """An office with a broker, and a box whose settings have this section."""

    def __init__(self, folder: Path, section: str) -> None:
        super().__init__(folder)
        first = self.box.files / "usr/share/naproxy/first.toml"
        first.write_text(f"{first.read_text()}\n[mqtt]\n{section}\n")
        self.broker = folder / "mosquitto.conf"
        self.broker.write_text(f"listener 1883 {LAN}\nallow_anonymous true\n")

    def start(self) -> None:
        super().start()
        self.lan.run(["ip", "link", "set", "lo", "up"])
        self.lan.popen(["mosquitto", "-c", self.broker], log="mosquitto")

    def heard(self) -> str:
        """Return what the broker keeps of the box's status, or nothing."""
        argv = ["mosquitto_sub", "-h", LAN, "-t", "naproxy/status", "-C", "1", "-W", "3"]
        return self.lan.run(argv, check=False).stdout.strip()

    def service(self) -> str:
        return self.box.sh("SVDIR=/run/service sv status mqtt 2>&1")


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("office")


@pytest.fixture
def told(folder: Path) -> Iterator[Told]:
    made = Told(folder, f'host = "{LAN}"\nevery_s = 1')
    try:
        made.start()
        yield made
    finally:
        made.end()


@pytest.fixture
def nobody_to_tell(folder: Path) -> Iterator[Told]:
    made = Told(folder, 'topic = "office"')
    try:
        made.start()
        yield made
    finally:
        made.end()


@pytest.mark.long
def test_a_broker_that_is_named_is_told(told: Told) -> None:
    wait_for(lambda: told.heard() == "online", "the box's word")


def test_it_is_not_root_and_knows_no_setting_but_its_own(told: Told) -> None:
    wait_for(lambda: told.heard() == "online", "the box's word")
    pid = told.pid("mqtt")
    assert told.box.sh(f"stat -c %U:%G /proc/{pid}") == "naproxy-mqtt:naproxy\n"
    text = told.box.sh("cat /run/naproxy-mqtt/naproxy.toml")
    assert text.startswith("[mqtt]\n")
    assert "[[server]]" not in text
    assert told.box.sh("stat -c %U:%G:%a /run/naproxy-mqtt/naproxy.toml") == "root:naproxy:640\n"


@pytest.mark.long
def test_without_a_broker_it_is_not_tried_again_and_again(nobody_to_tell: Told) -> None:
    wait_for(lambda: nobody_to_tell.service().startswith("down: mqtt"), "the end")
    log = "cat /var/log/messages"
    wait_for(lambda: "mqtt.host is empty" in nobody_to_tell.box.sh(log), "the log")


def test_a_broker_named_later_is_told_and_one_taken_away_is_not(nobody_to_tell: Told) -> None:
    office = nobody_to_tell
    wait_for(lambda: office.service().startswith("down: mqtt"), "the end")
    change = "sed -i 's/^topic = .*/{}/' /data/etc/naproxy.toml"
    office.box.sh(change.format(f'host = "{LAN}"\\nevery_s = 1'))
    wait_for(lambda: office.heard() == "online", "the box's word")
    office.box.sh("sed -i '/^.mqtt.$/,$d' /data/etc/naproxy.toml")
    wait_for(lambda: not office.service().startswith("run: mqtt"), "the end of it", 30)
    wait_for(lambda: office.heard() == "offline", "the box's last word")
