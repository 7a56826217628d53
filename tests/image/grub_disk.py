"""A disk as the image's, small, with the real GRUB on it and kernels of a few bytes.

A kernel says its command line on the serial port and resets the machine, as one does that
panics. So what GRUB chose is seen, and what it remembers is read from the disk.
"""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.image.emulator import said_until

HERE = Path(__file__).resolve().parent
TOP = HERE.parents[1]
COMMON = TOP / "board/common"
SECTOR = 512
SLOT = 2048
BOOT, SLOTS, END = 2048, {"A": 6144, "B": 6144 + SLOT}, 6144 + 2 * SLOT
"""Where partitions begin, and a system's size, in sectors."""
MEMORY = ("grubenv", "grubenv2")
BOOT_S = 100
OVMF = "/usr/share/OVMF/OVMF_CODE.fd"


def run(*argv: str | Path, cwd: Path | None = None) -> str:
    """Run a program that must succeed, and return what it prints."""
    return subprocess.run(argv, check=True, capture_output=True, text=True, cwd=cwd).stdout


def render(board: str, template: str) -> str:
    """Return a template of board/common with a board's values."""
    return run(COMMON / "render", board, COMMON / template)


def missing() -> str | None:
    """Say what is not installed."""
    programs = ("grub-mkimage", "qemu-system-x86_64", "mcopy", "mkfs.vfat", "mksquashfs", "as")
    wanted = [program for program in programs if not shutil.which(program)]
    for file, package in (
        ("/usr/lib/grub/i386-pc/boot.img", "grub-pc-bin"),
        ("/usr/lib/grub/x86_64-efi/linux.mod", "grub-efi-amd64-bin"),
        (OVMF, "ovmf"),
    ):
        if not Path(file).is_file():
            wanted.append(package)
    return f"not installed: {', '.join(wanted)}" if wanted else None


Slots = Callable[[str], list[str]]


class Parts:
    """What disks are made of: made once."""

    def __init__(self, folder: Path) -> None:
        """Make them in `folder`."""
        self.folder = folder
        self.kernel = self._kernel()
        self.core = self._core("i386-pc", "grub")
        self.efi = self._core("x86_64-efi", "grub-efi")
        self.slot = folder / "slot"
        (folder / "root/boot").mkdir(parents=True)
        (folder / "root/boot/bzImage").write_bytes(self.kernel)
        run("mksquashfs", folder / "root", self.slot, "-noappend", "-quiet", "-comp", "gzip")

    def _core(self, form: str, fragment: str) -> Path:
        text = (TOP / f"configs/fragments/{fragment}.fragment").read_text()
        found = re.search(r'BUILTIN_MODULES_\w+="(.*)"', text)
        assert found
        core = self.folder / f"{form}.img"
        run(
            *("grub-mkimage", "-O", form, "-p", "/grub", "-o", core),
            *("-c", COMMON / "grub-embedded.cfg", *found[1].split()),
        )
        return core

    def _kernel(self) -> bytes:
        run("as", "--32", HERE / "kernel.S", "-o", "kernel.o", cwd=self.folder)
        run(
            *("ld", "-m", "elf_i386", "-Ttext", "0x100000", "--oformat", "binary"),
            *("-o", "kernel.bin", "kernel.o"),
            cwd=self.folder,
        )
        code = (self.folder / "kernel.bin").read_bytes()
        # Linux' Documentation/arch/x86/boot.rst: one setup sector, protocol 2.12.
        head = bytearray(2 * SECTOR)
        head[0x1F1] = 1
        head[0x1FE:0x206] = b"\x55\xaa\xeb\x66HdrS"
        head[0x211] = 1  # loaded high
        for at, form, value in (
            (0x1F4, "<I", (len(code) + 15) // 16),
            (0x206, "<H", 0x20C),
            (0x214, "<I", 0x100000),
            (0x22C, "<I", 0x7FFFFFFF),
            (0x230, "<I", 0x1000),
            (0x238, "<I", 2047),
            (0x258, "<Q", 0x100000),
            (0x260, "<I", 0x10000),
        ):
            struct.pack_into(form, head, at, value)
        return bytes(head) + code


class Disk:
    """A box that is switched on again and again."""

    def __init__(
        self, folder: Path, parts: Parts, *, board: str = "qemu-x86_64", **memory: str
    ) -> None:
        """`memory` is what GRUB remembers."""
        self.file, self._folder = folder / "disk", folder
        fat = folder / "fat"
        with fat.open("wb") as empty:
            empty.truncate((SLOTS["A"] - BOOT) * SECTOR)
        run("mkfs.vfat", "-n", "NAPROXYBOOT", fat)
        with self.file.open("wb") as disk:
            disk.truncate(END * SECTOR)
            disk.write(Path("/usr/lib/grub/i386-pc/boot.img").read_bytes()[:440])
            disk.seek(446)
            for start, size, kind in (
                (BOOT, 4096, 0xC),
                *((at, 2048, 0x83) for at in SLOTS.values()),
            ):
                disk.write(struct.pack("<4xB3xII", kind, start, size))
            disk.seek(510)
            disk.write(b"\x55\xaa" + parts.core.read_bytes())
            disk.seek(BOOT * SECTOR)
            disk.write(fat.read_bytes())
        for name in SLOTS:
            self.write_slot(name, parts.slot.read_bytes())
        run("mmd", "-i", self._fat, "::grub")
        self.put("grub.cfg", render(board, "grub.cfg").encode())
        run("mmd", "-i", self._fat, "::EFI", "::EFI/BOOT")
        run("mcopy", "-i", self._fat, parts.efi, "::EFI/BOOT/BOOTX64.EFI")
        for copy in MEMORY:
            self.put(copy, environment(folder, **memory))

    @property
    def _fat(self) -> str:
        return f"{self.file}@@{BOOT * SECTOR}"

    def put(self, name: str, content: bytes) -> None:
        """Write a file of the boot partition."""
        (self._folder / "file").write_bytes(content)
        run("mcopy", "-o", "-i", self._fat, self._folder / "file", f"::grub/{name}")

    def get(self, name: str) -> bytes:
        """Return a file of the boot partition."""
        run("mcopy", "-n", "-o", "-i", self._fat, f"::grub/{name}", self._folder / "file")
        return (self._folder / "file").read_bytes()

    def remove(self, name: str) -> None:
        """Remove a file of the boot partition."""
        run("mdel", "-i", self._fat, f"::grub/{name}")

    def write_slot(self, name: str, content: bytes) -> None:
        """Write a system."""
        with self.file.open("r+b") as disk:
            disk.seek(SLOTS[name] * SECTOR)
            disk.write(content.ljust(SLOT * SECTOR, b"\0"))

    def memory(self, copy: str = "grubenv") -> dict[str, str]:
        """Return what GRUB remembers."""
        return dict(
            line.split("=", 1)
            for line in self.get(copy).decode().splitlines()[1:]
            if "=" in line and not line.startswith("#")
        )

    def remember(self, **memory: str) -> None:
        """Change what GRUB remembers, as RAUC does."""
        for copy in MEMORY:
            self.put(copy, environment(self._folder, **(self.memory(copy) | memory)))

    def boot(self, boots: int = 1) -> list[str]:
        """Switch the box on, and return the slots of its first starts; each fails but the last.

        A start that found no kernel is not in the list.
        """
        return self.boot_until(lambda slots: len(slots) >= boots)[:boots]

    def boot_until(
        self, enough: Callable[[list[str]], bool], *, writable: bool = True
    ) -> list[str]:
        """Switch the box on until enough was started."""
        drive = f"file={self.file},format=raw,if=virtio,readonly={'off' if writable else 'on'}"
        return _slots(self.on_machine("-m", "32", "-drive", drive, enough=enough))

    def on_machine(
        self, *arguments: str, enough: Callable[[list[str]], bool], slots: Slots | None = None
    ) -> str:
        """Switch a machine of QEMU's on until enough was started; returns what it said."""
        machine = [
            *("qemu-system-x86_64", "-accel", "tcg", "-display", "none"),
            *("-net", "none", "-monitor", "none", "-serial", "stdio", *arguments),
        ]
        self.said = said_until(lambda said: enough((slots or _slots)(said)), machine, BOOT_S)
        return self.said


_STARTED = re.compile(r"root=(\S+) .*? rauc\.slot=(\S+) .*?,115200")


def _slots(said: str) -> list[str]:
    found = _STARTED.findall(said)
    assert all(device == {"A": "/dev/vda2", "B": "/dev/vda3"}[slot] for device, slot in found)
    return [slot for _, slot in found]


def environment(folder: Path, **memory: str) -> bytes:
    """Return a grubenv, made by GRUB's own tool."""
    file = folder / "environment"
    file.unlink(missing_ok=True)
    run("grub-editenv", file, "create")
    if memory:
        run("grub-editenv", file, "set", *(f"{name}={value}" for name, value in memory.items()))
    return file.read_bytes()
