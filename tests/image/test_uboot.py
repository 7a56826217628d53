"""Which of the two systems the real U-Boot chooses with our script, in QEMU."""

from pathlib import Path

import pytest

from tests.image.uboot_disk import BOARD, NAMES, Disk, missing

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "")

UPDATED = {"BOOT_ORDER": "B A", "BOOT_A_LEFT": "3", "BOOT_B_LEFT": "3"}
HALF = {"BOOT_ORDER": "A", "BOOT_A_LEFT": "3", "BOOT_B_LEFT": "0"}
"""As RAUC leaves it while it writes B."""


def test_without_a_memory_a_has_three_tries_then_b_then_a_again(tmp_path: Path) -> None:
    assert Disk(tmp_path).boot(7) == "AAABBBA"


def test_an_update_has_three_tries_then_the_other_then_all_again(tmp_path: Path) -> None:
    assert Disk(tmp_path, **UPDATED).boot(7) == "BBBAAAB"


@pytest.mark.long
def test_a_system_that_was_not_written_waits_until_the_other_has_failed(tmp_path: Path) -> None:
    disk = Disk(tmp_path, **HALF)
    disk.write_system("B", whole=False)
    assert disk.boot(7) == "AAAAAAA"


@pytest.mark.long
def test_a_system_that_was_called_bad_comes_when_the_other_fails(tmp_path: Path) -> None:
    assert Disk(tmp_path, **HALF).boot(7) == "AAAAAAB"


def test_a_system_without_a_kernel_is_passed_over(tmp_path: Path) -> None:
    disk = Disk(tmp_path, **UPDATED)
    disk.write_system("B", whole=False)
    assert disk.boot() == "A"
    memory = disk.memory()
    assert [memory[name] for name in NAMES] == ["B A", "2", "0"]


def test_a_new_card_offers_no_second_system(tmp_path: Path) -> None:
    """Else a box that is slow on its first day would leave its only system for nothing."""
    disk = Disk(tmp_path)
    disk.write_system("B", whole=False)
    assert disk.boot() == "A"
    assert [disk.memory()[name] for name in NAMES] == ["A B", "2", "0"]


def test_a_card_that_goes_into_another_board_takes_nothing_of_the_first_with_it(
    tmp_path: Path,
) -> None:
    """Else the other one would start with the first one's device tree and network address."""
    disk = Disk(tmp_path, **UPDATED)
    assert disk.boot(7) == "BBBAAAB"
    assert disk.boards == [tuple(BOARD.values())] * 7
    assert disk.memory().keys() & BOARD.keys() == set()


@pytest.mark.parametrize(
    ("board", "root"), [("qemu-aarch64", "/dev/vda3"), ("raspberrypi4-64", "/dev/mmcblk0p3")]
)
def test_the_kernel_is_told_its_slot_and_its_root(tmp_path: Path, board: str, root: str) -> None:
    disk = Disk(tmp_path, board, **UPDATED)
    assert disk.boot() == "B"
    assert f"root={root} " in disk.arguments[0]
    assert " rauc.slot=B " in disk.arguments[0]
