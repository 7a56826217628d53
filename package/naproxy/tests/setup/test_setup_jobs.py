"""Jobs: one at a time, looked at meanwhile; and the API's part for the first run."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from naproxy.api.calls import ApiError, Call, answer
from naproxy.api.jobs import MOST_JOBS, BusyError, JobError, Jobs, Progress
from naproxy.config import document as config
from naproxy.core.reason import Reason
from naproxy.drivers.meter import Fault, Reading
from naproxy.history.write.journal import Journal
from naproxy.setup import api, meters
from test_setup_scan import MACHINES, Office

SERVER = '[[server]]\nid = "web"\naddress = "192.168.1.10"\nmac = "02:00:00:00:00:0a"\n'


class Clock:
    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


async def at_once(progress: Progress) -> None:
    """A job that does nothing."""


async def ended(jobs: Jobs, name: str) -> dict[str, Any]:
    while jobs.status(name)["state"] == "running":
        await asyncio.sleep(0)
    return jobs.status(name)


def test_a_job_tells_how_far_it_is_and_what_came_of_it() -> None:
    async def story() -> None:
        jobs = Jobs()
        go = asyncio.Event()

        async def work(progress: Progress) -> str:
            progress.done, progress.of = 3, 10
            await go.wait()
            return "found"

        assert jobs.status("scan")["state"] == "never"
        jobs.start("scan", work, 0)
        await asyncio.sleep(0)
        assert jobs.status("scan")["progress"] == {"done": 3, "of": 10, "part": ""}
        go.set()
        assert (await ended(jobs, "scan"))["result"] == "found"

    asyncio.run(story())


def test_a_job_is_not_begun_twice_nor_again_at_once() -> None:
    async def story() -> None:
        clock = Clock()
        jobs = Jobs(clock, clock)

        jobs.start("scan", at_once, 10)
        with pytest.raises(BusyError):
            jobs.start("scan", at_once, 10)
        await ended(jobs, "scan")
        clock.now_s += 9
        with pytest.raises(BusyError):
            jobs.start("scan", at_once, 10)
        clock.now_s += 2
        jobs.start("scan", at_once, 10)
        await ended(jobs, "scan")

    asyncio.run(story())


def test_what_goes_wrong_has_a_code_and_a_fault_shows_nothing_of_itself(said: list[str]) -> None:
    async def story() -> None:
        jobs = Jobs()

        async def refused(progress: Progress) -> None:
            raise JobError("setup.no_route", address="192.0.2.1")

        async def broken(progress: Progress) -> None:
            raise RuntimeError("secret")

        jobs.start("a", refused, 0)
        jobs.start("b", broken, 0)
        error = (await ended(jobs, "a"))["error"]
        assert error == {
            "code": "setup.no_route",
            "params": {"address": "192.0.2.1"},
            "error": str(Reason("setup.no_route", address="192.0.2.1")),
        }
        assert "secret" not in str((await ended(jobs, "b"))["error"])
        assert "secret" in said[0]

    asyncio.run(story())


def test_a_job_can_be_called_off() -> None:
    async def story() -> None:
        jobs = Jobs()

        async def work(progress: Progress) -> None:
            await asyncio.Event().wait()

        jobs.start("scan", work, 0)
        await asyncio.sleep(0)
        jobs.cancel("scan")
        assert (await ended(jobs, "scan"))["error"]["code"] == "setup.cancelled"

    asyncio.run(story())


def test_old_jobs_are_forgotten() -> None:
    async def story() -> None:
        clock = Clock()
        jobs = Jobs(clock, clock)

        for number in range(MOST_JOBS + 1):
            clock.now_s += 1
            jobs.start(str(number), at_once, 0)
            await ended(jobs, str(number))
        assert jobs.status("0")["state"] == "never"
        assert jobs.status("1")["state"] == "done"

    asyncio.run(story())


# The API


Ask = Callable[..., Any]


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    opened = Journal(tmp_path)
    yield opened
    opened.close()


def make(
    journal: Journal,
    text: str = SERVER,
    office: Office | None = None,
    folder: Path = Path("/nonexistent"),
) -> api.Setup:
    loaded = config.parse(text)
    wire = office or Office(MACHINES)
    return api.Setup(lambda: loaded, folder / "naproxy.toml", journal, wire)


async def ask(setup: api.Setup, method: str, path: str, /, **body: Any) -> Any:
    call = Call(method, ("v1", *path.split("/")), {}, json.dumps(body).encode())
    return (await answer(setup.handlers(), call))[1]


async def job(setup: api.Setup, path: str, /, **body: Any) -> Any:
    await ask(setup, "POST", path, **body)
    while True:
        status = await ask(setup, "GET", path)
        if status["state"] != "running":
            return status
        await asyncio.sleep(0.001)


def test_a_box_without_a_server_is_not_set_up_and_one_with_is(journal: Journal) -> None:
    assert make(journal, "").state() == {"done": False, "step": "welcome", "server": None}
    assert make(journal).state()["done"] is True


def test_where_the_guide_was_left_outlives_a_restart(journal: Journal) -> None:
    asyncio.run(ask(make(journal), "PUT", "setup", done=False, step="sleep", server="web"))
    assert make(journal).state() == {"done": False, "step": "sleep", "server": "web"}


def test_a_state_that_cannot_be_is_refused(journal: Journal) -> None:
    setup = make(journal)
    before = setup.state()
    wrong: tuple[dict[str, Any], ...] = (
        {"step": "nowhere"},
        {"step": 3},
        {"done": "yes"},
        {"server": "nope"},
        {"more": 1},
    )
    for body in wrong:
        with pytest.raises(ApiError):
            asyncio.run(ask(setup, "PUT", "setup", **body))
        assert setup.state() == before, body
    with pytest.raises(ApiError, match="no server"):
        asyncio.run(ask(make(journal, ""), "PUT", "setup", done=True))


def test_a_scan_is_begun_and_looked_at_and_comes_with_a_pause(journal: Journal) -> None:
    async def story() -> None:
        setup = make(journal, "")
        found = await job(setup, "scan")
        assert found["result"]["hosts"][0]["address"] == "192.168.1.10"
        with pytest.raises(ApiError) as error:
            await ask(setup, "POST", "scan")
        assert error.value.status == 429

    asyncio.run(story())


def test_a_look_at_what_is_no_address_is_refused(journal: Journal) -> None:
    bodies: tuple[dict[str, Any], ...] = (
        *({}, {"address": ""}, {"address": 5}, {"address": "x" * 300}),
        {"address": "192.168.1.10", "port": 0},
        {"address": "192.168.1.10", "port": "80"},
        {"address": "192.168.1.10", "port": True},
        {"address": "192.168.1.10", "path": "/admin"},
    )
    for body in bodies:
        with pytest.raises(ApiError):
            asyncio.run(ask(make(journal), "POST", "look", **body))


def test_a_server_that_is_unknown_or_without_ssh_has_no_key(journal: Journal) -> None:
    for path in ("servers/nope/key", "servers/nope/doctor"):
        with pytest.raises(ApiError, match="no server nope"):
            asyncio.run(ask(make(journal), "POST", path))
    with pytest.raises(ApiError) as error:
        asyncio.run(ask(make(journal), "POST", "servers/web/key"))
    assert error.value.body["code"] == "setup.no_ssh"


def test_the_boxs_key_is_made_once_and_comes_with_what_to_paste(
    journal: Journal, tmp_path: Path
) -> None:
    ssh = f'[server.sleep]\ndriver = "ssh"\nkey_file = "{tmp_path}/ssh/key"\n'
    setup = make(journal, SERVER + ssh, folder=tmp_path)
    made = asyncio.run(ask(setup, "POST", "servers/web/key"))
    again = asyncio.run(ask(setup, "POST", "servers/web/key"))
    assert made == again
    assert made["line"].startswith('restrict,command="/usr/local/bin/naproxy-sleep" ssh-ed25519 ')
    assert made["line"] in made["script"]
    assert "@" not in made["script"].replace(made["line"], "")
    assert stat.S_IMODE((tmp_path / "ssh/key").stat().st_mode) == 0o600
    assert "PRIVATE" not in json.dumps(made)


# Meters


def ports(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).symlink_to(f"/dev/null{name[-1]}")
    return folder


def test_serial_ports_are_known_by_their_names(tmp_path: Path) -> None:
    names = ("usb-Arduino_Uno-if00", "usb-MicroPython_Board_e66-if00", "usb-Huawei_Modem-if0")
    found = dict(meters.serial_ports(ports(tmp_path, *names)))
    assert [found[str(tmp_path / name)] for name in names] == ["energino", "ina219", ""]
    assert list(meters.serial_ports(tmp_path / "none")) == []


def test_a_chip_of_the_kernel_keeps_its_shunt(tmp_path: Path) -> None:
    chip = tmp_path / "hwmon3"
    chip.mkdir()
    (chip / "name").write_text("ina219\n")
    (chip / "shunt_resistor").write_text("10000\n")
    [found] = meters.chips(tmp_path)
    assert found.keys == {"device": str(chip), "shunt_uohm": 10000}
    assert list(meters.chips(tmp_path / "none")) == []


def plug(address: str, meter: str) -> dict[str, Any]:
    return {"address": address, "name": "", "http": {"meter": meter}}


def searched(hosts: list[dict[str, Any]], taken: tuple[str, ...] = (), **watts: float) -> Any:
    async def shelly(address: str) -> Any:
        return {"gen": 2, "model": "PlugS", "auth": address.endswith("9")}

    async def read(candidate: meters.Candidate) -> Reading:
        kind = str(candidate.keys.get("kind", candidate.driver))
        if kind in watts:
            return Reading(watts[kind])
        raise Fault("silence", "it says nothing")

    async def story() -> Any:
        candidates = await meters.plugs(hosts, taken, shelly)
        found = [await meters._tried(c, str(c.keys["host"]), read) for c in candidates]
        return [(f["where"], f["keys"].get("kind"), f["power_w"], f["problem"]) for f in found]

    return asyncio.run(story())


def test_a_plug_is_found_by_a_reading_unless_it_is_configured() -> None:
    plugs = [plug("192.0.2.5", "tasmota")]
    assert searched(plugs, tasmota=43.5) == [("192.0.2.5", None, 43.5, "")]
    assert searched(plugs, ("192.0.2.5",), tasmota=1.0) == []


def test_of_a_shelly_each_kind_is_tried() -> None:
    found = searched([plug("192.0.2.5", "shelly")], pm1=12.0)
    assert ("192.0.2.5", "pm1", 12.0, "") in found
    assert ("192.0.2.5", "switch", None, "it says nothing") in found


def test_a_plug_with_a_password_is_said_and_not_asked() -> None:
    assert searched([plug("192.0.2.9", "shelly")], switch=1.0)[0][2:] == (
        None,
        "it wants a password",
    )


def test_a_real_driver_gives_its_first_reading(tmp_path: Path) -> None:
    file = tmp_path / "watts"
    file.write_text("41.5")
    candidate = meters.Candidate("simulated", "a file", {"file": str(file)})
    assert asyncio.run(meters.reading(candidate)).power_w == 41.5


def test_a_device_that_is_gone_is_a_fault_in_words(tmp_path: Path) -> None:
    candidate = meters.Candidate("energino", "gone", {"device": str(tmp_path / "gone")})
    with pytest.raises(Fault, match="plugged in"):
        asyncio.run(meters.reading(candidate))


def test_a_port_that_says_nothing_ends_in_time() -> None:
    leader, follower = os.openpty()
    try:
        candidate = meters.Candidate("energino", "mute", {"device": os.ttyname(follower)})
        with pytest.raises(Fault, match="no reading"):
            asyncio.run(meters.reading(candidate, 0.05))
    finally:
        os.close(leader)
        os.close(follower)


# The check


def checking(tmp_path: Path, journal: Journal) -> api.Setup:
    file = tmp_path / "naproxy.toml"
    file.write_text(SERVER.replace("192.168.1.10", "127.0.0.1"))
    loaded = config.read(file)
    return api.Setup(lambda: loaded, file, journal, Office(MACHINES))


def test_the_check_is_what_the_doctor_finds(tmp_path: Path, journal: Journal) -> None:
    status = asyncio.run(job(checking(tmp_path, journal), "servers/web/doctor"))
    found = {each["name"]: each["verdict"] for each in status["result"]["checks"]}
    assert found["way_to_sleep"] == "problem"
    assert "wake_on_lan" not in found


def test_what_the_servers_script_did_not_print_is_said_to_be_that(
    tmp_path: Path, journal: Journal
) -> None:
    setup = checking(tmp_path, journal)
    for facts in ("rm -rf /", "naproxy-facts 1\n$(reboot)"):
        setup._jobs._started.clear()
        status = asyncio.run(job(setup, "servers/web/doctor", facts=facts))
        assert status["error"]["code"] == "setup.facts"


def test_the_script_for_the_servers_own_shell_is_given(tmp_path: Path, journal: Journal) -> None:
    made = asyncio.run(ask(checking(tmp_path, journal), "GET", "servers/web/facts-script"))
    assert made["script"].startswith("#!/bin/sh")
    assert "02:00:00:00:00:0a" in made["script"]
