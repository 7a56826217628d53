"""The box's disk as files: what a power cut leaves of it, and the boot partition from outside."""

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from tests.image_vm.disks import (
    SCRIPT,
    SCRIPT_HEADER_BYTES,
    boot_partition,
    flatten,
    layer,
    run,
    with_argument,
    write_boot_file,
)
from tests.simulator.office.namespace import ROOT

TABLE_AT, START_AT = 446, 8


def needs(*programs: str) -> pytest.MarkDecorator:
    missing = [name for name in programs if not shutil.which(name)]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


def mbr(start: int) -> bytes:
    """A partition table whose first partition begins at this sector."""
    sector = bytearray(512)
    struct.pack_into("<I", sector, TABLE_AT + START_AT, start)
    sector[510:] = b"\x55\xaa"
    return bytes(sector)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A disk with a FAT of 2 MB at 1 MB, and GRUB's environment in it."""
    file = tmp_path / "disk.img"
    file.write_bytes(mbr(2048))
    with file.open("r+b") as disk:
        disk.truncate(3 << 20)
    partition = boot_partition(file)
    run("mformat", "-i", partition, "-T", "4096", "-h", "4", "-s", "16", "::")
    run("mmd", "-i", partition, "::/grub")
    source = tmp_path / "env"
    source.write_bytes(b"# GRUB Environment Block\n".ljust(1024, b"#"))
    run("mcopy", "-i", partition, source, "::/grub/grubenv")
    return file


def die_after(disk: Path, *commands: str) -> None:
    """Write to a disk as QEMU does, and be killed."""
    words = [word for command in commands for word in ("-c", command)]
    subprocess.run(
        ["qemu-io", "-t", "writeback", *words, "-c", "abort", disk],
        capture_output=True,
        check=False,
    )


@needs("qemu-io")
@pytest.mark.parametrize(("flush", "kept"), [((), 0), (("flush",), 0xAB)])
def test_what_was_not_flushed_is_lost_when_qemu_is_killed(
    tmp_path: Path, flush: tuple[str, ...], kept: int
) -> None:
    base = tmp_path / "base.img"
    with base.open("wb") as disk:
        disk.truncate(1 << 20)
    disk_file = layer(base, tmp_path / "top.qcow2", form="raw")
    die_after(disk_file, "write -P 0xab 0 64k", *flush)
    assert flatten(disk_file, tmp_path / "flat.img").read_bytes()[:65536] == bytes([kept]) * 65536


@needs("mkimage", "mcopy")
def test_a_copy_of_a_card_gives_its_kernel_one_more_argument(image: Path, tmp_path: Path) -> None:
    script, packed = ROOT / "board/common/boot.cmd", tmp_path / "boot.scr"
    run("mkimage", "-A", "arm64", "-T", "script", "-C", "none", "-d", script, packed)
    write_boot_file(image, SCRIPT, packed.read_bytes())
    copy = boot_partition(with_argument(image, "nothing=new", tmp_path / "copy.img"))
    made = run("mtype", "-i", copy, f"::/{SCRIPT}")[SCRIPT_HEADER_BYTES:].decode()
    assert 'bootargs "nothing=new root=' in made
    assert made.replace("nothing=new ", "") == script.read_text()
    assert run("mtype", "-i", boot_partition(image), f"::/{SCRIPT}") == packed.read_bytes()
