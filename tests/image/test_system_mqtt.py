"""The box tells Home Assistant by itself, where a broker is named."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.image.test_system_services import LAN, Office
from tests.patience import wait_for


class Told(Office):
    """An office with a broker, which the box's settings do not name at first."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        first = self.box.files / "usr/share/naproxy/first.toml"
        first.write_text(f'{first.read_text()}\n[mqtt]\ntopic = "office"\n')
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


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    made = Told(tmp_path_factory.mktemp("office"))
    try:
        made.start()
        yield made
    finally:
        made.end()


def await_end(office: Told) -> None:
    """Wait until it has found no broker, and is not up any more."""
    log = "cat /var/log/messages"
    wait_for(lambda: "mqtt.host is empty" in office.box.sh(log), "the log")
    wait_for(lambda: office.service().startswith("down: mqtt"), "the end")


def test_without_a_broker_it_is_not_tried_again_and_again(office: Told) -> None:
    await_end(office)


@pytest.fixture(scope="module")
def told(office: Told) -> Told:
    """From here on a broker is named."""
    await_end(office)
    named = f'host = "{LAN}"'
    office.box.sh(f"sed -i 's/^topic = .*/{named}/' /data/etc/naproxy.toml")
    return office


def test_a_broker_named_later_is_told(told: Told) -> None:
    wait_for(lambda: told.heard() == "online", "the box's word")


def test_it_is_not_root_and_knows_no_setting_but_its_own(told: Told) -> None:
    wait_for(lambda: told.heard() == "online", "the box's word")
    pid = told.pid("mqtt")
    assert told.box.sh(f"stat -c %U:%G /proc/{pid}") == "naproxy-mqtt:naproxy-read\n"
    text = told.box.sh("cat /run/naproxy-mqtt/naproxy.toml")
    assert text.startswith("[mqtt]\n")
    assert "[[server]]" not in text
    assert (
        told.box.sh("stat -c %U:%G:%a /run/naproxy-mqtt/naproxy.toml") == "root:naproxy-read:640\n"
    )


def test_a_broker_that_is_taken_away_is_told_no_more(told: Told) -> None:
    """The last one."""
    wait_for(lambda: told.heard() == "online", "the box's word")
    told.box.sh("sed -i '/^.mqtt.$/,$d' /data/etc/naproxy.toml")
    wait_for(lambda: not told.service().startswith("run: mqtt"), "the end of it", 30)
    wait_for(lambda: told.heard() == "offline", "the box's last word")
