"""Which disk the box was started from, and its boot partition, checked before it is mounted."""

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


@pytest.mark.parametrize(
    ("root", "parts"),
    [
        ("/dev/mmcblk0p2", "mmcblk0p"),
        ("PARTUUID=4e415052-03", "nvme0n1p"),
        ("LABEL=somebody", ""),
    ],
)
def test_the_disk_is_that_of_the_root(tmp_path: Path, root: str, parts: str) -> None:
    """By the root's name, or by the numbers of what is mounted: 259:3, which nvme0n1p3 has."""
    (tmp_path / "cmdline").write_text(f"quiet root={root} rauc.slot=A\n")
    block = tmp_path / "block"
    for name, numbers in (("sda3", "8:3"), ("nvme0n1p3", "259:3")):
        (block / name).mkdir(parents=True)
        (block / name / "dev").write_text(f"{numbers}\n")
    script = DISK.read_text()
    for there, here in (
        ("/proc/cmdline", f"{tmp_path}/cmdline"),
        ("/sys/class/block", str(block)),
        ("/dev/naproxy", f"{tmp_path}/naproxy"),
    ):
        script = script.replace(there, here)
    script += "\nmountpoint() { echo 259:3; }\nwait_for() { :; }\n"
    script += 'find_disk || exit 0\necho "$boot_part $data_part"\n'
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == (f"/dev/{parts}1 /dev/{parts}4\n" if parts else "")
    links = {str(link.readlink()) for link in (tmp_path / "naproxy").glob("*")}
    assert links == ({f"/dev/{parts}{n}" for n in range(1, 5)} if parts else set())
