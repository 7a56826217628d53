"""Templates with a board's values in them."""

import subprocess
from pathlib import Path

COMMON = Path(__file__).resolve().parents[2] / "board/common"


def test_a_template_for_an_unknown_board_is_refused() -> None:
    done = subprocess.run(
        [COMMON / "render", "toaster", COMMON / "grub.cfg"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr.strip()) == (1, "render: no board toaster")


def test_a_value_a_board_lacks_is_named() -> None:
    done = subprocess.run(
        [COMMON / "render", "raspberrypi4-64", COMMON / "grub.cfg"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "@BAUD@" in done.stderr
