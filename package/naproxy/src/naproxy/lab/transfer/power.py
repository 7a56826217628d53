"""The assumed power of a transfer without a meter. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Draw:
    """A machine's power in watts: idle, and the addition at full use of its processors.

    P = base + cpu * utilisation is the paper's model by the processor alone. An idle server draws
    about half of its peak (Fan, Weber, Barroso, "Power provisioning for a warehouse-sized
    computer", 2007, the paper's 16): so `cpu_w` is as large as `base_w` where nobody measured it.
    """

    base_w: float
    cpu_w: float

    def energy_j(self, elapsed_s: float, cpu_s: float, cores: int) -> float:
        """Return the joules of so long, in which processes used `cpu_s` of `cores` processors."""
        used = min(max(0.0, cpu_s) / cores, elapsed_s)
        return self.base_w * elapsed_s + self.cpu_w * used


SERVER: Final = Draw(43.3, 43.3)
"""Table 4.2 of the thesis: the power of a server that is kept awake for the transfer."""

BOX: Final = Draw(5.0, 5.0)
"""The same table's proxy."""
