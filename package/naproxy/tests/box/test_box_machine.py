"""Operations on a machine that is the box's own, with a helper program that records its calls."""

import asyncio
import errno
import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from naproxy.api.calls import ApiError, Call, answer
from naproxy.box import api, forms, logs, machine
from naproxy.config import document as config
from naproxy.config.installation import Installation
from naproxy.core.processes import Printed


class Helper:
    """Keeps what it was called with, and what the file said then."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, ...]] = []
        self.files: list[str] = []
        self.ends = Printed(0, b"", b"")
        self.called = asyncio.Event()

    async def run(self, argv: Any, timeout_s: float) -> Printed:
        program, *arguments = argv
        assert program == "/usr/sbin/naproxy-system"
        if arguments[0] == "apply":
            path = Path(arguments.pop())
            self.files.append(path.read_text())
            arguments.append(path.name)
        self.calls.append(tuple(arguments))
        self.called.set()
        return self.ends

    def host_name(self) -> str:
        return "naproxy-1"


WANTED = forms.Network(
    *("static", "192.0.2.5/24", "192.0.2.1", ("9.9.9.9",)),
    *("static", "fd00::5/64", "fe80::1", 7),
)


class Bench:
    def __init__(self, folder: Path, platform: str = "naproxy") -> None:
        here = Installation(platform=platform, system_dir=str(folder))
        self.helper = Helper()
        self.own = machine.Own(here, self.helper, lambda: 1000.0)
        self.folder = folder


def test_new_network_settings_are_tried_and_kept_when_confirmed(tmp_path: Path) -> None:
    async def scene() -> Bench:
        bench = Bench(tmp_path)
        await bench.own.network(WANTED)
        assert bench.own.settings()["trial_until_s"] == 1000 + machine.TRIAL_S
        assert not (tmp_path / "network.conf").exists()
        bench.own.keep()
        return bench

    bench = asyncio.run(scene())
    assert bench.helper.calls == [("apply", "network", "network.try")]
    assert bench.helper.files == [
        "method=static\naddress=192.0.2.5/24\ngateway=192.0.2.1\n"
        "ipv6=static\naddress6=fd00::5/64\ngateway6=fe80::1\nvlan=7\ndns=9.9.9.9\n"
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["network.conf"]
    settings = bench.own.settings()
    assert (settings["method"], settings["address"], settings["dns"]) == (
        *("static", "192.0.2.5/24"),
        ["9.9.9.9"],
    )
    assert [settings[key] for key in ("ipv6", "address6", "gateway6", "vlan")] == [
        *("static", "fd00::5/64", "fe80::1", 7)
    ]
    assert settings["trial_until_s"] is None
    with pytest.raises(ApiError, match="no network settings are being tried"):
        bench.own.keep()


def test_network_settings_that_nobody_confirms_go_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    monkeypatch.setattr(machine, "TRIAL_S", 0.0)

    async def scene() -> Bench:
        bench = Bench(tmp_path)
        await bench.own.network(WANTED)
        bench.helper.called.clear()
        await asyncio.wait_for(bench.helper.called.wait(), 10)
        return bench

    bench = asyncio.run(scene())
    assert bench.helper.calls[1] == ("apply", "network", "network.conf")
    assert bench.helper.files[1].startswith("method=dhcp\n")
    assert "nobody confirmed" in said[0]


def test_network_settings_that_fail_go_back_to_before_all_trials(
    tmp_path: Path,
) -> None:
    class Refusing(Helper):
        async def run(self, argv: Any, timeout_s: float) -> Printed:
            done = await super().run(argv, timeout_s)
            return Printed(1, b"", b"no") if "192.0.2.6" in self.files[-1] else done

    async def scene() -> Bench:
        bench = Bench(tmp_path)
        bench.own._does = bench.helper = Refusing()
        await bench.own.network(WANTED)
        with pytest.raises(ApiError, match="no"):
            await bench.own.network(replace(WANTED, address="192.0.2.6/24"))
        return bench

    bench = asyncio.run(scene())
    assert bench.helper.calls[-1] == ("apply", "network", "network.conf")
    assert bench.helper.files[-1].startswith("method=dhcp\n")
    assert bench.own.settings()["trial_until_s"] is None
    assert [path.name for path in tmp_path.iterdir()] == ["network.conf"]


def test_a_trial_that_cannot_be_written_down_is_not_kept_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def scene() -> Bench:
        bench = Bench(tmp_path)
        await bench.own.network(WANTED)
        monkeypatch.setattr(os, "fsync", refuses)
        with pytest.raises(OSError, match="No space"):
            bench.own.keep()
        return bench

    assert asyncio.run(scene()).own.settings()["trial_until_s"] is not None
    assert [path.name for path in tmp_path.iterdir()] == ["network.try"]


def test_a_trial_that_a_restart_cut_off_goes_back(tmp_path: Path) -> None:
    async def scene() -> Bench:
        await Bench(tmp_path).own.network(WANTED)
        bench = Bench(tmp_path)
        bench.own.begin()
        await asyncio.wait_for(bench.helper.called.wait(), 10)
        return bench

    assert asyncio.run(scene()).helper.calls == [("apply", "network", "network.conf")]


def test_name_and_time_are_written_and_applied(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    asyncio.run(bench.own.name("box-2"))
    asyncio.run(bench.own.time("Europe/Zurich", ("ntp.example.org", "192.0.2.1")))
    assert bench.helper.calls == [("apply", "name", "name.conf"), ("apply", "time", "time.conf")]
    assert bench.helper.files == [
        "name=box-2\n",
        "time_zone=Europe/Zurich\nntp=ntp.example.org 192.0.2.1\n",
    ]
    assert bench.own.settings()["ntp"] == ["ntp.example.org", "192.0.2.1"]


def test_the_machine_and_its_programs_restart_but_no_others(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for name in ("sshd", "", "varnish; reboot", "../varnish"):
        with pytest.raises(ApiError, match="must be one of"):
            asyncio.run(bench.own.restart(name))
    assert bench.helper.calls == []
    asyncio.run(bench.own.restart("varnish"))
    asyncio.run(bench.own.reboot())
    assert bench.helper.calls == [("restart", "varnish"), ("reboot",)]


def test_everything_is_forgotten_only_by_who_types_the_boxs_name(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for confirm in (None, "", "yes", "NAPROXY-1", True):
        with pytest.raises(ApiError, match="type the box's name"):
            asyncio.run(bench.own.reset(confirm))
    assert bench.helper.calls == []
    asyncio.run(bench.own.reset("naproxy-1"))
    assert bench.helper.calls == [("reset",)]


def test_a_helper_that_fails_is_told_in_its_words(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.helper.ends = Printed(3, b"", b"eth0: \x1b[31mno such device\n")
    with pytest.raises(ApiError, match=r"naproxy-system apply name: eth0: \[31mno such device"):
        asyncio.run(bench.own.name("box-2"))
    bench.helper.ends = Printed(None, b"", b"")
    with pytest.raises(ApiError, match="did not end in time"):
        asyncio.run(bench.own.reboot())


def test_a_machine_that_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "none", "none")
    own = bench.own
    for operation in (
        own.network(WANTED),
        own.back(),
        own.time("UTC", ()),
        own.name("a"),
        own.restart("varnish"),
        own.reboot(),
        own.reset("naproxy-1"),
    ):
        with pytest.raises(ApiError, match="the machine's own"):
            asyncio.run(operation)
    with pytest.raises(ApiError, match="the machine's own"):
        own.keep()
    own.begin()
    assert bench.helper.calls == []
    assert not (tmp_path / "none").exists()


class Host:
    """A controller with a folder."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "naproxy.toml"
        self.here = Installation(data_dir=str(folder))
        (folder / "history.db").write_bytes(bytes(1 << 20))

    def current(self) -> config.Config:
        return config.Config()

    def told(self) -> dict[str, Any]:
        return {}

    def save(self) -> None:
        pass

    def restart(self) -> None:
        raise AssertionError("nothing was restored")


@pytest.mark.parametrize(
    ("call", "missing"),
    [
        (Call("POST", ("v1", "box", "backup"), {}, b'{"history": true}', trusted=True), 3),
        (
            Call(
                "PUT",
                ("v1", "box", "restore", "part"),
                {"offset": ["0"]},
                bytes(1 << 20),
                trusted=True,
            ),
            2,
        ),
    ],
)
def test_a_disk_that_is_nearly_full_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Call, missing: int
) -> None:
    free = api.LEAVE_FREE_BYTES - (1 << 20)
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=free))
    operations = api.Operations(Host(tmp_path), logs.Ring(), Helper())
    with pytest.raises(ApiError, match=f"{missing} MiB are missing") as caught:
        asyncio.run(answer(operations.handlers(), call))
    assert caught.value.status == 507
    assert list((tmp_path / "box").iterdir()) == []


def test_a_disk_that_takes_no_writes_keeps_no_controller_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    operations = api.Operations(Host(tmp_path), logs.Ring(), Helper())

    def refuses(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "mkdir", refuses)
    operations.begin()
    assert "Read-only file system" in said[0]
