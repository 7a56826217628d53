"""MicroPython and the firmware are put on a Pico that is plugged in."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from naproxy.api.jobs import JobError, Progress
from naproxy.cli import meter
from naproxy.controller.meters import Meters
from naproxy.drivers.meter.ina219 import Settings
from naproxy.setup.pico import Picos
from naproxy_meter import firmware

from tests.pico.board import PLACE, Board, uf2
from tests.pico.conftest import Plug

PROGRAM = b"print(6 * 7)\n"


@asynccontextmanager
async def nobody(_port: str) -> AsyncIterator[None]:
    yield


def picos(board: Board, folder: Path, **more: Any) -> Picos:
    built = folder / "micropython.uf2"
    built.write_bytes(uf2())
    return Picos(folder / "data", nobody, board.usb, built=built, restart_s=60, **more)


def installed(board: Board, folder: Path, *, replace: bool = False) -> dict[str, Any]:
    done = picos(board, folder).install(PLACE, Progress(), replace=replace)
    return asyncio.run(done)


def refused(board: Board, folder: Path, *, replace: bool = False) -> str:
    with pytest.raises(JobError) as error:
        installed(board, folder, replace=replace)
    return error.value.reason.code


def has(board: Board, version: str = firmware.VERSION, folder: str = "meter_a") -> None:
    """The board has a firmware of this version, and settings."""
    for path, data in firmware.modules().items():
        file = board.flash / folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data.replace(firmware.VERSION.encode(), version.encode()))
    (board.flash / "main.py").write_bytes(firmware.main(folder))


def test_a_new_pico_gets_micropython_by_its_drive_and_the_firmware_by_its_port(
    plug: Plug, tmp_path: Path
) -> None:
    board = plug(boot=True)
    told = installed(board, tmp_path)
    assert told == {"version": firmware.VERSION, "port": board.port}
    assert b"MicroPython v1.27.0" in board.programmed
    assert board.starts == ["boot", "repl", "main"]


def test_an_update_keeps_the_calibration(plug: Plug, tmp_path: Path) -> None:
    board = plug(before=lambda made: has(made, "0.9.0"))
    asyncio.run(picos(board, tmp_path).calibrate(board.port, 15.0, Progress(), 1.0))
    kept = (board.flash / "meter.settings").read_bytes()
    assert installed(board, tmp_path)["version"] == firmware.VERSION
    assert b"/meter_b" in (board.flash / "main.py").read_bytes()
    assert (board.flash / "meter.settings").read_bytes() == kept


@pytest.mark.parametrize("after_bytes", [900, 20_000])
def test_a_transfer_that_is_cut_leaves_the_firmware_before(
    plug: Plug, tmp_path: Path, after_bytes: int
) -> None:
    board = plug(before=lambda made: has(made, "0.9.0"))
    start = (board.flash / "main.py").read_bytes()
    board.cut_after = after_bytes
    with pytest.raises(JobError):
        installed(board, tmp_path)
    board.wait_for(3)
    assert board.starts[-1] == "main"
    assert (board.flash / "main.py").read_bytes() == start
    assert installed(board, tmp_path)["version"] == firmware.VERSION


def test_a_strangers_program_is_replaced_only_if_that_is_wanted(plug: Plug, tmp_path: Path) -> None:
    board = plug()
    (board.flash / "main.py").write_bytes(PROGRAM)
    board.pull()
    assert refused(board, tmp_path) == "pico.foreign"
    assert (board.flash / "main.py").read_bytes() == PROGRAM
    board.wait_for(3)  # it was started again
    assert installed(board, tmp_path, replace=True)["version"] == firmware.VERSION


def test_a_micropython_that_is_too_old_is_replaced_through_the_boot_rom(
    plug: Plug, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []

    def numbers(version: str) -> tuple[int, ...]:
        looked.append(version)
        # The file's is new enough, that of the board only once it was written.
        return (1, 27) if len(looked) > 1 else (1, 20)

    board = plug()
    monkeypatch.setattr("naproxy.setup.pico._numbers", numbers)
    assert installed(board, tmp_path)["version"] == firmware.VERSION
    assert board.starts == ["repl", "boot", "repl", "main"]
    assert b"MicroPython v1.27.0" in board.programmed


def test_the_other_boards_are_refused(plug: Plug, tmp_path: Path) -> None:
    board = plug(environment={"BOARD": "Raspberry Pi Pico 2 with RP2350"})
    assert refused(board, tmp_path) == "pico.other_board"
    assert list(board.flash.iterdir()) == []


def test_without_micropython_on_the_box_that_is_said(plug: Plug, tmp_path: Path) -> None:
    board = plug(boot=True)
    there = Picos(tmp_path, nobody, board.usb, built=tmp_path / "none")
    assert there.told({})["micropython"] is None
    with pytest.raises(JobError) as error:
        asyncio.run(there.install(PLACE, Progress(), replace=False))
    assert error.value.reason.code == "pico.no_micropython"
    assert board.starts == ["boot"]


def test_a_drive_that_is_no_picos_is_not_written_to(plug: Plug, tmp_path: Path) -> None:
    board = plug(boot=True)
    drive = board.nodes / "sda"
    drive.write_bytes(drive.read_bytes().replace(b"RPI-RP2", b"PHOTOS "))
    before = drive.read_bytes()
    assert refused(board, tmp_path) == "pico.drive_other"
    assert drive.read_bytes() == before


def test_a_meter_lets_go_of_its_port_and_is_heard_again_with_its_new_version(
    plug: Plug, tmp_path: Path
) -> None:
    board = plug(before=lambda made: has(made, "0.9.0"))

    async def heard(meters: Meters, version: str) -> None:
        async with asyncio.timeout(60):
            while [port[1] for port in meters.ports().values()] != [version] or (
                meters.status()[0]["power_w"] is None
            ):
                await asyncio.sleep(0.02)

    async def story() -> None:
        meters = Meters()
        meters.use([Settings(id="feed", of="box", device=board.port)], [])
        await heard(meters, "0.9.0")
        made = picos(board, tmp_path)
        made._lend = meters.lent
        await made.install(PLACE, Progress(), replace=False)
        await heard(meters, firmware.VERSION)
        [told] = made.told(meters.ports())["picos"]
        assert (told["meter"], told["version"]) == ("feed", firmware.VERSION)
        meters.stop()
        await asyncio.sleep(0)

    asyncio.run(story())


def calibrated(board: Board, folder: Path, load_w: float | None) -> dict[str, Any]:
    return asyncio.run(picos(board, folder).calibrate(board.port, load_w, Progress(), 1.0))


def test_a_known_load_sets_the_shunt(plug: Plug, tmp_path: Path) -> None:
    board = plug(before=has)
    told = calibrated(board, tmp_path, 15.0)
    assert told == {"setting": "shunt_uohm", "before": 100000, "now": 80000}
    assert calibrated(board, tmp_path, 15.0)["now"] == 80000, "now it is right"


def test_at_rest_what_the_chip_shows_becomes_nothing(plug: Plug, tmp_path: Path) -> None:
    board = plug(before=has, environment={"WATTS": "0.012"})
    assert calibrated(board, tmp_path, None)["now"] == 10


@pytest.mark.parametrize(
    ("watts", "load_w", "code"),
    [
        ("12", None, "pico.not_at_rest"),
        ("0.012", 15.0, "pico.too_little"),
        ("-12", 15.0, "pico.too_little"),
        ("40", 15.0, "pico.beyond"),
        ("12", 0.01, "pico.no_such_shunt"),
    ],
)
def test_what_does_not_fit_calibrates_nothing(
    plug: Plug, tmp_path: Path, watts: str, load_w: float | None, code: str
) -> None:
    board = plug(before=has, environment={"WATTS": watts})
    with pytest.raises(JobError) as error:
        calibrated(board, tmp_path, load_w)
    assert error.value.reason.code == code
    assert not (board.flash / "meter.settings").exists()


def test_the_command_lists_what_is_plugged_in(plug: Plug, tmp_path: Path) -> None:
    board = plug(before=has)
    told = picos(board, tmp_path).told({os.path.realpath(board.port): ("feed", "0.9.0")})
    assert meter.describe(told) == [
        f"on the box: firmware {firmware.VERSION}, MicroPython 1.27.0",
        f"{PLACE}: meter feed, firmware 0.9.0, {board.port}",
    ]
