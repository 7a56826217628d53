"""What a request may name: no file or device that is not there for it."""

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from naproxy import drivers
from naproxy.config import document as config
from naproxy.config import paths
from naproxy.config.in_force import InForce
from naproxy.config.worked import Worked
from naproxy.core.reason import WrongError
from naproxy.core.schema import ConfigError
from naproxy.drivers import meter
from naproxy.drivers.meter.ina219 import Hwmon
from naproxy.setup import keys

SERVER = """
[[server]]
id = "web"
address = "192.0.2.10"
mac = "02:00:00:00:00:01"
"""
SSH = f'{SERVER}[server.sleep]\ndriver = "ssh"\n'
METER = f'{SERVER}[[meter]]\nid = "m"\nof = "web"\n'
HWMON = f'{METER}driver = "ina219"\n'
BMC = 'host = "192.0.2.9"\nuser = "box"\n'
HOSTILE = (
    f'{SSH}key_file = "/root/.ssh/id_ed25519"\n',
    f'{SSH}key_file = "{{folder}}/../elsewhere"\n',
    f'{SSH}key_file = "{{folder}}/commands/switch"\n',
    f'{SSH}key_file = "{{folder}}/naproxy.toml"\n',
    f'{SSH}key_file = "{{folder}}/link/shadow"\n',
    f'{SERVER}[server.sleep]\ndriver = "agent"\nkey_file = "/data/naproxy-webui/secret"\n',
    f'{SERVER}[[server.wake]]\ndriver = "ipmi"\n{BMC}password_file = "/etc/shadow"\n',
    f'{SERVER}[server.awake]\ncalendar = "/etc/shadow"\n',
    f'{METER}driver = "simulated"\nfile = "/proc/1/environ"\n',
    f'{METER}driver = "simulated"\nfile = "/etc/naproxy/../shadow"\n',
    f'{METER}driver = "shelly"\nhost = "192.0.2.9"\npassword_file = "/etc/shadow"\n',
    f'{METER}driver = "ina219"\ndevice = "/dev/watchdog"\n',
    f'{METER}driver = "ina219"\ndevice = "/dev/tty/../watchdog"\n',
    f'{METER}driver = "energino"\ndevice = "/dev/mem"\n',
    f'{HWMON}device = "/sys/class/hwmon/../../kernel"\n',
    f'{HWMON}device = "/tmp"\n',
)
USUAL = (
    SSH,
    f'{SSH}key_file = "{{folder}}/ssh/key"\n',
    f'{SERVER}[server.awake]\ncalendar = "{{folder}}/office.ics"\n',
    f'{SERVER}[server.awake]\ncalendar = "https://calendar.example/office.ics"\n',
    f'{METER}driver = "simulated"\nfile = "{{folder}}/watts"\n',
    f'{METER}driver = "ina219"\n',
    f'{METER}driver = "ina219"\ndevice = "/dev/i2c-1"\n',
    f'{METER}driver = "energino"\ndevice = "/dev/serial/by-id/usb-Arduino"\n',
    f'{HWMON}device = "/sys/class/hwmon/hwmon1"\n',
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "link").symlink_to("/etc")
    (tmp_path / "naproxy.toml").write_text(SERVER)
    return tmp_path


def in_force(folder: Path) -> InForce:
    file = folder / "naproxy.toml"
    return InForce(file, Worked(file).choose(), lambda _: None)


def put(ours: InForce, text: bytes) -> None:
    ours.put(ours.checked(text))


def test_a_request_names_no_file_or_device_elsewhere(folder: Path) -> None:
    for text in HOSTILE:
        new = text.format(folder=folder)
        config.parse(new)
        with pytest.raises(ConfigError) as refused:
            put(in_force(folder), new.encode())
        problem = refused.value.problems[0]
        assert problem.reason.code.startswith("config.path_"), text
        assert (folder / "naproxy.toml").read_text() == SERVER, text
        if text is HOSTILE[0]:
            assert problem.where == "server.web.sleep.key_file"
            assert str(folder) in str(problem.reason)  # where it may lie


def test_an_invalid_configuration_is_rejected_and_changes_nothing(folder: Path) -> None:
    before = sorted(folder.iterdir())
    for text in (b"server = 3", b"[nonsense]\n", b"[[server", b"\xff"):
        with pytest.raises(ConfigError):
            put(in_force(folder), text)
        assert (folder / "naproxy.toml").read_text() == SERVER, text
        assert sorted(folder.iterdir()) == before, text


def test_a_request_names_those_that_are_there_for_it(folder: Path) -> None:
    for text in USUAL:
        (folder / "naproxy.toml").write_text(SERVER)
        put(in_force(folder), text.format(folder=folder).encode())


def test_a_path_set_on_the_box_itself_stays(folder: Path) -> None:
    file, text = folder / "naproxy.toml", f'{METER}driver = "simulated"\nfile = "/run/watts"\n'
    file.write_text(text)
    put(in_force(folder), text.encode() + b"# mine\n")
    assert "# mine" in file.read_text()


def test_the_file_itself_may_name_any(folder: Path) -> None:
    ours = in_force(folder)
    ours.file.write_text(f'{SSH}key_file = "/root/.ssh/id_ed25519"\n')
    ours.reload()
    assert ours.current().server[0].sleep.key_file == "/root/.ssh/id_ed25519"


def test_every_key_of_a_driver_that_takes_a_path_is_looked_at() -> None:
    """By its check: one that takes an absolute path only."""
    taken = set()
    for kind in ("sleep", "wake", "meter", "ready"):
        for name in drivers.names(kind):
            settings: Any = drivers.module(kind, name).Settings
            for field in dataclasses.fields(settings):
                check: Callable[[str], object] | None = field.metadata.get("check")
                if check and field.type == "str" and check("/a") is None and check("a"):
                    taken.add(field.name)
    # Paths of URLs and of resources at a BMC begin with / as well.
    looked_at = {"file", "device"} | {e for e in taken if e.endswith("_file")}
    assert taken - looked_at == {"path", "source"}


def test_a_pipe_for_known_hosts_holds_nothing_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    settings = keys.SshSettings(known_hosts_file=str(tmp_path / "pipe"))
    with pytest.raises(OSError, match="not an ordinary file"):
        keys.pinned(settings, "192.0.2.10")


def test_a_pipe_in_the_place_of_a_chip_holds_nothing_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "shunt_resistor")
    with pytest.raises(meter.Fault):
        Hwmon(tmp_path, 1000).read()


@pytest.mark.parametrize("text", ["-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl\n", "secret\n"])
def test_a_host_key_is_not_written_into_a_file_of_something_else(tmp_path: Path, text: str) -> None:
    file = tmp_path / "id_ed25519"
    file.write_text(text)
    with pytest.raises(WrongError):
        keys.pin(file, "192.0.2.10", keys.HostKey("ssh-ed25519", "AAAA"))
    assert file.read_text() == text


def test_paths_are_named_with_their_places() -> None:
    loaded = config.parse(f'{METER}driver = "simulated"\nfile = "/a"\n')
    assert [n.where for n in paths.named(loaded) if n.path == "/a"] == ["meter.m.file"]
