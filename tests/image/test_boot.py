"""Which of the two systems U-Boot's script chooses; for GRUB test_grub.py asks GRUB itself.

U-Boot's shell is so near to the POSIX shell that it runs the script here with the boot
loader's commands as functions. What only the real one shows (word splitting, its built-in
`test`) is not shown.
"""

import re
import subprocess
from pathlib import Path

import pytest

COMMON = Path(__file__).resolve().parents[2] / "board/common"

UBOOT = """
setenv() { n=$1; shift; eval "$n=\\$*"; }
setexpr() { eval "$1=$(($2 $3 $4))"; }
saveenv() { for v in BOOT_ORDER BOOT_A_LEFT BOOT_B_LEFT; do eval "echo env \\"$v=\\$$v\\""; done; }
load() { [ -z "$BROKEN" ] || [ "$2" != "$BROKEN" ]; }
booti() { echo "start $bootargs"; exit; }
reset() { echo reboot; exit; }
devtype=mmc devnum=0 fdtfile=board.dtb
"""


def render(board: str, template: str) -> str:
    return subprocess.run(
        [COMMON / "render", board, COMMON / template], check=True, capture_output=True, text=True
    ).stdout


class Box:
    """A box that is switched on again and again; `env` is what its boot loader remembers."""

    def __init__(self, script: str, env: dict[str, str]) -> None:
        self.script = script
        self.env = env

    def boot(self, broken: str = "") -> str:
        """Give the partition's number and the slot that start, or `reboot`."""
        done = subprocess.run(
            ["/bin/sh", "-c", self.script],
            env=self.env | {"BROKEN": broken, "PATH": "/usr/bin:/bin"},
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.stderr == ""
        self.env |= dict(re.findall(r"^env (\w+)=(.*)$", done.stdout, re.M))
        last = done.stdout.splitlines()[-1]
        if last == "reboot":
            return last
        return last.removeprefix("start ")


def uboot(**env: str) -> Box:
    text = render("raspberrypi4-64", "boot.cmd")
    text = text.replace('in "${BOOT_ORDER}"', "in ${BOOT_ORDER}")
    text = re.sub(
        r'setenv bootargs "root=(\S+) .*rauc.slot=(\S+) .*"', r'setenv bootargs "\1 \2"', text
    )
    return Box(UBOOT + text, env)


A_PI, B_PI = "/dev/mmcblk0p2 A", "/dev/mmcblk0p3 B"


def test_uboot_starts_a_with_a_lost_environment() -> None:
    assert uboot().boot() == A_PI


def test_uboot_starts_what_was_installed_last() -> None:
    assert uboot(BOOT_ORDER="B A", BOOT_A_LEFT="3", BOOT_B_LEFT="3").boot() == B_PI


def test_uboot_falls_back_after_three_starts_that_were_not_confirmed() -> None:
    box = uboot(BOOT_ORDER="B A", BOOT_A_LEFT="3", BOOT_B_LEFT="3")
    assert [box.boot() for _ in range(4)] == [B_PI] * 3 + [A_PI]


def test_uboot_does_not_start_a_system_that_is_half_written() -> None:
    box = uboot(BOOT_ORDER="A", BOOT_A_LEFT="3", BOOT_B_LEFT="0")
    seen = {box.boot() for _ in range(8)}
    assert seen == {A_PI, "reboot"}


def test_uboot_counts_a_system_without_a_kernel_as_tried() -> None:
    box = uboot(BOOT_ORDER="B A", BOOT_A_LEFT="3", BOOT_B_LEFT="1")
    assert [box.boot(broken="0:3"), box.boot()] == ["reboot", A_PI]


def test_uboot_gives_tries_back_when_both_have_none() -> None:
    box = uboot(BOOT_ORDER="B A", BOOT_A_LEFT="0", BOOT_B_LEFT="0")
    assert [box.boot(), box.boot()] == ["reboot", B_PI]


@pytest.mark.parametrize("value", ["render: no board toaster"])
def test_a_template_for_an_unknown_board_is_refused(value: str) -> None:
    done = subprocess.run(
        [COMMON / "render", "toaster", COMMON / "grub.cfg"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr.strip()) == (1, value)


def test_a_value_a_board_lacks_is_named() -> None:
    done = subprocess.run(
        [COMMON / "render", "raspberrypi4-64", COMMON / "grub.cfg"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "@BAUD@" in done.stderr
