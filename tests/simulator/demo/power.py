"""What the virtual server drew: the thesis' model, over what its mainboard did."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from naproxy.config.document import Box, Power

from tests.simulator.office.mainboard import OFF, SUSPENDING

TABLE_4_2 = Power()
PROXY_W = Box().proxy_w


@dataclass(frozen=True, slots=True)
class Energy:
    """Energy of one server over a time, by the model of the thesis' equation 4.1."""

    on_s: float
    off_s: float
    switches: int
    """Times it fell asleep; what it takes to come back is paid with it."""

    @property
    def parts_j(self) -> dict[str, float]:
        """Joules by what they were for."""
        return {
            "on": self.on_s * TABLE_4_2.on_w,
            "off": self.off_s * TABLE_4_2.off_w,
            "switch": self.switches * TABLE_4_2.switch_j,
        }

    @property
    def server_j(self) -> float:
        """Joules of the server."""
        return sum(self.parts_j.values())

    @property
    def proxy_j(self) -> float:
        """Joules of the box, which is never off."""
        return (self.on_s + self.off_s) * PROXY_W

    @property
    def always_on_j(self) -> float:
        """Joules that the server would have taken without a box."""
        return (self.on_s + self.off_s) * TABLE_4_2.on_w

    def as_json(self) -> dict[str, Any]:
        """Return all of it."""
        return {
            "on_s": self.on_s,
            "off_s": self.off_s,
            "switches": self.switches,
            **{f"{part}_j": joules for part, joules in self.parts_j.items()},
            "server_j": self.server_j,
            "proxy_j": self.proxy_j,
            "always_on_j": self.always_on_j,
        }


def energy(transitions: Sequence[Mapping[str, Any]], start_s: float, end_s: float) -> Energy:
    """Return the energy between two times, from the mainboard's transitions (s, monotonic).

    The equation counts the fall as off: what it draws more meanwhile is part of E_switch.
    """
    off_s = 0.0
    switches = 0
    ends = [{"state": "", "t_s": start_s}, *transitions, {"state": "", "t_s": end_s}]
    for before, now, after in zip(ends, ends[1:], ends[2:], strict=False):
        if now["state"] in (SUSPENDING, OFF):
            off_s += max(0.0, min(after["t_s"], end_s) - max(now["t_s"], start_s))
            began = before["state"] != SUSPENDING
            switches += began and start_s <= now["t_s"] < end_s
    return Energy(end_s - start_s - off_s, off_s, switches)
