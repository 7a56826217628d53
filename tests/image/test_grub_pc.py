"""A PC's disk starts by BIOS and by UEFI, whatever it hangs on, and is found by its signature."""

import re
from pathlib import Path

import pytest

from tests.image.grub_disk import COMMON, OVMF, Disk, Parts, missing

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "")

BOARD = "pc-x86_64"
DISKS = {
    "ide": ["-device", "ide-hd,drive=box"],
    "ahci": ["-machine", "q35", "-device", "ide-hd,drive=box,bus=ide.0"],
    "nvme": ["-machine", "q35", "-device", "nvme,drive=box,serial=1"],
    "usb": ["-machine", "q35", "-device", "qemu-xhci", "-device", "usb-storage,drive=box"],
}
FIRMWARE = {"bios": ["-m", "64"], "uefi": ["-m", "192", "-bios", OVMF]}
UPDATED = {"ORDER": "B A", "A_OK": "1", "B_OK": "1", "A_TRY": "0", "B_TRY": "2"}


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Parts:
    return Parts(tmp_path_factory.mktemp("parts"))


def chosen(said: str) -> list[str]:
    """Return the systems whose kernels GRUB had loaded. The tests' own is none for UEFI."""
    return re.findall(r"Naproxy: system (.)", said)


@pytest.mark.parametrize(
    "disk", ["nvme", *(pytest.param(d, marks=pytest.mark.long) for d in DISKS if d != "nvme")]
)
@pytest.mark.parametrize("firmware", FIRMWARE)
def test_the_last_try_of_an_update_is_started_and_counted(
    tmp_path: Path, parts: Parts, firmware: str, disk: str
) -> None:
    box = Disk(tmp_path, parts, board=BOARD, **UPDATED)
    drive = ["-drive", f"file={box.file},format=raw,if=none,id=box"]
    box.on_machine(*FIRMWARE[firmware], *drive, *DISKS[disk], enough=bool, slots=chosen)
    assert chosen(box.said)[0] == "B"
    assert "Unknown command" not in box.said
    assert box.memory()["B_TRY"] == "3"


def test_the_kernel_is_told_the_disks_signature(tmp_path: Path, parts: Parts) -> None:
    box = Disk(tmp_path, parts, board=BOARD)
    drive = f"file={box.file},format=raw,if=virtio"

    def roots(said: str) -> list[str]:
        return re.findall(r"root=(\S+) ", said)

    box.on_machine("-m", "64", "-drive", drive, enough=bool, slots=roots)
    signature = re.search(r"disk-signature = 0x(\w{8})", (COMMON / "genimage.cfg").read_text())
    assert signature
    assert roots(box.said)[0] == f"PARTUUID={signature[1]}-02"


def test_a_disk_that_is_not_the_first_starts_its_own_systems(tmp_path: Path, parts: Parts) -> None:
    box = Disk(tmp_path, parts, board=BOARD)
    other = tmp_path / "other"
    other.write_bytes(bytes(1 << 20))
    drives = [
        *("-drive", f"file={other},format=raw,if=none,id=other"),
        *("-drive", f"file={box.file},format=raw,if=none,id=box"),
        *("-device", "nvme,drive=other,serial=0"),
        *("-device", "nvme,drive=box,serial=1"),
    ]
    box.on_machine(*FIRMWARE["uefi"], "-machine", "q35", *drives, enough=bool, slots=chosen)
    assert chosen(box.said)[0] == "A"
