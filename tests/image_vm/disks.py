"""The box's disk as files: layers, what a power cut leaves, the boot partition from outside."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path
from typing import Final

SECTOR: Final = 512
GRUBENV: Final = ("grubenv", "grubenv2")
"""What GRUB remembers is kept twice."""
SCRIPT: Final = "boot.scr"
SCRIPT_HEADER_BYTES: Final = 72
"""U-Boot's header of 64 bytes, then the script's length and a zero."""
ARGUMENTS: Final = 'setenv bootargs "'


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


def firmwares_part(image: Path, tree: str, directory: Path) -> list[str | Path]:
    """Return QEMU's arguments for what a Raspberry Pi's firmware does with the card's files.

    It starts what `config.txt` calls the kernel, and hands it a device tree.
    """
    partition = boot_partition(image)
    settings = run("mtype", "-i", partition, "::/config.txt").decode()
    kernel = [line for line in settings.splitlines() if line.startswith("kernel=")]
    if len(kernel) != 1:
        raise DiskError(f"config.txt names {len(kernel)} kernels")
    _, _, name = kernel[0].partition("=")
    for file in (name, tree):
        run("mcopy", "-n", "-i", partition, f"::/{file}", directory / file)
    return ["-kernel", directory / name, "-dtb", directory / tree]


def with_argument(image: Path, argument: str, file: Path) -> Path:
    """Write a copy of a card whose script gives the kernel one more argument; return it."""
    flatten(image, file)
    partition = boot_partition(file)
    script = run("mtype", "-i", partition, f"::/{SCRIPT}")[SCRIPT_HEADER_BYTES:].decode()
    if script.count(ARGUMENTS) != 1:
        raise DiskError(f"{SCRIPT} gives the kernel its arguments {script.count(ARGUMENTS)} times")
    source, made = file.with_suffix(".cmd"), file.with_suffix(".scr")
    source.write_text(script.replace(ARGUMENTS, f"{ARGUMENTS}{argument} "))
    run("mkimage", "-A", "arm64", "-T", "script", "-C", "none", "-d", source, made)
    run("mdel", "-i", partition, f"::/{SCRIPT}")
    write_boot_file(file, SCRIPT, made.read_bytes())
    return file


def write_grubenv(image: Path, copy: str, content: bytes | None) -> None:
    """Put other bytes in place of a copy of GRUB's environment; None removes the file."""
    run("mdel", "-i", boot_partition(image), f"::/grub/{copy}")
    if content is not None:
        write_boot_file(image, f"grub/{copy}", content)


def write_boot_file(image: Path, name: str, content: bytes) -> None:
    """Put a new file on the boot partition, as on a card in a person's own computer."""
    source = image.with_suffix(".file")
    source.write_bytes(content)
    run("mcopy", "-i", boot_partition(image), source, f"::/{name}")
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
