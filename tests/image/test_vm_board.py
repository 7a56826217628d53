"""What the image test asks of a board, and what a box tells of its drivers."""

from pathlib import Path
from typing import ClassVar

from naproxy.drivers.needs import Needs

from tests.image_vm import on_the_box
from tests.simulator.office.namespace import ROOT


class Settings:
    """A driver that needs what is here, and as much that is not."""

    needs: ClassVar[Needs] = Needs(
        programs={"sh": "", "no-such-program": ""},
        modules={"json": "", "no_such_module": ""},
        kernel=("USB_ACM", "I2C_CHARDEV"),
        devices=("/dev/nul*", "/dev/no-such-device*", "/dev/not-asked-for*"),
    )


def test_what_a_driver_lacks_is_told() -> None:
    has = {"/dev/nul*", "/dev/no-such-device*"}
    told = "\n".join(on_the_box.missing(Settings, {"USB_ACM"}, has))
    for lacking in ("no-such-program", "no_such_module", "I2C_CHARDEV", "no-such-device"):
        assert lacking in told
    assert len(told.splitlines()) == 4


def test_a_program_without_its_libraries_is_not_started() -> None:
    assert on_the_box.not_started("false") == ""
    assert on_the_box.not_started("/") != ""


def test_each_service_of_the_image_has_a_question() -> None:
    there = {folder.name for folder in (ROOT / "overlay/etc/service").iterdir()}
    assert set(on_the_box.questions("www.office.example")) == there


def test_a_program_that_calls_itself_broken_does_not_start(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho 'FATAL ERROR: invalid code detected'\n")
    broken.chmod(0o755)
    assert "invalid code" in on_the_box.not_started(broken)


def test_scripts_of_the_shell_are_not_started_by_chance(tmp_path: Path) -> None:
    shell, python = tmp_path / "shell", tmp_path / "python"
    shell.write_text("#!/bin/sh\n")
    python.write_text("#!/usr/bin/env python3\n")
    for file in (shell, python):
        file.chmod(0o755)
    assert not on_the_box.ours(shell)
    assert on_the_box.ours(python)
    assert on_the_box.ours(Path("/bin/true"))
