"""Every driver that the settings offer finds on each board's image what it needs.

What it needs stands beside the driver, what brings it to the image here: the program, the Python
module or the kernel's option by name. `make test-image` starts the programs on the image.
"""

import re

import pytest
from naproxy import drivers
from naproxy.drivers.needs import Needs

from tests.image.standin import TOP
from tests.image.test_defconfig import BOARDS, merged

KINDS: tuple[drivers.Kind, ...] = ("sleep", "wake", "ready", "meter")
BROUGHT_BY = {
    "etherwake": {"BR2_PACKAGE_NAPROXY"},  # selects it
    "gpioset": {"BR2_PACKAGE_LIBGPIOD2", "BR2_PACKAGE_LIBGPIOD2_TOOLS"},
    "ipmitool": {"BR2_PACKAGE_IPMITOOL", "BR2_PACKAGE_IPMITOOL_LANPLUS"},
    "smbus": {"BR2_PACKAGE_I2C_TOOLS", "BR2_PACKAGE_PYTHON3"},
    "snmpget": {"BR2_PACKAGE_NETSNMP"},  # its clients are there unless they are taken out
    "ssh": {"BR2_PACKAGE_OPENSSH"},  # the same
}
"""Buildroot's symbols for each program and module."""


def needs() -> dict[str, Needs]:
    """Return what each driver needs, by kind and name."""
    return {
        f"{kind} {name}": getattr(drivers.settings(kind, name), "needs", Needs())
        for kind in KINDS
        for name in drivers.names(kind)
    }


def image(board: str) -> set[str]:
    """Return the symbols that are set in a board's configuration, and in its kernel's."""
    text = merged(board)
    found = set(re.findall(r"^(BR2_\w+)=", text, re.MULTILINE))
    for name in re.findall(r"\.\./(board/\S+?)[ \"]", text):
        if name.endswith((".fragment", "linux.config")):
            found |= set(re.findall(r"^(CONFIG_\w+)=[ym]$", (TOP / name).read_text(), re.MULTILINE))
    return found


@pytest.mark.parametrize("board", BOARDS)
def test_an_image_has_what_its_drivers_need(board: str) -> None:
    there, missing = image(board), []
    for driver, need in needs().items():
        wanted = {f"CONFIG_{option}" for option in need.kernel}
        for name in (*need.programs, *need.modules):
            wanted |= BROUGHT_BY[name]
        missing += [f"{driver}: {symbol}" for symbol in sorted(wanted - there)]
    assert missing == []


def test_nothing_is_brought_that_no_driver_needs() -> None:
    used = {name for need in needs().values() for name in (*need.programs, *need.modules)}
    assert set(BROUGHT_BY) == used
