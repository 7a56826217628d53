"""The box's disk as files: layers, what a power cut leaves, the boot partition from outside."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path
from typing import Final

SECTOR: Final = 512
GRUBENV: Final = ("grubenv", "grubenv2")
"""What GRUB remembers is kept twice."""


class DiskError(Exception):
    """A program refused, in its words; or the disk is not what was expected."""


def layer(on: Path, file: Path, *, form: str = "qcow2", size_bytes: int | None = None) -> Path:
    """Make a disk that begins as `on` and takes all writes itself; return it.

    It is as large as `on`, or larger: then the rest is empty, as on a card that is larger.

    QEMU keeps the tables of a layer in memory until the guest asks for what it wrote to be safe
    (flush). Where QEMU is killed, what was written to new places since then is lost, as with a
    power cut.
    """
    size = [] if size_bytes is None else [str(size_bytes)]
    run("qemu-img", "create", "-q", "-f", "qcow2", "-F", form, "-b", on.absolute(), file, *size)
    return file


def flatten(disk: Path, file: Path) -> Path:
    """Write what a stack of layers holds as a plain image, holes kept; return it."""
    run("qemu-img", "convert", "-q", "-O", "raw", disk, file)
    return file


def boot_partition(image: Path) -> str:
    """Return the first partition of a plain image as mtools want it: FILE@@OFFSET."""
    with image.open("rb") as disk:
        return f"{image}@@{first_partition(disk.read(SECTOR))}"


def first_partition(sector: bytes) -> int:
    """Return where the first partition of an MBR begins, in bytes; DiskError if there is none."""
    if len(sector) < SECTOR or sector[510:512] != b"\x55\xaa":
        raise DiskError("no partition table")
    (start,) = struct.unpack_from("<I", sector, 446 + 8)
    if not start:
        raise DiskError("the first partition is empty")
    return int(start) * SECTOR


def write_grubenv(image: Path, copy: str, content: bytes | None) -> None:
    """Put other bytes in place of a copy of GRUB's environment; None removes the file."""
    partition = boot_partition(image)
    run("mdel", "-i", partition, f"::/grub/{copy}")
    if content is not None:
        source = image.with_suffix(".grubenv")
        source.write_bytes(content)
        run("mcopy", "-i", partition, source, f"::/grub/{copy}")
        source.unlink()


def read_grubenv(image: Path, copy: str) -> bytes:
    """Return a copy of GRUB's environment as it is; nothing if there is none."""
    partition = boot_partition(image)
    if f"::/grub/{copy}" not in run("mdir", "-b", "-i", partition, "::/grub").decode().split():
        return b""
    return run("mtype", "-i", partition, f"::/grub/{copy}")


def run(*argv: str | Path) -> bytes:
    """Run a program to its end and return what it says; DiskError if it fails."""
    try:
        done = subprocess.run(list(map(str, argv)), capture_output=True, check=False)
    except FileNotFoundError:
        raise DiskError(f"{argv[0]} is not installed") from None
    if done.returncode != 0:
        words = (done.stderr or done.stdout).decode(errors="replace").strip()
        raise DiskError(f"{argv[0]}: {words}")
    return done.stdout
