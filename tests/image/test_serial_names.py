"""The names of serial ports by USB, in a made /sys."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.image.standin import TOP

SCRIPT = TOP / "overlay/usr/lib/naproxy/serial-name"
PICO = {"manufacturer": "MicroPython", "product": "Board in FS mode", "serial": "e6614c311b7c6f2a"}


class Ports:
    """Devices that come and go, as mdev tells of them."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def plug(self, port: str, facts: dict[str, str], interface: str = "00") -> None:
        device = self.place / f"sys/devices/usb1/1-{len(self.names()) + 1}"
        at = device / f"1-1:1.{int(interface)}"
        at.mkdir(parents=True, exist_ok=True)
        (at / "bInterfaceNumber").write_text(f"{interface}\n")
        for name, said in facts.items():
            (device / name).write_text(f"{said}\n")
        # A chip that makes a port is a device between the interface and the port.
        inner = at / port if port.startswith("ttyUSB") else at
        inner.mkdir(exist_ok=True)
        tty = self.place / "sys/class/tty" / port
        tty.mkdir(parents=True)
        (tty / "device").symlink_to(inner)
        self.tell("add", port)

    def unplug(self, port: str) -> None:
        shutil.rmtree(self.place / "sys/class/tty" / port)
        self.tell("remove", port)

    def tell(self, action: str, port: str) -> None:
        env = {**os.environ, "ACTION": action, "MDEV": port}
        env |= {"SYS": str(self.place / "sys"), "DEV": str(self.place / "dev")}
        done = subprocess.run(
            ["sh", SCRIPT], env=env, capture_output=True, text=True, check=True, umask=0
        )
        assert done.stdout + done.stderr == ""

    def names(self) -> dict[str, str]:
        folder = self.place / "dev/serial/by-id"
        return {each.name: str(each.readlink()) for each in folder.glob("*")}


@pytest.fixture
def ports(tmp_path: Path) -> Ports:
    return Ports(tmp_path)


def test_nobody_else_may_change_names(ports: Ports) -> None:
    ports.plug("ttyACM0", PICO)  # by mdev, which has no umask
    for folder in ("dev/serial", "dev/serial/by-id"):
        assert (ports.place / folder).stat().st_mode & 0o777 == 0o755


def test_a_port_has_the_name_that_udev_gives_it(ports: Ports) -> None:
    ports.plug("ttyACM0", PICO)
    name = "usb-MicroPython_Board_in_FS_mode_e6614c311b7c6f2a-if00"
    assert ports.names() == {name: "../../ttyACM0"}


def test_a_port_that_a_chip_makes_says_so(ports: Ports) -> None:
    ports.plug("ttyUSB3", {"manufacturer": "Prolific", "product": "USB-Serial", "idVendor": "067b"})
    assert ports.names() == {"usb-Prolific_USB-Serial-if00-port0": "../../ttyUSB3"}


def test_a_device_without_words_has_its_numbers(ports: Ports) -> None:
    ports.plug("ttyUSB0", {"idVendor": "1a86", "idProduct": "7523"})
    assert ports.names() == {"usb-1a86_7523-if00-port0": "../../ttyUSB0"}


def test_a_name_leads_to_the_new_port_of_the_same_device(ports: Ports) -> None:
    ports.plug("ttyACM0", PICO)
    ports.plug("ttyACM1", {**PICO, "serial": "other"}, "02")
    ports.unplug("ttyACM0")
    assert list(ports.names().values()) == ["../../ttyACM1"]
    ports.plug("ttyACM2", PICO)
    assert sorted(ports.names().values()) == ["../../ttyACM1", "../../ttyACM2"]


def test_what_a_device_says_stays_in_the_folder(ports: Ports) -> None:
    ports.plug(
        "ttyACM0", {"manufacturer": "../../../etc", "product": "$(reboot)\nx", "serial": "ö" * 300}
    )
    (name,) = ports.names()
    assert name.startswith("usb-.._.._.._etc_")
    assert not set(name) & set("/$()\n ")


def test_a_port_that_is_not_by_usb_gets_no_name(ports: Ports) -> None:
    tty = ports.place / "sys/class/tty/ttyUSB9"
    tty.mkdir(parents=True)
    ports.tell("add", "ttyUSB9")
    assert ports.names() == {}
