"""The meters of a box, and `naproxy measure`. Devices are files and pseudo-terminals."""

import argparse
import asyncio
import json
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from box import Box
from meters import Line, line
from naproxy.api.command import CommandError
from naproxy.cli.__main__ import main
from naproxy.config import document as config
from naproxy.controller.meters import Meters
from naproxy.core.reading import PowerSample
from naproxy.core.reason import reason_of
from naproxy.core.state import State
from naproxy.drivers.metering import SETTLE_S
from naproxy.drivers.powermodel import Utilisation
from naproxy.lab.measure import measure
from naproxy.lab.measure.experiment import Phase
from naproxy.lab.measure.experimenting import listening
from samples import WEB

from tests.patience import wait_for

STEP_S = 0.1


def table(name: str, driver: str, of: str = "web", **keys: object) -> str:
    lines = [f"{key} = {json.dumps(value)}\n" for key, value in keys.items()]
    return f'[[meter]]\nid = "{name}"\nof = "{of}"\ndriver = "{driver}"\n{"".join(lines)}'


class Office:
    """Meters under a configuration; `powers` are simulated meters' files."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.states: dict[str, State] = {}
        self.seconds: list[tuple[str, PowerSample]] = []
        clock = asyncio.get_running_loop().time
        self.meters = Meters(1e9, self.states.get, clock)
        self.meters.sinks.append(lambda name, second: self.seconds.append((name, second)))

    def file(self, name: str, power: str) -> str:
        (self.directory / name).write_text(power)
        return str(self.directory / name)

    def simulated(self, name: str, power: str, **keys: object) -> str:
        file = self.file(name, power)
        return table(name, "simulated", file=file, interval_s=STEP_S, **keys)

    def use(self, text: str) -> None:
        loaded = config.parse(WEB + text)
        self.meters.use(loaded.meter, loaded.server)

    def status(self, name: str) -> dict[str, Any]:
        return next(m for m in self.meters.status() if m["id"] == name)

    def problem(self, name: str) -> str:
        problem = self.status(name)["problem"]
        return str(reason_of(problem)) if problem else ""

    async def until(self, true: Callable[[], bool]) -> None:
        async with asyncio.timeout(600):
            while not true():
                await asyncio.sleep(0.01)


@asynccontextmanager
async def metered(directory: Path) -> AsyncIterator[Office]:
    office = Office(directory)
    yield office
    office.meters.stop()


@pytest.fixture
def office(tmp_path: Path, leaping: None, enter: Callable[..., Office]) -> Office:
    return enter(metered(tmp_path))


async def test_two_meters_at_once_each_for_its_own(office: Office) -> None:
    office.use(office.simulated("a", "43.3") + office.simulated("b", "5.0", of="box"))
    await office.until(lambda: office.meters.power_w("box") is not None)
    await office.until(lambda: office.meters.power_w("web") is not None)
    assert office.meters.power_w("web") == 43.3
    assert office.meters.power_w("box") == 5.0
    assert office.meters.power_w("shop") is None


async def test_seconds_reach_the_sinks_and_the_energy_of_a_time_is_theirs(office: Office) -> None:
    office.use(office.simulated("a", "10"))
    await office.until(lambda: len(office.seconds) >= 2)
    name, second = office.seconds[1]
    assert (name, second.mean_mw, second.covered_ms) == ("a", 10000, 1000)
    assert second.t_s > 1e9
    found = office.meters.energy("web", second.t_s, second.t_s + 1)
    assert found
    assert (found.energy_j, found.covered_s) == (pytest.approx(10.0, rel=0.01), 1.0)
    assert office.meters.energy("web", 0, 10) is None


async def test_readings_that_stop_are_told_and_never_zero(office: Office) -> None:
    office.use(office.simulated("a", "10"))
    await office.until(lambda: len(office.seconds) >= 2)
    (office.directory / "a").unlink()
    await office.until(lambda: office.meters.power_w("web") is None)
    assert office.status("a")["power_w"] is None
    assert "no such file" in office.problem("a")
    assert "tries again every" in office.problem("a")
    assert all(second.mean_mw == 10000 for _, second in office.seconds)


async def test_a_meter_that_was_lost_is_heard_again(office: Office, said: list[str]) -> None:
    office.use(office.simulated("a", "10"))
    await office.until(lambda: office.meters.power_w("web") == 10)
    (office.directory / "a").unlink()
    await office.until(lambda: len(said) == 1)
    office.file("a", "12")
    await office.until(lambda: office.meters.power_w("web") == 12)
    assert said == [
        f"meter a: {office.directory}/a cannot be read: no such file or directory",
        "meter a: heard again",
    ]


async def test_a_lost_meter_is_tried_less_and_less_often(office: Office, said: list[str]) -> None:
    begun_s = office.meters.house_s()
    office.use(table("a", "energino", device="/dev/ttyNONE"))
    await office.until(lambda: office.status("a")["faults"].get("lost", 0) >= 7)
    assert office.meters.house_s() - begun_s == pytest.approx(1 + 2 + 4 + 8 + 16 + 30, abs=0.1)
    assert "every 30 s" in office.problem("a")
    assert len(said) == 1


ENERGINO = b"#Energino,0,12.0,1.000,12.00,0,50,101\n"


async def test_a_serial_meter_may_be_plugged_in_again(office: Office, said: list[str]) -> None:
    by_id = office.directory / "by-id"  # udev's name for whatever line it is at
    with line() as first, line() as second:
        by_id.symlink_to(first.path)
        office.use(table("a", "energino", device=str(by_id), interval_s=0.05))

        def talks(device: Line, power_w: float) -> bool:
            device.say(ENERGINO.replace(b"1.000,12.00", b"%.3f,%.2f" % (power_w / 12, power_w)))
            return office.meters.power_w("web") == power_w

        await office.until(lambda: talks(first, 12))
        by_id.unlink()
        by_id.symlink_to(second.path)
        first.unplug()
        await office.until(lambda: talks(second, 24))
    assert said[-1] == "meter a: heard again"


async def test_bad_lines_are_counted_and_the_port_stays_open(
    office: Office, said: list[str]
) -> None:
    with line() as device:
        office.use(table("a", "energino", device=device.path, interval_s=0.05))

        def talks() -> bool:
            device.say(b"\xff\xff\n" + ENERGINO)
            return office.meters.power_w("web") == 12

        await office.until(talks)
        assert set(office.status("a")["faults"]) == {"noise"}
        assert said == []


@pytest.mark.parametrize(
    ("power", "kind"), [("-20", "negative"), ("99999", "huge"), ("NaN", "not_a_number")]
)
async def test_an_impossible_power_is_not_a_reading(office: Office, power: str, kind: str) -> None:
    office.use(office.simulated("a", power))
    await office.until(lambda: office.status("a")["faults"].get(kind, 0) > 3)
    assert office.meters.power_w("web") is None
    assert office.seconds == []


async def test_the_adapters_loss_is_shown(office: Office) -> None:
    curve = {"adapter_w": [5.0, 20.0], "adapter_efficiency": [0.5, 0.8]}
    office.use(office.simulated("a", "20", **curve))
    await office.until(lambda: office.meters.power_w("web") is not None)
    assert office.meters.power_w("web") == pytest.approx(25.0)
    assert "its adapter's loss" in office.status("a")["measures"]


async def test_an_estimate_is_called_one_and_decides_nothing(office: Office) -> None:
    office.use(table("a", "simulated", interval_s=STEP_S))
    await office.until(lambda: office.status("a")["power_w"] == 43.3)
    assert office.status("a")["estimated"]
    assert office.meters.power_w("web") is None


async def test_a_meter_that_does_not_move_with_the_server_decides_nothing(office: Office) -> None:
    office.states["web"] = State.AWAKE
    office.use(office.simulated("a", "40"))
    await asyncio.sleep(3 * SETTLE_S)
    assert office.meters.power_w("web") == 40
    office.states["web"] = State.ASLEEP
    await office.until(lambda: "stuck" in office.problem("a"))
    assert office.meters.power_w("web") is None
    assert office.status("a")["power_w"] == 40


async def test_a_new_configuration_does_not_disturb_what_stays(office: Office) -> None:
    first = office.simulated("a", "10")
    office.use(first + office.simulated("b", "20"))
    await office.until(lambda: len(office.seconds) >= 2)
    office.use(first)
    assert [m["id"] for m in office.meters.status()] == ["a"]
    assert office.meters.power_w("web") == 10


# In the controller


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    if os.geteuid() != 0:
        pytest.skip("raw packets need root")
    box = Box(tmp_path_factory.mktemp("box"))
    power = box.directory / "watts"
    power.write_text("43.3")
    more = table("plug", "simulated", file=str(power), interval_s=STEP_S)
    more += table("guess", "simulated", of="box", interval_s=STEP_S)
    box.file.write_text(box.file.read_text() + more)
    box.start()
    yield box
    box.close()


def said(box: Box, since_s: float) -> dict[str, Any]:
    status, answer = box.call("GET", f"/v1/meters?since_s={since_s}")
    assert status == 200
    found: dict[str, Any] = answer
    return found


@pytest.mark.long
def test_commands_are_measured_by_the_seconds_of_the_controller(box: Box) -> None:
    wait_for(lambda: bool(said(box, 0)["seconds"]), "a second", log=box.log)
    socket = str(box.run_dir / "control.sock")
    args = argparse.Namespace(meter="plug", socket=socket, config=box.file)

    async def listen() -> Phase:
        async with listening(args) as feed:
            await feed.hear()
            start_s = int(feed.now_s())
            assert abs(start_s - time.time()) < 60
            return await feed.phase(start_s, start_s + 2)

    with pytest.raises(CommandError, match="web may be put to sleep while it idles"):
        asyncio.run(listen())
    assert box.naproxy("mode", "web", "awake").returncode == 0
    found = asyncio.run(listen())
    assert found.mean_w == pytest.approx(43.3)
    assert found.covered == pytest.approx(1, abs=0.01)


def test_the_controller_shows_and_keeps_what_meters_say(box: Box) -> None:
    wait_for(lambda: len(said(box, 0)["seconds"]) >= 6, "three seconds", log=box.log)
    answer = said(box, 0)
    plug = next(m for m in answer["meters"] if m["id"] == "plug")
    assert (plug["of"], plug["power_w"], plug["estimated"]) == ("web", 43.3, False)
    assert plug["problem"] is None
    newest_s = max(second["t_s"] for second in answer["seconds"])
    assert abs(newest_s - time.time()) < 60
    assert all(second["t_s"] > newest_s for second in said(box, newest_s)["seconds"])
    shown = box.naproxy("status").stdout
    assert "draws 43.3 W, by plug: what a file says" in shown
    assert "box" in shown
    assert "estimated to draw 43.3 W, by guess" in shown

    def live() -> set[str]:
        rows = box.naproxy("measure", "plug", "--seconds", "3", "--json").stdout.splitlines()
        return {json.loads(row)["meter"] for row in rows}

    wait_for(lambda: live() == {"plug"}, "a second of the meter that was asked for", log=box.log)
    assert box.end() == 0
    with sqlite3.connect(box.data_dir / "history.db") as history:
        kept = history.execute(
            "SELECT name FROM minutes JOIN meters ON key & 63 = meters.id WHERE energy_mj > 0"
        ).fetchall()
    assert {name for (name,) in kept} == {"plug", "guess"}


# naproxy measure, without a controller


@pytest.fixture
def measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Run `naproxy measure` with these arguments; returns its status and what it says."""
    (tmp_path / "w").write_text("17.5")
    text = table("plug", "simulated", file=str(tmp_path / "w"), interval_s=STEP_S)
    text += table("guess", "model", source="local", interval_s=STEP_S)
    file = tmp_path / "naproxy.toml"

    def run(*arguments: str, meters: str = text) -> tuple[int, str]:
        file.write_text(WEB + meters)
        more = ("--config", str(file), "--socket", "/nonexistent")
        status = main(["measure", *arguments, *more])
        found = capsys.readouterr()
        return status, found.out + found.err

    return run


def test_measure_opens_the_meter_itself_where_no_controller_runs(
    measured: Callable[..., tuple[int, str]],
) -> None:
    status, said = measured("plug", "--seconds", "2")
    assert status == 0, said
    assert "  plug     17.500 W  (17.500 to 17.500)" in said


def test_measure_says_what_is_wrong(measured: Callable[..., tuple[int, str]]) -> None:
    for arguments, words in (
        (("nope",), "there is no meter nope, only plug, guess"),
        (("plug", "--fit", "plug"), 'plug is not a meter with driver = "model"'),
        (("--fit", "guess"), "say which meter to fit against"),
        (("plug", "--fit", "guess", "--seconds", "2"), "naproxy measure: "),
    ):
        status, said = measured(*arguments)
        assert (status, words in said) == (1, True), said
    assert "no meter is configured" in measured(meters="")[1]


def test_utilisation_is_paired_with_the_power_of_its_own_interval() -> None:
    used = [(100.0 + n, Utilisation(n / 10, 0, 0, 0)) for n in range(4)]
    found = measure.paired({100: 10.0, 101: 20.0, 200: 99.0}, used)
    assert found == [(used[1][1], 10.0), (used[2][1], 20.0)]
