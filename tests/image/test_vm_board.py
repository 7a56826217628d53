"""What the image test asks of a board, and what a box tells of its drivers."""

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
