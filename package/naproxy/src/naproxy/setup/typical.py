"""Published power of typical servers and boxes: without a meter, always an estimate.

Each row is one measurement that somebody published, not an average. Asleep is only known
where it was measured; elsewhere it is that of the thesis' server, and said to be.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

from naproxy.config.document import Power

ASLEEP_W: Final = Power().off_w
ASLEEP_SOURCE: Final = "Naproxy thesis, table 4.2"


@dataclass(frozen=True, slots=True)
class Typical:
    """One server; `name` is a key of the texts of the web interface."""

    name: str
    on_w: float
    off_w: float
    off_measured: bool
    source: str
    year: int | None


TYPICAL: Final = (
    Typical(
        *("small_pc", 18.0, ASLEEP_W, False),
        "F. Thomas, Building a power efficient home server: i3-6100, as delivered, idle",
        2023,
    ),
    Typical("office_pc", Power().on_w, Power().off_w, True, "Naproxy thesis, table 4.2", None),
    Typical(
        *("four_disks", 72.5, ASLEEP_W, False),
        "ZDNet, How green is your PC?: HP MediaSmart Server with four disks, mean of 18 days",
        2008,
    ),
    Typical(
        *("old_tower", 91.9, ASLEEP_W, False),
        "ZDNet, How green is your PC?: Dell E521 with three disks, mean of 18 days",
        2008,
    ),
)


@dataclass(frozen=True, slots=True)
class Board:
    """Hardware for the box; `name` is a key of the web interface's texts."""

    name: str
    w: float
    """The box's additional power: 0 on a machine that is always on."""
    source: str = ""
    year: int | None = None


_STAPELBERG: Final = "M. Stapelberg, gokrazy, issue 70: idle, with the power supply"
BOARDS: Final = (
    Board("zero_2_w", 0.8, _STAPELBERG, 2021),
    Board("pi_3", 1.5, _STAPELBERG, 2021),
    Board("pi_3_plus", 2.5, _STAPELBERG, 2021),
    Board("pi_4", 2.8, _STAPELBERG, 2021),
    Board("apu", 4.0, _STAPELBERG, 2021),
    Board("thin_client", 3.4, "R3NE07/Futro-S740: a Futro S740 with Debian 11, by its users", None),
    Board("on_anyway", 0.0),
)


def table() -> dict[str, Any]:
    """Return the table as JSON."""
    return {
        "typical": [asdict(each) for each in TYPICAL],
        "asleep_source": ASLEEP_SOURCE,
        "boards": [asdict(each) for each in BOARDS],
        "switch_j": Power().switch_j,
    }
