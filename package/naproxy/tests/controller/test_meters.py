"""The meters of a box, and `naproxy measure`. Devices are files and pseudo-terminals."""

import argparse
import asyncio
import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from box import Box, wait_for
from meters import Line, line
from naproxy.api.command import CommandError
from naproxy.config import document as config
from naproxy.controller import meters
from naproxy.controller.meters import Meters
from naproxy.core.reading import PowerSample
from naproxy.core.reason import reason_of
from naproxy.core.state import State
from naproxy.drivers.meter import Reading
from naproxy.drivers.metering import Watch
from naproxy.drivers.powermodel import Utilisation
from naproxy.lab.measure import measure
from naproxy.lab.measure.experiment import Phase
from naproxy.lab.measure.experimenting import listening

SERVER = '[[server]]\nid = "web"\naddress = "127.0.0.1"\nmac = "02:00:00:00:00:01"\n'
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
        self.meters = Meters(1e9, self.states.get)
        self.meters.sinks.append(lambda name, second: self.seconds.append((name, second)))

    def file(self, name: str, power: str) -> str:
        (self.directory / name).write_text(power)
        return str(self.directory / name)

    def simulated(self, name: str, power: str, **keys: object) -> str:
        file = self.file(name, power)
        return table(name, "simulated", file=file, interval_s=STEP_S, **keys)

    def use(self, text: str) -> None:
        loaded = config.parse(SERVER + text)
        self.meters.use(loaded.meter, loaded.server)

    def status(self, name: str) -> dict[str, Any]:
        return next(m for m in self.meters.status() if m["id"] == name)

    def problem(self, name: str) -> str:
        problem = self.status(name)["problem"]
        return str(reason_of(problem)) if problem else ""

    async def until(self, true: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not true():
                await asyncio.sleep(0.01)


def play(directory: Path, story: Callable[[Office], Awaitable[None]]) -> Office:
    async def run() -> Office:
        office = Office(directory)
        try:
            await story(office)
        finally:
            office.meters.stop()
        return office

    return asyncio.run(run())


def test_two_meters_at_once_each_for_its_own(tmp_path: Path) -> None:
    async def story(office: Office) -> None:
        office.use(office.simulated("a", "43.3") + office.simulated("b", "5.0", of="box"))
        await office.until(lambda: office.meters.power_w("box") is not None)
        await office.until(lambda: office.meters.power_w("web") is not None)
        assert office.meters.power_w("web") == 43.3
        assert office.meters.power_w("box") == 5.0
        assert office.meters.power_w("shop") is None

    play(tmp_path, story)


def test_seconds_reach_the_sinks_with_the_meters_name(tmp_path: Path) -> None:
    async def story(office: Office) -> None:
        office.use(office.simulated("a", "10"))
        await office.until(lambda: len(office.seconds) >= 2)

    office = play(tmp_path, story)
    name, second = office.seconds[1]
    assert (name, second.mean_mw) == ("a", 10000)
    assert second.t_s > 1e9
    assert second.covered_ms == 1000


def test_energy_between_two_times_is_what_was_measured(tmp_path: Path) -> None:
    async def story(office: Office) -> None:
        office.use(office.simulated("a", "10"))
        await office.until(lambda: len(office.seconds) >= 2)
        [_, (_, second)] = office.seconds[:2]
        found = office.meters.energy("web", second.t_s, second.t_s + 1)
        assert found
        assert (found.energy_j, found.covered_s) == (pytest.approx(10.0, rel=0.01), 1.0)
        assert office.meters.energy("web", 0, 10) is None

    play(tmp_path, story)


def test_readings_that_stop_are_told_and_never_zero(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meters, "patience_s", lambda _: 0.3)

    async def story(office: Office) -> None:
        office.use(office.simulated("a", "10"))
        await office.until(lambda: office.meters.power_w("web") == 10)
        (tmp_path / "a").unlink()
        await office.until(lambda: office.meters.power_w("web") is None)
        assert office.status("a")["power_w"] is None
        assert "no such file" in office.problem("a")
        assert "tries again every" in office.problem("a")

    office = play(tmp_path, story)
    assert all(second.mean_mw == 10000 for _, second in office.seconds)


def test_a_meter_that_was_lost_is_heard_again(
    tmp_path: Path, monkeypatch: Any, said: list[str]
) -> None:
    monkeypatch.setattr(meters, "FIRST_WAIT_S", 0.05)

    async def story(office: Office) -> None:
        office.use(office.simulated("a", "10"))
        await office.until(lambda: office.meters.power_w("web") == 10)
        (tmp_path / "a").unlink()
        await office.until(lambda: len(said) == 1)
        office.file("a", "12")
        await office.until(lambda: office.meters.power_w("web") == 12)

    play(tmp_path, story)
    assert said == [
        f"meter a: {tmp_path}/a cannot be read: no such file or directory",
        "meter a: heard again",
    ]


def test_a_lost_meter_is_looked_for_less_and_less_often(
    tmp_path: Path, monkeypatch: Any, said: list[str]
) -> None:
    monkeypatch.setattr(meters, "FIRST_WAIT_S", 0.01)
    monkeypatch.setattr(meters, "MOST_WAIT_S", 0.16)

    async def story(office: Office) -> None:
        office.use(table("a", "energino", device="/dev/ttyNONE"))
        await office.until(lambda: office.status("a")["faults"].get("lost", 0) >= 7)
        assert "every 0.2 s" in office.problem("a")

    begun_s = time.monotonic()
    play(tmp_path, story)
    assert time.monotonic() - begun_s >= 0.01 * (2 + 4 + 8 + 16 + 16)
    assert len(said) == 1


ENERGINO = b"#Energino,0,12.0,1.000,12.00,0,50,101\n"


class Cable:
    """A name for a port, which may be plugged into another line: udev's by-id."""

    def __init__(self, path: Path, device: Line) -> None:
        self.path = path
        self.plug(device)

    def plug(self, device: Line) -> None:
        self.path.unlink(missing_ok=True)
        self.path.symlink_to(device.path)


def test_a_serial_meter_may_be_plugged_in_again(
    tmp_path: Path, monkeypatch: Any, said: list[str]
) -> None:
    monkeypatch.setattr(meters, "FIRST_WAIT_S", 0.05)

    async def story(office: Office) -> None:
        with line() as first, line() as second:
            cable = Cable(tmp_path / "by-id", first)
            office.use(table("a", "energino", device=str(cable.path), period_s=0.05))

            def talks(device: Line, power_w: float) -> bool:
                device.say(ENERGINO.replace(b"1.000,12.00", b"%.3f,%.2f" % (power_w / 12, power_w)))
                return office.meters.power_w("web") == power_w

            await office.until(lambda: talks(first, 12))
            cable.plug(second)
            first.unplug()
            await office.until(lambda: talks(second, 24))

    play(tmp_path, story)
    assert said[-1] == "meter a: heard again"


def test_bad_lines_are_counted_and_do_not_close_the_port(tmp_path: Path, said: list[str]) -> None:
    async def story(office: Office) -> None:
        with line() as device:
            office.use(table("a", "energino", device=device.path, period_s=0.05))

            def talks() -> bool:
                device.say(b"\xff\xff\n" + ENERGINO)
                return office.meters.power_w("web") == 12

            await office.until(talks)
            faults = office.status("a")["faults"]
            assert set(faults) == {"noise"}
            assert said == []

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("power", "kind"), [("-20", "negative"), ("99999", "huge"), ("NaN", "not_a_number")]
)
def test_a_power_that_cannot_be_is_no_reading(tmp_path: Path, power: str, kind: str) -> None:
    async def story(office: Office) -> None:
        office.use(office.simulated("a", power))
        await office.until(lambda: office.status("a")["faults"].get(kind, 0) > 0)
        assert office.meters.power_w("web") is None

    assert play(tmp_path, story).seconds == []


def test_the_adapters_loss_is_shown(tmp_path: Path) -> None:
    async def story(office: Office) -> None:
        curve = {"adapter_w": [5.0, 20.0], "adapter_efficiency": [0.5, 0.8]}
        office.use(office.simulated("a", "20", **curve))
        await office.until(lambda: office.meters.power_w("web") is not None)
        assert office.meters.power_w("web") == pytest.approx(25.0)
        assert "its adapter's loss" in office.status("a")["measures"]

    play(tmp_path, story)


def test_an_estimate_is_called_one_and_decides_nothing(tmp_path: Path) -> None:
    async def story(office: Office) -> None:
        office.use(table("a", "simulated", interval_s=STEP_S))
        await office.until(lambda: office.status("a")["power_w"] == 43.3)
        assert office.status("a")["estimated"]
        assert office.meters.power_w("web") is None

    play(tmp_path, story)


def test_a_meter_that_does_not_move_with_the_server_decides_nothing(
    tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr("naproxy.drivers.metering.SETTLE_S", 0.2)
    taken: list[float] = []
    take = Watch.reading

    def reading(self: Watch, t_s: float, read: Reading) -> None:
        taken.append(t_s)
        take(self, t_s, read)

    monkeypatch.setattr(Watch, "reading", reading)

    async def story(office: Office) -> None:
        office.states["web"] = State.AWAKE
        office.use(office.simulated("a", "40"))
        await office.until(lambda: office.meters.power_w("web") == 40)
        await office.until(lambda: len(taken) >= 10 and taken[-1] - taken[0] > 0.8)
        office.states["web"] = State.ASLEEP
        await office.until(lambda: "stuck" in office.problem("a"))
        assert office.meters.power_w("web") is None
        assert office.status("a")["power_w"] == 40

    play(tmp_path, story)


def test_a_new_configuration_does_not_disturb_what_stays(tmp_path: Path) -> None:
    async def story(office: Office) -> None:
        first = office.simulated("a", "10")
        office.use(first + office.simulated("b", "20"))
        await office.until(lambda: len(office.seconds) >= 2)
        office.use(first)
        assert [m["id"] for m in office.meters.status()] == ["a"]
        assert office.meters.power_w("web") == 10

    play(tmp_path, story)


# In the controller


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    if os.geteuid() != 0:
        pytest.skip("raw packets need root")
    box = Box(tmp_path)
    power = tmp_path / "watts"
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


def test_the_controller_shows_and_keeps_what_meters_say(box: Box) -> None:
    wait_for("three seconds", lambda: len(said(box, 0)["seconds"]) >= 6, box.log)
    answer = said(box, 0)
    plug = next(m for m in answer["meters"] if m["id"] == "plug")
    assert (plug["of"], plug["power_w"], plug["estimated"]) == ("web", 43.3, False)
    assert plug["problem"] is None
    newest_s = max(second["t_s"] for second in answer["seconds"])
    assert abs(newest_s - time.time()) < 5
    assert all(second["t_s"] > newest_s for second in said(box, newest_s)["seconds"])
    shown = box.naproxy("status").stdout
    assert "draws 43.3 W, by plug: what a file says" in shown
    assert "box" in shown
    assert "estimated to draw 43.3 W, by guess" in shown
    live = box.naproxy("measure", "plug", "--seconds", "3", "--json").stdout.splitlines()
    assert {json.loads(row)["meter"] for row in live} == {"plug"}
    wrong = box.naproxy("measure", "nope", "--seconds", "3")
    assert wrong.stderr == "naproxy measure: there is no meter nope, only plug, guess\n"
    assert box.end() == 0
    with sqlite3.connect(box.data_dir / "history.db") as history:
        kept = history.execute(
            "SELECT name FROM minutes JOIN meters ON key & 63 = meters.id WHERE energy_mj > 0"
        ).fetchall()
    assert {name for (name,) in kept} == {"plug", "guess"}


def test_commands_are_measured_by_the_seconds_of_the_controller(box: Box) -> None:
    wait_for("a second", lambda: bool(said(box, 0)["seconds"]), box.log)
    socket = str(box.run_dir / "control.sock")
    args = argparse.Namespace(meter="plug", socket=socket, config=box.file)

    async def listen() -> Phase:
        async with listening(args) as feed:
            await feed.hear()
            start_s = int(feed.now_s())
            assert abs(start_s - time.time()) < 5
            return await feed.phase(start_s, start_s + 2)

    with pytest.raises(CommandError, match="web may be put to sleep while it idles"):
        asyncio.run(listen())
    assert box.naproxy("mode", "web", "awake").returncode == 0
    found = asyncio.run(listen())
    assert found.mean_w == pytest.approx(43.3)
    assert found.covered == pytest.approx(1, abs=0.01)


# naproxy measure, without a controller


def naproxy(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "naproxy.cli", *arguments, "--socket", "/nonexistent"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "w").write_text("17.5")
    text = table("plug", "simulated", file=str(tmp_path / "w"), interval_s=STEP_S)
    text += table("guess", "model", source="local", interval_s=STEP_S)
    (tmp_path / "naproxy.toml").write_text(SERVER + text)
    return tmp_path / "naproxy.toml"


def test_measure_opens_the_meter_itself_where_no_controller_runs(file: Path) -> None:
    done = naproxy("measure", "plug", "--seconds", "3", "--config", str(file))
    assert done.returncode == 0, done.stderr
    assert "  plug     17.500 W  (17.500 to 17.500)" in done.stdout


def test_measure_says_that_the_load_must_vary(file: Path) -> None:
    done = naproxy("measure", "plug", "--fit", "guess", "--seconds", "2", "--config", str(file))
    assert done.returncode == 1
    assert "naproxy measure: " in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nope",), "there is no meter nope, only plug, guess"),
        (("plug", "--fit", "plug"), 'plug is not a meter with driver = "model"'),
        (("--fit", "guess"), "say which meter to fit against"),
    ],
)
def test_measure_says_what_is_wrong(file: Path, arguments: tuple[str, ...], words: str) -> None:
    done = naproxy("measure", *arguments, "--config", str(file))
    assert (done.returncode, words in done.stderr) == (1, True), done.stderr


def test_measure_without_meters_says_so(tmp_path: Path) -> None:
    (tmp_path / "naproxy.toml").write_text(SERVER)
    done = naproxy("measure", "--config", str(tmp_path / "naproxy.toml"))
    assert "no meter is configured" in done.stderr


def test_utilisation_is_paired_with_the_power_of_its_own_interval() -> None:
    used = [(100.0 + n, Utilisation(n / 10, 0, 0, 0)) for n in range(4)]
    found = measure.paired({100: 10.0, 101: 20.0, 200: 99.0}, used)
    assert found == [(used[1][1], 10.0), (used[2][1], 20.0)]
