"""What the tests must know of a board, from `board/NAME/meta`, and QEMU's machine for it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Final

from tests.simulator.office.namespace import ROOT

MEMORY_MB: Final = 512
"""As much as the smallest box has."""

_GEODE: Final = (
    "pentium,vendor=AuthenticAMD,family=5,model=10,stepping=2,+mmx,+mmxext,+3dnow,+3dnowext,+cmov"
)
"""As near as QEMU comes to a Geode LX. It refuses SSE, but not `nopl` and `endbr32`."""

FIRMWARE: Final[Mapping[str, tuple[str, ...]]] = {
    "bios": (),  # SeaBIOS, which QEMU has with it
    "uefi": ("-bios", "/usr/share/OVMF/OVMF_CODE.fd"),
    "raspberrypi": (),  # QEMU does its part with what `firmwares_part` finds on the card
}
_NO_WATCHDOG: Final = "initcall_blacklist=bcm2835_wdt_driver_init"
"""QEMU's Raspberry Pi has no watchdog: it starts anew at the moment when one is switched on.

The watchdog is also how it restarts, so without its driver the kernel halts instead; see `Machine`.
"""
SERIAL: Final = ("/dev/serial/by-id/*", "/dev/ttyUSB*")
"""What a meter by USB is called on the box, once it is plugged in."""
_WATCHDOG: Final = ("-device", "i6300esb")
_CHIPSETS_WATCHDOG: Final = ("-global", "ICH9-LPC.noreboot=false")
"""The one of Intel's chipset: Linux calls it iTCO."""


class BoardError(Exception):
    """There is no such board, or not for QEMU."""


@dataclass(frozen=True, slots=True)
class Hardware:
    """What is around the processor: QEMU's chipset, disk, network card, USB; see QEMU's -device."""

    drive: ClassVar = "none"
    """QEMU's -drive if=."""

    machine: str = "pc"
    disk: str = "virtio-blk-pci"
    root: str = "/dev/vda"
    """What Linux calls a disk there."""
    card: str = "virtio-net-pci"
    usb: str = "qemu-xhci"
    other: tuple[str, ...] = _WATCHDOG

    def argv(self, mac: str) -> list[str]:
        """Return QEMU's arguments for the drive `disk`, the network `wire`, the line `meter`."""
        # `other` first: a disk may be plugged into it.
        return [
            *("-machine", self.machine, "-m", str(MEMORY_MB), "-vga", "std", *self.other),
            *("-device", "virtio-rng-pci", "-device", f"{self.usb},id=usb"),
            *("-device", f"{self.disk},drive=disk"),
            *("-device", f"{self.card},netdev=wire,mac={mac},romfile="),
            # A chip by FTDI; it is there while somebody holds its other end.
            *("-device", "usb-serial,bus=usb.0,chardev=meter"),
        ]


@dataclass(frozen=True, slots=True)
class RaspberryPi:
    """A board of QEMU's: processor, memory and card are its own, the network comes by USB."""

    machine: str
    memory_mb: int
    drive: str = "sd"
    card: tuple[str, ...] = ()
    """What puts the drive into the slot, where QEMU does not."""
    root: str = "/dev/mmcblk0"

    def argv(self, mac: str) -> list[str]:
        """Return QEMU's arguments, as `Hardware.argv` does.

        The first serial port is Bluetooth's, the second the console.
        """
        return [
            *("-machine", self.machine, "-m", str(self.memory_mb), *self.card),
            *("-serial", "null", "-device", f"usb-net,netdev=wire,mac={mac}"),
            *("-device", "usb-serial,chardev=meter"),
        ]


_AHCI: Final = Hardware(
    "q35", "ide-hd,bus=ide.0", "/dev/sda", card="e1000e", other=_CHIPSETS_WATCHDOG
)
PCS: Final[Mapping[str, tuple[str, Hardware]]] = {
    "bios-ide": ("bios", Hardware("pc", "ide-hd", "/dev/sda", card="e1000")),
    "bios-ahci": ("bios", _AHCI),
    "uefi-nvme": (
        "uefi",
        Hardware("q35", "nvme,serial=1", "/dev/nvme0n1", card="vmxnet3", other=_CHIPSETS_WATCHDOG),
    ),
    "uefi-usb": (
        "uefi",
        Hardware("q35", "usb-storage,bus=usb.0", "/dev/sda", other=_CHIPSETS_WATCHDOG),
    ),
}
"""Other PCs, by firmware and disk, that the PC's disk is put into."""


@dataclass(frozen=True, slots=True)
class Board:
    """`compatible` is what its bundles must say; `others` are machines its disk must start, too."""

    name: str
    program: str
    processor: tuple[str, ...]
    """QEMU's arguments."""
    hardware: Hardware | RaspberryPi = Hardware()
    firmware: str = "bios"
    others: Mapping[str, tuple[str, Hardware]] = field(default_factory=dict)
    devices: tuple[str, ...] = SERIAL
    """Of the device nodes that drivers use, those for which QEMU has hardware there."""
    device_tree: str = ""
    """What a Raspberry Pi's firmware hands to U-Boot: a file on the card's boot partition."""
    argument: str = ""
    """What the kernel must be told there, and on the hardware not."""
    reachable: bool = True
    """Whether its kernel has a driver for a network card of QEMU's."""
    compatible: str = ""
    bootloader: str = ""


_X86_64: Final = ("qemu-system-x86_64", ("-cpu", "qemu64", "-smp", "2"))
_GEODE_LX: Final = ("qemu-system-i386", ("-cpu", _GEODE))
# QEMU has neither the Geode's companion chip, where the CF card is, nor VIA's network card.
_NET5501: Final = Hardware(
    "pc",
    "usb-storage,bus=fast.0",
    "/dev/sda",
    usb="pci-ohci",
    other=("-device", "usb-ehci,id=fast"),
)
_AARCH64: Final = ("qemu-system-aarch64", ())
_PI3: Final = RaspberryPi("raspi3b", 1024)
_PI4: Final = RaspberryPi(
    "raspi4b",
    2048,
    # QEMU puts a card where the board has its Wi-Fi. This is the controller of the board's slot.
    "none",
    ("-device", "sd-card,drive=disk,bus=/generic-sdhci/sd-bus"),
)
_BOARDS: Final = {
    made.name: made
    for made in (
        Board("qemu-x86_64", *_X86_64),
        Board("qemu-i386", *_GEODE_LX, Hardware(usb="pci-ohci")),
        Board("soekris-net5501", *_GEODE_LX, _NET5501, reachable=False),
        Board("pc-x86_64", *_X86_64, _AHCI, "uefi", PCS, (*SERIAL, "/dev/i2c-*")),
        *(
            Board(name, *_AARCH64, pi, "raspberrypi", device_tree=tree, argument=_NO_WATCHDOG)
            for name, pi, tree in (
                ("raspberrypi3-64", _PI3, "bcm2710-rpi-3-b.dtb"),
                ("raspberrypi4-64", _PI4, "bcm2711-rpi-4-b.dtb"),
                ("raspberrypizero2w-64", _PI3, "bcm2710-rpi-zero-2-w.dtb"),
            )
        ),
    )
}
BOARDS: Final = tuple(_BOARDS)


def board(name: str, firmware: str | None = None, directory: Path = ROOT / "board") -> Board:
    """Return a board by its name, with its usual firmware unless another one is asked for.

    BoardError if it cannot be tried here.
    """
    if name not in _BOARDS:
        raise BoardError(f"BOARD={name} is none of: {', '.join(BOARDS)}")
    meta = read_meta((directory / name / "meta").read_text())
    found = replace(_BOARDS[name], compatible=meta["COMPATIBLE"], bootloader=meta["BOOTLOADER"])
    if firmware is None or firmware == found.firmware:
        return found
    if not found.others:
        raise BoardError(f"BOARD={name} starts by {found.firmware} only, not by {firmware}")
    return replace(found, firmware=firmware)


def read_meta(text: str) -> dict[str, str]:
    """Read KEY=VALUE lines as the shell does."""
    return dict(word.split("=", 1) for word in shlex.split(text, comments=True))
