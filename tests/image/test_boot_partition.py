"""The boot partition is checked before it is mounted, whatever is on it."""

import subprocess
from pathlib import Path

import pytest

from tests.image.standin import TOP

DISK = TOP / "overlay/usr/lib/naproxy/disk.sh"


@pytest.fixture
def part(tmp_path: Path) -> Path:
    """A FAT file system with a file."""
    image = tmp_path / "part"
    subprocess.run(["mkfs.vfat", "-C", image, "4096"], check=True, capture_output=True)
    (tmp_path / "u-boot.bin").write_bytes(b"loader" * 4000)
    subprocess.run(["mcopy", "-i", image, tmp_path / "u-boot.bin", "::"], check=True)
    return image


def checked(part: Path) -> str:
    """Run the check; returns what was said. It must not fail."""
    # Its notes are in /run on a box.
    script = DISK.read_text().replace("/run/", f"{part.parent}/")
    script += '\nsay() { echo "$*"; }\nboot_part=$1\ncheck_boot\n'
    done = subprocess.run(
        ["sh", "-c", script, "sh", part], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return done.stdout


def test_one_in_order_is_left_as_it_is(part: Path) -> None:
    before = part.read_bytes()
    assert checked(part) == ""
    assert part.read_bytes() == before


def test_a_damaged_one_is_repaired_and_it_is_said(part: Path) -> None:
    with part.open("r+b") as file:
        # A cluster that belongs to no file, in the first of the two tables.
        file.seek(4 * 512 + 150)
        file.write(b"\xff\x0f\xff")
    assert "has been repaired" in checked(part)
    assert (
        subprocess.run(["fsck.fat", "-n", part], capture_output=True, check=False).returncode == 0
    )
    assert subprocess.run(["mtype", "-i", part, "::u-boot.bin"], capture_output=True, check=True)


@pytest.mark.parametrize("content", [b"", b"\0" * 4096, b"\xff" * 1_000_000])
def test_what_is_none_is_said_and_stops_nothing(part: Path, content: bytes) -> None:
    part.write_bytes(content)
    assert "cannot be repaired" in checked(part)
