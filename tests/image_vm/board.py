"""What the tests must know of a board, from `board/NAME/meta`, and QEMU's machine for it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.simulator.office.namespace import ROOT

MEMORY_MB: Final = 512
"""As much as the smallest box has."""

_GEODE: Final = (
    "pentium,vendor=AuthenticAMD,family=5,model=10,stepping=2,+mmx,+mmxext,+3dnow,+3dnowext,+cmov"
)
"""As near as QEMU comes to a Geode LX. It refuses SSE, but not `nopl` and `endbr32`."""

_MACHINES: Final = {
    # name: program, processor, how many of them
    "qemu-x86_64": ("qemu-system-x86_64", "qemu64", 2),
    "qemu-i386": ("qemu-system-i386", _GEODE, 1),
}
BOARDS: Final = tuple(_MACHINES)


class BoardError(Exception):
    """There is no such board, or not for QEMU."""


@dataclass(frozen=True, slots=True)
class Board:
    """`disk` is the disk's device on the box, `compatible` what its bundles must say."""

    name: str
    compatible: str
    disk: str
    program: str
    processor: str
    processors: int


def board(name: str, directory: Path = ROOT / "board") -> Board:
    """Return a board by its name; BoardError if it cannot be tried here."""
    if name not in _MACHINES:
        raise BoardError(f"BOARD={name} is none of: {', '.join(BOARDS)}")
    meta = read_meta((directory / name / "meta").read_text())
    program, processor, processors = _MACHINES[name]
    return Board(name, meta["COMPATIBLE"], meta["DISK"], program, processor, processors)


def read_meta(text: str) -> dict[str, str]:
    """Read KEY=VALUE lines as the shell does."""
    return dict(word.split("=", 1) for word in shlex.split(text, comments=True))
