"""The numbers of the five documents that can be computed from others: printed next to computed.

    python -m naproxy.lab.papers

Measured numbers cannot be computed again; their sums, products, shares and means can.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain
from typing import Final, NamedTuple

from naproxy.core.energy import Power
from naproxy.lab.replay.virtual import THESIS

CLOSE: Final = 0.01
"""A number that is further off than this share does not agree, unless rounding explains it."""


class Claim(NamedTuple):
    """A number and its computed value; `note` explains a difference."""

    what: str
    printed: float
    computed: float
    note: str = ""
    unit: float = 0.0
    """Of the last digit: a number that rounds to the printed one agrees."""
    exact: bool = False
    """A count: nothing else agrees."""

    @property
    def agrees(self) -> bool:
        """Is it within a percent, or what it rounds to?"""
        rounded = abs(self.printed - self.computed) <= self.unit / 2 + 1e-12
        if self.exact:
            return self.printed == self.computed
        return rounded or math.isclose(self.printed, self.computed, rel_tol=CLOSE)

    def line(self) -> str:
        """Return it for a terminal."""
        mark = "" if self.agrees else f"  does not agree: {self.note}"
        return f"{self.what:<58}{self.printed:>16,.6g}{self.computed:>16,.6g}{mark}"


def green_miner() -> Iterator[Claim]:
    """Yield those of 000: its workload, and the pushed part of it."""
    counts = {"HTML": 1, "CSS": 21, "JS": 27, "PNG": 60, "JPEG": 132}
    sizes_kb = {"HTML": 0.728, "CSS": 27.0, "JS": 201.10, "PNG": 11.9, "JPEG": 2385.36}
    pushed = ("CSS", "JS", "PNG")
    total_kb = sum(sizes_kb.values())
    pushed_kb = sum(sizes_kb[kind] for kind in pushed)
    why = "they are 241, or 240 without the HTML"
    yield Claim("table I: resources", 240, sum(counts.values()), why, exact=True)
    yield Claim("table I: size, KB", 2626.08, total_kb)
    yield Claim("the same, MB", 2.56, total_kb / 1024)
    yield Claim("resources that are pushed", 108, sum(counts[kind] for kind in pushed))
    yield Claim("size of these, KB", 240, pushed_kb)
    yield Claim("their share, about, %", 10, 100 * pushed_kb / total_kb, unit=2)
    yield Claim("resources that an HTTP/2 client requests", 132, 240 - 108)
    yield Claim("ten clients, MB", 25.6, 10 * total_kb / 1024)


def speeder() -> Iterator[Claim]:
    """Yield those of 001: shares of the bytes that a browser sends."""
    rows = (
        ("10 large files, h2s", 2_177_600, (504, 0.02, 0.01), (1227, 0.05, 0.01)),
        ("10 large files, h1s", 2_177_600, (2419, 0.1, 0.1), (2993, 0.1, 0.1)),
        ("42 medium files, h2s", 1_075_000, (649, 0.06, 0.01), (1362, 0.1, 0.1)),
        ("42 medium files, h1s", 1_075_000, (2786, 0.2, 0.1), (3346, 0.3, 0.1)),
        ("400 small files, h2s", 610_000, (29_580, 4, 1), (38_680, 6, 1)),
        ("400 small files, h1s", 610_000, (165_300, 27, 1), (177_600, 29, 1)),
    )
    for name, size, *hosts in rows:
        for number, (sent, share, unit) in zip((1, 4), hosts, strict=True):
            what = f"table 2: {name}, {number} host{'s'[: number - 1]}, %"
            yield Claim(
                what, share, 100 * sent / size, "its digits were cut off, not rounded", unit
            )


def chapter4() -> Iterator[Claim]:
    """Yield those of the thesis' chapter 4: table 4.3's sums and means, shares of the cache."""
    names = ("no Varnish", "default", "aggressive", "sleep", "survey")
    fates = ("HTTP 200", "HTTP 404", "HTTP 503", "robots told to come back", "waiting pages")
    for number, name in enumerate(names):
        cells = {row: float(values[number] or 0) for row, values in THESIS.items()}
        server, proxy = cells["served by the server"], cells["answered by the proxy"]
        means_s = cells["mean delay, server, s"], cells["mean delay, proxy, s"]
        requests = cells["requests"]
        yield Claim(f"table 4.3, {name}: requests, by who served", requests, server + proxy + 7)
        by_fate = sum(cells[fate] for fate in fates)
        yield Claim(f"table 4.3, {name}: the same, by fate", requests, by_fate)
        # Its parts are rounded to a millisecond themselves.
        mean_s = (server * means_s[0] + proxy * means_s[1]) / (server + proxy)
        yield Claim(
            f"table 4.3, {name}: mean delay, s", cells["mean delay, all, s"], mean_s, "", 2e-3
        )
    yield Claim("served by the cache, default, %", 17, 100 * 7010 / 40305, "", 1)
    yield Claim("served by the cache, aggressive, %", 31, 100 * 12625 / 40305, "", 1)
    yield Claim("longest sleep and wake of table 4.2 (taken as 5 s), s", 5, 4.3 + 0.2, "", 1)
    yield Claim(
        "gap that breaks even by table 4.2 (taken as 5 s), s", 5, Power().break_even_s, "", 2
    )
    yield Claim(
        "saving: chapter 1 says up to, chapter 4 about, %", 20, 25, "they contradict each other"
    )


def chapter5() -> Iterator[Claim]:
    """Yield those of the thesis' chapter 5: sizes, rates by time, and orders of quantiles."""
    for scale, gb in ((15, 0.240), (70, 1.12), (600, 9.6)):
        yield Claim(f"table 5.1: size at scale {scale}, GB", gb, scale * 16 / 1000)
    yield Claim("primes up to 20,000", 2262, sum(map(_prime, range(20_001))))
    for name, total_s, mean_ms in (
        ("bare metal", 33.05, 3.30),
        ("Xen", 33.05, 3.31),
        ("Docker", 32.50, 3.25),
    ):
        yield Claim(
            f"table 5.2, {name}: mean of 10,000 requests, ms", mean_ms, total_s / 10, "", 0.01
        )
    for name, rate, kib, mb_s in (
        ("seek, bare metal", 305, 4, 1.2),
        ("seek, Xen", 10_000, 4, 39.0),
        ("seek, Docker", 302, 4, 1.18),
        ("read, bare metal", 265, 256, 66.4),
        ("read, Xen", 3200, 256, 809.5),
        ("read, Docker", 275, 256, 68.8),
    ):
        # The rates have two or three digits.
        yield Claim(f"table 5.4, {name}: MB/s", mb_s, rate * kib / 1024, "", 0.04 * mb_s)
    for name, low, high in (
        ("seek, bare metal: mean is at most the maximum, ms", 3.3, 0.434),
        ("seek, Xen: minimum is at most the 95th percentile, ms", 0.093, 0.008),
        ("read, Xen: the same, ms", 0.264, 0.047),
    ):
        why = "rows are mixed up: ioping prints minimum, mean, maximum and deviation"
        yield Claim(f"table 5.4, {name}", low, min(low, high), why)
    blocks = 10 * 2**30 / 2**14
    for table in ("5.5", "5.6"):
        yield Claim(f"table {table}: sequential operations, 10 GB by 16 kB", 655_360, blocks)
    for name, reads, writes, per_s in (
        ("bare metal", 26_004, 17_336, 144.47),
        ("Xen", 22_955, 15_303, 127.52),
        ("Docker", 23_514, 15_676, 130.63),
    ):
        yield Claim(f"table 5.7, random, {name}: requests/s", per_s, (reads + writes) / 300)
    for name, writes, per_s in (
        ("bare metal", 39_500, 131.67),
        ("Xen", 31_300, 104.33),
        ("Docker", 42_600, 141.99),
    ):
        yield Claim(f"table 5.8, random, {name}: requests/s", per_s, writes / 300)


def _prime(number: int) -> bool:
    return number > 1 and all(number % n for n in range(2, math.isqrt(number) + 1))


def load_tests() -> Iterator[Claim]:
    """Yield those of 003: requests of a user, however they are sent."""
    for name, requests in (
        ("15 connections of 5 requests", 15 * 5),
        ("15 streams of 5 requests", 1 * 15 * 5),
        ("75 streams of 1 request", 1 * 75 * 1),
    ):
        yield Claim(f"requests of a user: {name}", 75, requests)
    for connections, streams in ((600, 1), (300, 2), (200, 3), (20, 30), (10, 60)):
        yield Claim(
            f"18,000 requests/s: {connections} connections by {streams}",
            600,
            connections * streams,
        )


def transfers() -> Iterator[Claim]:
    """Yield those of 004: joules of figure 5, and a target."""
    yield Claim("figure 5: 4.2 W for 145 s, J", 608, 4.2 * 145)
    yield Claim(
        "figure 5: 19.5 W for 23 s, J", 437, 19.5 * 23, "rounding explains 438 J at least, not 437"
    )
    yield Claim("95 % of 2600 Mbit/s", 2470, 0.95 * 2600)


def documents() -> dict[str, list[Claim]]:
    """Return all claims by document."""
    from naproxy.lab.papers import bitcoin  # noqa: PLC0415 - it takes Claim from here

    return {
        "000, energy of HTTP/2": list(green_miner()),
        "001, page loads": list(speeder()),
        "002, the thesis": list(chain(chapter4(), chapter5(), bitcoin.claims())),
        "003, load tests": list(load_tests()),
        "004, energy-aware transfer": list(transfers()),
    }


def lines() -> Iterator[str]:
    """Yield all of them as text."""
    for document, found in documents().items():
        yield f"{document:<58}{'printed':>16}{'computed':>16}"
        yield from (claim.line() for claim in found)
        yield ""
    everything = [claim for found in documents().values() for claim in found]
    yield f"{sum(claim.agrees for claim in everything)} of {len(everything)} numbers agree"
