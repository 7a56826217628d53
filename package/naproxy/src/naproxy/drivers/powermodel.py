"""A server's power from its utilisation: linear regression, as pure functions.

Both forms of the energy-aware HTTP paper: P = c0 + c1 CPU, and P = c0 + c1 CPU + c2 memory
+ c3 disk + c4 network. The coefficients are fitted by least squares against a real meter,
once, under a load that varies.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from naproxy.drivers.meter import Fault, number

Form = Literal["cpu", "full"]
FORMS: Final[dict[Form, tuple[str, ...]]] = {
    "cpu": ("cpu",),
    "full": ("cpu", "memory", "disk", "network"),
}
LEAST_SAMPLES: Final = 20
_LEAST_SPREAD: Final = 1e-3
"""A quantity that varied less than this share of its size (or of 1) counts as constant."""

_ALIKE: Final = 1e-6
MOST_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Counters:
    """Usage since the machine started; memory is the share in use now."""

    t_s: float
    cpu_busy_s: float
    cpu_all_s: float
    memory: float
    disks_busy_s: Mapping[str, float]
    network_bytes: float


@dataclass(frozen=True, slots=True)
class Utilisation:
    """Shares of 1 of processors, memory and the busiest disk's time; megabytes a second."""

    cpu: float
    memory: float
    disk: float
    network: float


@dataclass(frozen=True, slots=True)
class Coefficients:
    """Watts: at rest, and for 1 of each utilisation."""

    base_w: float
    cpu_w: float = 0.0
    memory_w: float = 0.0
    disk_w: float = 0.0
    network_w: float = 0.0


@dataclass(frozen=True, slots=True)
class Fit:
    """Fitted coefficients, and how well they explain what was measured."""

    coefficients: Coefficients
    samples: int
    rms_w: float
    """Root mean square of the residuals, over the degrees of freedom."""

    r_squared: float


def between(first: Counters, last: Counters) -> Utilisation | None:
    """Return the utilisation between two moments; None when the machine restarted between."""
    elapsed_s, cpu_s = last.t_s - first.t_s, last.cpu_all_s - first.cpu_all_s
    busy_s, moved = last.cpu_busy_s - first.cpu_busy_s, last.network_bytes - first.network_bytes
    disks_s = [
        busy_now_s - first.disks_busy_s[name]
        for name, busy_now_s in last.disks_busy_s.items()
        if name in first.disks_busy_s
    ]
    if elapsed_s <= 0 or cpu_s <= 0 or min(busy_s, moved, *disks_s) < 0:
        return None
    return Utilisation(
        cpu=min(1.0, busy_s / cpu_s),
        memory=min(1.0, max(0.0, last.memory)),
        disk=min(1.0, max(disks_s, default=0.0) / elapsed_s),
        network=moved / elapsed_s / 1e6,
    )


def estimate_w(coefficients: Coefficients, utilisation: Utilisation) -> float:
    """Return the estimated power in watts, at least 0."""
    return max(
        0.0,
        coefficients.base_w
        + coefficients.cpu_w * utilisation.cpu
        + coefficients.memory_w * utilisation.memory
        + coefficients.disk_w * utilisation.disk
        + coefficients.network_w * utilisation.network,
    )


def fit(samples: Sequence[tuple[Utilisation, float]], form: Form) -> Fit:
    """Fit one form to pairs of utilisation and watts; ValueError in words if it cannot be."""
    if len(samples) < LEAST_SAMPLES:
        raise ValueError(f"{len(samples)} samples are too few: at least {LEAST_SAMPLES}")
    names = FORMS[form]
    columns = [[getattr(u, name) for u, _ in samples] for name in names]
    powers = [power_w for _, power_w in samples]
    for name, column in zip(names, columns, strict=True):
        if max(column) - min(column) < _LEAST_SPREAD * max(1.0, *map(abs, column)):
            raise ValueError(f"{name} did not vary while it was measured: vary the load")
    means = [math.fsum(column) / len(column) for column in columns]
    centred = [[x - m for x in c] for c, m in zip(columns, means, strict=True)]
    spreads = [math.sqrt(math.fsum(x * x for x in c)) for c in centred]
    unit = [[x / s for x in c] for c, s in zip(centred, spreads, strict=True)]
    mean_w = math.fsum(powers) / len(powers)
    slopes = _solve(
        [[math.fsum(a * b for a, b in zip(i, j, strict=True)) for j in unit] for i in unit],
        [math.fsum(a * (p - mean_w) for a, p in zip(i, powers, strict=True)) for i in unit],
        names,
    )
    slopes = [slope / spread for slope, spread in zip(slopes, spreads, strict=True)]
    base_w = mean_w - math.fsum(s * m for s, m in zip(slopes, means, strict=True))
    found = Coefficients(base_w, **{f"{n}_w": s for n, s in zip(names, slopes, strict=True)})
    return _judged(found, samples, mean_w, len(names) + 1)


def _solve(matrix: list[list[float]], right: list[float], names: Sequence[str]) -> list[float]:
    """Solve by Gaussian elimination; the columns have unit length, so a pivot is 0 to 1."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for n, name in enumerate(names):
        pivot = rows[n][n]
        if pivot < _ALIKE:
            raise ValueError(f"{name} varied only together with the others: vary each by itself")
        for below in rows[n + 1 :]:
            factor = below[n] / pivot
            below[:] = [b - factor * a for a, b in zip(rows[n], below, strict=True)]
    found = [0.0] * len(rows)
    for n in reversed(range(len(rows))):
        known = math.fsum(rows[n][m] * found[m] for m in range(n + 1, len(rows)))
        found[n] = (rows[n][-1] - known) / rows[n][n]
    return found


def _judged(
    found: Coefficients, samples: Sequence[tuple[Utilisation, float]], mean_w: float, terms: int
) -> Fit:
    left = math.fsum((estimate_w(found, u) - power_w) ** 2 for u, power_w in samples)
    whole = math.fsum((power_w - mean_w) ** 2 for _, power_w in samples)
    return Fit(
        coefficients=found,
        samples=len(samples),
        rms_w=math.sqrt(left / (len(samples) - terms)),
        r_squared=1 - left / whole if whole else 0.0,
    )


# Where the counters come from

_METRIC: Final = re.compile(
    rb"^(node_[A-Za-z_]+)(?:\{([^}\n]{0,500})\})? ([0-9.eE+-]+)$", re.MULTILINE
)
_LABEL: Final = re.compile(rb'([a-z_]+)="([^"]*)"')
_WHOLE_DISK: Final = re.compile(r"(sd[a-z]+|hd[a-z]+|vd[a-z]+|xvd[a-z]+|nvme\d+n\d+|mmcblk\d+)")
_IDLE: Final = (b"idle", b"iowait")
_MEMORY: Final = {
    "node_memory_MemTotal_bytes": "Total",
    "node_memory_MemAvailable_bytes": "Available",
}
_NETWORK: Final = ("node_network_receive_bytes_total", "node_network_transmit_bytes_total")


def from_exporter(t_s: float, text: bytes) -> Counters:
    """Return the counters in node_exporter's text format; Fault if some are missing."""
    cpu: dict[bool, float] = {True: 0.0, False: 0.0}
    disks: dict[str, float] = {}
    memory: dict[str, float] = {}
    network = 0.0
    for name_, labels_, value_ in _METRIC.findall(text):
        name, labels = name_.decode(), dict(_LABEL.findall(labels_))
        device = labels.get(b"device", b"").decode(errors="replace")
        if name == "node_cpu_seconds_total":
            cpu[labels.get(b"mode") in _IDLE] += _value(value_, name)
        elif name in _MEMORY:
            memory[_MEMORY[name]] = _value(value_, name)
        elif name == "node_disk_io_time_seconds_total" and _WHOLE_DISK.fullmatch(device):
            disks[device] = _value(value_, name)
        elif name in _NETWORK and device != "lo":
            network += _value(value_, name)
    return _counters(t_s, (cpu[False], cpu[True]), memory, disks, network)


def _value(text: bytes, what: str) -> float:
    found = number(text.decode(errors="replace"), what)
    if found < 0:
        raise Fault("negative", "meter.negative", what=what)
    return found


def from_proc(t_s: float, proc: Path) -> Counters:
    """Return this machine's counters (proc(5)); Fault if it has no such files."""
    try:
        times = (proc / "stat").read_text().partition("\n")[0].split()[1:9]
        sizes = dict(_sizes((proc / "meminfo").read_text()))
        disks = dict(_disks((proc / "diskstats").read_text()))
        network = sum(_moved((proc / "net" / "dev").read_text()))
    except (OSError, ValueError, IndexError) as error:
        raise Fault("lost", "driver.unreadable", file=str(proc), why=str(error)) from None
    ticks_a_s = os.sysconf("SC_CLK_TCK")
    jiffies = [number(t, "/proc/stat") / ticks_a_s for t in times]
    idle_s = sum(jiffies[3:5])
    return _counters(t_s, (sum(jiffies) - idle_s, idle_s), sizes, disks, float(network))


def _sizes(text: str) -> list[tuple[str, float]]:
    found = re.findall(r"^Mem(Total|Available):\s+(\d+) kB$", text, re.MULTILINE)
    return [(name, 1024.0 * int(size)) for name, size in found]


def _disks(text: str) -> list[tuple[str, float]]:
    """Return the seconds that each whole disk was busy: field 13, in milliseconds."""
    rows = [line.split() for line in text.splitlines()]
    return [(r[2], int(r[12]) / 1e3) for r in rows if _WHOLE_DISK.fullmatch(r[2])]


def _moved(text: str) -> list[int]:
    rows = [line.partition(":") for line in text.splitlines()[2:]]
    split = [(name.strip(), rest.split()) for name, _, rest in rows]
    return [int(fields[0]) + int(fields[8]) for name, fields in split if name != "lo"]


def _counters(
    t_s: float,
    cpu_s: tuple[float, float],
    memory: Mapping[str, float],
    disks: Mapping[str, float],
    network: float,
) -> Counters:
    """`cpu_s` is busy and idle time."""
    total, available = memory.get("Total", 0.0), memory.get("Available", -1.0)
    if sum(cpu_s) <= 0 or not 0 <= available <= total or total <= 0:
        raise Fault("format", "meter.lacks_figures")
    return Counters(
        t_s=t_s,
        cpu_busy_s=cpu_s[0],
        cpu_all_s=sum(cpu_s),
        memory=1 - available / total,
        disks_busy_s=disks,
        network_bytes=network,
    )
