"""MicroPython as a UF2 file, and the drive that a Pico shows while its button BOOTSEL was held.

The boot ROM looks at each block of 512 bytes that is written to the drive, wherever that is, and
programs those that are UF2 (github.com/raspberrypi/pico-bootrom-rp2040, bootrom/virtual_disk.c:
`vd_write_block` does not use the block's number). So nothing is mounted, the box's kernel need not
believe a stranger's file system, and the controller needs no right to mount.
"""

from __future__ import annotations

import errno
import os
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Final

from naproxy.core.reason import WrongError

BLOCK_BYTES: Final = 512
LABEL: Final = b"RPI-RP2"
BUILT: Final = Path("/usr/share/naproxy/meter/micropython.uf2")
"""Where our image has what it built."""

MOST_BYTES: Final = 1 << 22
"""Two MiB of flash, each 256 bytes in a block of 512."""

_HEAD: Final = struct.Struct("<8I")
_MAGICS: Final = (0x0A324655, 0x9E5D5157, 0x0AB16F30)
_FAMILY_IS_SAID: Final = 0x2000
_RP2040: Final = 0xE48BFF56
_FLASH: Final = range(0x10000000, 0x10200000)
_PAYLOAD: Final = 256
_SAYS: Final = re.compile(rb"MicroPython v(\d{1,3})\.(\d{1,3})\.(\d{1,3})[ -]")
_BOARD: Final = b"Raspberry Pi Pico with RP2040"
_AT_ONCE: Final = 64 * BLOCK_BYTES
_PLACE: Final = 1 << 20
"""Behind what the drive shows as its directory; a drive has 128 MB."""
_HEAD_BYTES: Final = 1 << 16


def checked(data: bytes) -> str:
    """Return a file's MicroPython version, such as 1.27.0; WrongError if not for a Pico."""
    if not data or len(data) % BLOCK_BYTES or len(data) > MOST_BYTES:
        raise WrongError("pico.uf2_size")
    count = len(data) // BLOCK_BYTES
    program = bytearray()
    for number in range(count):
        block = data[number * BLOCK_BYTES : (number + 1) * BLOCK_BYTES]
        first, second, flags, address, length, own, of, family = _HEAD.unpack_from(block)
        (last,) = struct.unpack_from("<I", block, BLOCK_BYTES - 4)
        if (first, second, last) != _MAGICS or (own, of) != (number, count):
            raise WrongError("pico.uf2_block", number=number + 1)
        if not flags & _FAMILY_IS_SAID or family != _RP2040:
            raise WrongError("pico.uf2_chip")
        if length != _PAYLOAD or address not in _FLASH or address % _PAYLOAD:
            raise WrongError("pico.uf2_block", number=number + 1)
        program += block[_HEAD.size : _HEAD.size + length]
    says = _SAYS.search(program)
    if says is None or _BOARD not in program:
        raise WrongError("pico.uf2_other")
    return ".".join(part.decode() for part in says.groups())


def stored(data_dir: Path) -> Path:
    """Return where what an administrator sent is kept."""
    return data_dir / "micropython.uf2"


def write(drive: Path, data: bytes, told: Callable[[int], None]) -> OSError | None:
    """Write a checked file to a Pico's drive; `told` is called with the number of bytes written.

    WrongError if it is no such drive, or somebody has mounted it. The Pico restarts with the last
    block and takes no more: that error, which may be another one, is returned.
    """
    try:
        opened = os.open(drive, os.O_RDWR | os.O_EXCL | os.O_SYNC | os.O_CLOEXEC)
    except OSError as error:
        code = "pico.drive_used" if error.errno == errno.EBUSY else "pico.drive"
        raise WrongError(code, why=os.strerror(error.errno or 0).lower()) from None
    try:
        if LABEL not in os.pread(opened, _HEAD_BYTES, 0):
            raise WrongError("pico.drive_other")
        if os.lseek(opened, 0, os.SEEK_END) < _PLACE + len(data):
            raise WrongError("pico.drive_other")
        for place in range(0, len(data), _AT_ONCE):
            os.pwrite(opened, data[place : place + _AT_ONCE], _PLACE + place)
            told(min(place + _AT_ONCE, len(data)))
    except OSError as error:
        return error
    finally:
        os.close(opened)
    return None
