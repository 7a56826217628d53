"""A disk with the boot script, for the real U-Boot, and kernels of a few bytes.

A kernel says its slot on the serial port and resets the machine, as one does that panics. U-Boot is
Debian's for QEMU's virt machine, which keeps its environment elsewhere than ours: here the
script keeps it in a file instead. Systems are FAT, so that any U-Boot reads them.
"""

from __future__ import annotations

import re
import shutil
import struct
from pathlib import Path

from tests.image.emulator import said_until
from tests.image.grub_disk import render, run

UBOOT = Path("/usr/lib/u-boot/qemu_arm64/u-boot.bin")
SECTOR, SIZE = 512, 4096
STARTS = {"boot": 2048, "A": 2048 + SIZE, "B": 2048 + 2 * SIZE}
"""Where partitions begin, and how large each is, in sectors."""
NAMES = ("BOOT_ORDER", "BOOT_A_LEFT", "BOOT_B_LEFT")
BOARD = {"fdtfile": "board.dtb", "ethaddr": "02:00:5e:00:00:09"}
"""What U-Boot finds out about its board, unless it remembers another."""
BOOT_S = 60

_LOAD = """setenv devtype virtio; setenv devnum 0; setenv fdt_addr_r 0x44000000
if load virtio 0:1 ${loadaddr} env.txt; then
	env import -t ${loadaddr} ${filesize}
fi
""" + "".join(f'test -n "${{{name}}}" || setenv {name} {value}\n' for name, value in BOARD.items())
_SAVE = "env export -t ${loadaddr}; fatwrite virtio 0:1 ${loadaddr} env.txt ${filesize}"
_TYPED = {
    "Hit any key": "\n",
    "=> ": "virtio scan; load virtio 0:1 ${scriptaddr} boot.scr; source ${scriptaddr}\n",
}


def missing() -> str | None:
    """Say what is not installed."""
    programs = ("qemu-system-aarch64", "mkimage", "mcopy", "mkfs.vfat")
    wanted = [program for program in programs if not shutil.which(program)]
    if not UBOOT.is_file():
        wanted.append("u-boot-qemu")
    return f"not installed: {', '.join(wanted)}" if wanted else None


def _kernel(slot: str) -> bytes:
    says = [
        word
        for letter in f"<{slot}>\n".encode()
        # mov w2, #letter; str w2, [x1]
        for word in (0x52800002 | letter << 5, 0xB9000022)
    ]
    # mov x1, #0x9000000 (the serial port); then PSCI's SYSTEM_RESET: mov w0, #0x84000009; hvc #0
    code = [0xD2A12001, *says, 0x52800120, 0x72B08000, 0xD4000002]
    # Linux' Documentation/arch/arm64/booting.rst: b +0x40, text_offset, image_size, magic.
    head = struct.pack("<II6Q4sI", 0x14000010, 0, 0x80000, 0x10000, 0, 0, 0, 0, b"ARM\x64", 0)
    return head + struct.pack(f"<{len(code)}I", *code)


class Disk:
    """A box that is switched on again and again."""

    def __init__(self, folder: Path, board: str = "qemu-aarch64", **memory: str) -> None:
        """`memory` is what U-Boot remembers; nothing: it was lost."""
        self._folder, self._file = folder, folder / "disk"
        self._device_tree()
        with self._file.open("wb") as disk:
            disk.truncate((STARTS["B"] + SIZE) * SECTOR)
            disk.seek(446)
            for start in STARTS.values():
                disk.write(struct.pack("<4xB3xII", 0xC, start, SIZE))
            disk.seek(510)
            disk.write(b"\x55\xaa")
        for name in STARTS:
            self.write_system(name)
        self._put("boot", "boot.scr", self._script(board))
        if memory:
            self.remember(**memory)

    def _device_tree(self) -> None:
        """A board's, as lies in the system where U-Boot has none itself: QEMU's own."""
        self._dtb = self._folder / "board.dtb"
        run("qemu-system-aarch64", "-M", f"virt,dumpdtb={self._dtb}", "-cpu", "cortex-a53")

    def _script(self, board: str) -> bytes:
        text = render(board, "boot.cmd")
        assert text.count("saveenv") == 2
        text = text.replace("saveenv", _SAVE)
        tell = 'echo "@${bootargs}@"\necho "=${fdtfile} ${ethaddr}="\nif load'
        said, count = re.subn(r"^if load", tell, text, flags=re.M)
        assert count == 1
        (self._folder / "boot.cmd").write_text(_LOAD + said)
        script = self._folder / "boot.scr"
        run(
            *("mkimage", "-A", "arm64", "-T", "script", "-C", "none"),
            *("-d", self._folder / "boot.cmd", script),
        )
        return script.read_bytes()

    def write_system(self, name: str, *, whole: bool = True) -> None:
        """Write a system, with or without what is in it."""
        part = self._folder / "part"
        with part.open("wb") as empty:
            empty.truncate(SIZE * SECTOR)
        run("mkfs.vfat", part)
        with self._file.open("r+b") as disk:
            disk.seek(STARTS[name] * SECTOR)
            disk.write(part.read_bytes())
        if name != "boot" and whole:
            run("mmd", "-i", self._at(name), "::boot")
            self._put(name, "boot/Image", _kernel(name))
            self._put(name, "boot/board.dtb", self._dtb.read_bytes())

    def _at(self, name: str) -> str:
        return f"{self._file}@@{STARTS[name] * SECTOR}"

    def _put(self, name: str, file: str, content: bytes) -> None:
        (self._folder / "file").write_bytes(content)
        run("mcopy", "-o", "-i", self._at(name), self._folder / "file", f"::{file}")

    def remember(self, **memory: str) -> None:
        """Set what U-Boot remembers."""
        text = "".join(f"{name}={value}\n" for name, value in memory.items())
        self._put("boot", "env.txt", text.encode() + b"\0")

    def memory(self) -> dict[str, str]:
        """Return what U-Boot remembers."""
        said = run("mtype", "-i", self._at("boot"), "::env.txt").rstrip("\0")
        return dict(re.findall(r"^(\S+?)=(.*)$", said, re.M))

    def boot(self, boots: int = 1) -> str:
        """Switch the box on, and return the slots of its first starts; each fails but the last."""
        machine: list[str | Path] = [
            *("qemu-system-aarch64", "-M", "virt", "-cpu", "cortex-a53", "-m", "128"),
            *("-display", "none", "-net", "none", "-monitor", "none", "-serial", "stdio"),
            *("-bios", UBOOT, "-drive", f"if=none,id=d,format=raw,file={self._file}"),
            *("-device", "virtio-blk-device,drive=d"),
        ]
        said = said_until(lambda said: len(_slots(said)) >= boots, machine, BOOT_S, _TYPED)
        self.arguments = re.findall(r"^@(.*)@$", said, re.M)
        self.boards = re.findall(r"^=(.*) (.*)=$", said, re.M)
        return "".join(_slots(said)[:boots])


def _slots(said: str) -> list[str]:
    return re.findall(r"^<(.)>$", said, re.M)
