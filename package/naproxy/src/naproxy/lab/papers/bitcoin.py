"""Chapter 6 of the thesis: bounds on the energy of mining bitcoins, printed next to computed.

    python -m naproxy.lab.papers.bitcoin [--html FILE]

Hashes are counted singly here, where the thesis has millions: an efficiency is in hashes per joule.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import time
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

from naproxy.lab.papers.claims import CLOSE, Claim
from naproxy.lab.papers.numbers import TABLES, caption
from naproxy.lab.svg import Line, line_chart, own_ids

T_MAX: Final = (2**16 - 1) * 2**208
"""The easiest target."""
BLOCK_S: Final = 600.0
"""The network aims for a block in so long."""
HALVING: Final = 210_000
"""Blocks after which the reward is halved."""
MHASH: Final = 1e6
_JOULES_PER_KWH: Final = 3.6e6
_YEAR_S: Final = 365.25 * 86400

# ------------------------------------------------------------------------------- equations


def block_hash(header: bytes) -> int:
    """H(B.N) of equation 6.1: SHA-256 twice, read as a number as Bitcoin does."""
    return int.from_bytes(hashlib.sha256(hashlib.sha256(header).digest()).digest(), "little")


def target(bits: int) -> int:
    """Return the target T that a header's short form stands for: 256 ** (first byte - 3)."""
    exponent, mantissa = bits >> 24, bits & 0xFFFFFF
    return int(mantissa * 256 ** (exponent - 3))


def solved(header: bytes, most: int) -> bool:
    """Does a header satisfy equation 6.1 for this target: H(B.N) < T?"""
    return block_hash(header) < most


def difficulty(most: int) -> float:
    """D = T_max / T, for a target (section 6.2.1)."""
    return T_MAX / most


def hashes_per_block(difficulty_: float) -> float:
    """Return the hashes expected for a block: D 2^32, as the thesis rounds it."""
    return difficulty_ * 2**32


def expected_s(difficulty_: float, rate: float) -> float:
    """Return E[t] of equation 6.2 in seconds; `rate` is in hashes per second."""
    return hashes_per_block(difficulty_) / rate


def reward(height: int) -> float:
    """Return the standard reward of a block in bitcoins: 50, halved every 210,000 blocks."""
    return float(50 / 2 ** (height // HALVING))


def cost(difficulty_: float, efficiency: float, price_kwh: float) -> float:
    """Return C_e, the cost of the energy for one block; `efficiency` in hashes per joule."""
    return hashes_per_block(difficulty_) / efficiency / _JOULES_PER_KWH * price_kwh


def network_rate(difficulty_: float) -> float:
    """Return R_net, the network's hashes per second."""
    return hashes_per_block(difficulty_) / BLOCK_S


def network_w(difficulty_: float, efficiency: float) -> float:
    """Return P_net in watts, if all of the network has this efficiency."""
    return network_rate(difficulty_) / efficiency


# ------------------------------------------------------------------------------------ data


class Block(NamedTuple):
    """A block's header: its time (epoch seconds) and its target's short form."""

    height: int
    t_s: int
    bits: int

    @property
    def difficulty(self) -> float:
        """The difficulty it was found at."""
        return difficulty(target(self.bits))


BLOCKS: Final = tuple(
    Block(*each)
    for each in (
        (16128, 1243737085, 0x1D00FFFF),
        (32256, 1262153464, 0x1D00D86A),
        (48384, 1270120042, 0x1C2A1115),
        (64512, 1278381464, 0x1C0AE493),
        (80640, 1284861847, 0x1B4766ED),
        (96768, 1291933202, 0x1B055953),
        (112896, 1299684355, 0x1B00DC31),
        (129024, 1307363105, 0x1A1D932F),
        (145152, 1315906316, 0x1A098EA5),
        (161280, 1326047176, 0x1A0D69D7),
        (177408, 1335512370, 0x1A0B1EF7),
        (193536, 1344772855, 0x1A07A85E),
        (209664, 1353928229, 0x1A04E0EA),
        (225792, 1363249946, 0x1A0375FA),
        (241920, 1371418654, 0x1A00DE15),
        (258048, 1379202248, 0x19262222),
        (274176, 1386684686, 0x1904BA6E),
        (290304, 1394676764, 0x190102B1),
        (306432, 1403061280, 0x1851ABA2),
        (322560, 1411680080, 0x181FB893),
        (338688, 1421084073, 0x1819012F),
        (354816, 1430677341, 0x181713DD),
        (370944, 1440204583, 0x181443C4),
        (387072, 1449444652, 0x180DE64F),
        (405216, 1459492475, 0x180696F4),
        (419328, 1467674161, 0x180526FD),
    )
)
"""Every eighth change of the difficulty, and that of the thesis' first footnotes (1 April 2016).

Source: the headers in bitcoinj's list of checkpoints (org.bitcoin.production.checkpoints.txt). Each
proves itself by equation 6.1.
"""

HEADER: Final = bytes.fromhex(
    "04000000f7ef2881b8a0cb415ba81e889c79bc5f1b098167c95646030000000000000000"
    "a48869fe8d6777821fa85525139cb77d12c440c16182c637e943dfea7d937daa"
    "7b16fe56f49606185628272d"
)
"""Block 405,216's: version, the block before, the transactions, time, target, nonce."""
_HEIGHT: Final = 405_216
_FIELDS: Final = (
    ("version", 0, 4),
    ("hash of the block before", 4, 36),
    ("root of the transactions' hashes", 36, 68),
    ("time", 68, 72),
    ("target, short", 72, 76),
    ("nonce N", 76, 80),
)


class Market(NamedTuple):
    """A day's difficulty, exchange rate in dollars, and mean fee of a block in bitcoins."""

    t_s: int
    difficulty: float
    dollars: float
    fee: float


MARKET: Final = tuple(
    Market(*each)
    for each in (
        (1313020800, 1888786.71, 9.44, 7.096 / 137),  # 11 August 2011
        (1338508800, 1591074.96, 5.27, 16.248 / 152),  # 1 June 2012
        (1367798400, 10076292.88, 112.12, 43.565 / 166),  # 6 May 2013
        (1396310400, 5006860589.21, 479.01, 12.441 / 171),  # 1 April 2014
        (1422748800, 41272873894.70, 227.11, 11.127 / 155),  # 1 February 2015
        (1451952000, 103880340815.46, 432.67, 32.511 / 157),  # 5 January 2016
    )
)
"""Six days, where the thesis has each day of blockchain.info's charts.

Source: Coin Metrics' community data, csv/btc.csv, DiffMean, PriceUSD, and FeeTotNtv by BlkCnt.
"""


class Machine(NamedTuple):
    """A row of table 6.1; `printed` is its efficiency there, in Mhash/J."""

    name: str
    kind: str
    mhash_s: float
    power_w: float
    printed: float
    dollars: float

    @property
    def efficiency(self) -> float:
        """Hashes per joule, R / P."""
        return self.mhash_s * MHASH / self.power_w


MACHINES: Final = (
    Machine("Core i7 950", "CPU", 18.9, 150, 0.126, 350),
    Machine("Atom N450", "CPU", 1.6, 6.5, 0.31, 169),
    Machine("Sony Playstation 3", "CELL", 21.0, 60, 0.35, 296),
    Machine("ATI 4850", "GPU", 101.0, 110, 0.918, 45),
    Machine("ATI 5770", "GPU", 214.5, 108, 1.95, 80),
    Machine("Digilent Nexys 2 500K", "FPGA", 5.0, 5, 1, 189),
    Machine("Monarch BPU 600 C", "ASIC", 600_000.0, 350, 1714, 2196),
    Machine("Block Erupter Sapphire", "ASIC", 333.0, 2.55, 130, 34.99),
)
PRICE_KWH: Final = 0.10
"""Dollars: the lowest of Eurostat's of 2013, as the thesis takes it."""
COMMODITY: Final = 2 * MHASH
SPECIALIST: Final = 2000 * MHASH
"""The two efficiencies of section 6.5."""

# ------------------------------------------------------------------- printed next to computed


def claims() -> list[Claim]:
    """Return each number that can be computed from the chapter's inputs, or from the chain."""
    now = next(block for block in BLOCKS if block.height == _HEIGHT)
    printed_d = 166_851_513_283
    found = [
        Claim("difficulty on 1 April 2016", printed_d, now.difficulty),
        Claim(
            "E[t] at 1 Mhash/s (equation 6.2), s",
            7.16621792838594592768e14,
            expected_s(printed_d, MHASH),
        ),
        Claim("the same, million years", 22.72, expected_s(printed_d, MHASH) / _YEAR_S / 1e6),
        Claim("reward in April 2016", 25, reward(now.height)),
        Claim("reward in October 2016", 12.5, reward(2 * HALVING)),
    ]
    for machine in MACHINES:
        note = ""
        if not math.isclose(machine.printed, machine.efficiency / MHASH, rel_tol=CLOSE):
            note = (
                f"{machine.mhash_s:g} Mhash/s by {machine.power_w:g} W is not {machine.printed:g}"
            )
        found.append(
            Claim(
                f"table 6.1: {machine.name}, Mhash/J",
                machine.printed,
                machine.efficiency / MHASH,
                note,
            )
        )
    low_gw, high_gw = (network_w(printed_d, e) / 1e9 for e in (SPECIALIST, COMMODITY))
    needed = network_rate(printed_d) / 10e9 / MHASH
    found += [
        Claim(
            "power of the network, all at 2000 Mhash/J, GW",
            0.1,
            low_gw,
            "0.1 GW is that of the difficulty of September 2014",
        ),
        Claim(
            "the same, all at 2 Mhash/J, GW",
            10,
            high_gw,
            f"10 GW would take {needed:.0f} Mhash/J, not 2",
        ),
    ]
    return found


def halving_day(number: int) -> str:
    """Return when the reward was halved: at ten minutes a block from the last one known before."""
    height = number * HALVING
    before = max((b for b in BLOCKS if b.height < height), key=lambda b: b.height)
    return _date(before.t_s + (height - before.height) * BLOCK_S)


def _date(t_s: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(t_s))


def _reward_at(t_s: float) -> float:
    return reward(max((b for b in BLOCKS if b.t_s <= t_s), key=lambda b: b.t_s).height)


def profits() -> Iterator[tuple[str, str, float, float]]:
    """Yield day, machine, cost of the energy for a bitcoin, and its value, in dollars."""
    for day in MARKET:
        for machine in MACHINES:
            block = cost(day.difficulty, machine.efficiency, PRICE_KWH)
            yield _date(day.t_s), machine.name, block / _reward_at(day.t_s), day.dollars


# ------------------------------------------------------------------------------- words, figures


def lines() -> Iterator[str]:
    """Yield printed next to computed, as text."""
    yield f"{'':<58}{'the thesis':>16}{'computed':>16}"
    yield from (each.line() for each in claims())
    for number, printed in ((1, "2012-11-28"), (2, "2016-06-09")):
        found = halving_day(number)
        mark = "" if found == printed else "  does not agree: block 420,000 came a month later"
        yield f"{f'halving number {number}':<58}{printed:>16}{found:>16}{mark}"
    yield ""
    yield "Which machine's energy costs less than a bitcoin, at 0.10 dollars a kWh:"
    for day, name, cost_, value in profits():
        pays = "pays" if cost_ < value else "does not pay"
        yield f"{day}  {name:<24}{cost_:>12,.2f} of {value:>8,.2f} dollars: {pays}"


def header_rows() -> list[tuple[str, str]]:
    """Return figure 6.1 of a real block: its header's fields, its hash, and its target."""
    fields = [(name, HEADER[start:end].hex()) for name, start, end in _FIELDS]
    most = target(int.from_bytes(HEADER[72:76], "little"))
    return [*fields, ("H(B.N)", f"{block_hash(HEADER):064x}"), ("target T", f"{most:064x}")]


def _year(t_s: float) -> float:
    return 1970 + t_s / _YEAR_S


def figures() -> Iterator[str]:
    """Yield the figures that are curves, as SVG."""
    when = "year"
    yield line_chart(
        caption("6.2"),
        "A line of the difficulty, at every eighth of its changes.",
        [Line("difficulty", [(_year(b.t_s), b.difficulty) for b in BLOCKS])],
        x_label=when,
        y_label="difficulty",
        log_y=True,
    )
    yield line_chart(
        caption("6.3"),
        "A line of the mean fee of a block on six days.",
        [Line("fee", [(_year(m.t_s), m.fee) for m in MARKET])],
        x_label=when,
        y_label="bitcoins a block",
    )
    value = Line("a bitcoin", [(_year(m.t_s), m.dollars) for m in MARKET])
    yield line_chart(
        caption("6.4"),
        "A line of the exchange rate on six days.",
        [value],
        x_label=when,
        y_label="dollars",
        log_y=True,
    )
    shown = [m for m in MACHINES if m.name not in ("Atom N450", "ATI 4850", "Sony Playstation 3")]
    curves = [
        Line(
            machine.name,
            [
                (_year(b.t_s), cost(b.difficulty, machine.efficiency, PRICE_KWH) / reward(b.height))
                for b in BLOCKS
                if b.difficulty > 1
            ],
        )
        for machine in shown
    ]
    yield line_chart(
        caption("6.5"),
        "Lines of what the energy for a bitcoin costs with each machine, and of its value.",
        [*curves, value],
        x_label=when,
        y_label="dollars a bitcoin",
        log_y=True,
    )
    yield line_chart(
        caption("6.6"),
        "Lines of the power of the network, if all of it has one efficiency.",
        [
            Line(name, [(_year(b.t_s), network_w(b.difficulty, e) / 1e9) for b in BLOCKS])
            for name, e in (("2 Mhash/J", COMMODITY), ("2000 Mhash/J", SPECIALIST))
        ],
        x_label=when,
        y_label="power, GW",
        log_y=True,
    )


def page() -> str:
    """Return all of it as one page, which needs nothing from elsewhere."""
    rows = "".join(
        f"<tr><th>{escape(name)}<td><code>{value}</code>" for name, value in header_rows()
    )
    machines = "".join(
        f"<tr><td>{m.name}<td>{m.kind}<td>{m.mhash_s:g}<td>{m.power_w:g}<td>{m.printed:g}"
        f"<td>{m.efficiency / MHASH:.4g}<td>{m.dollars:g}"
        for m in MACHINES
    )
    drawn = []
    for n, svg in enumerate(figures()):
        drawn.append(f"<figure>{own_ids(svg, str(n))}</figure>")
    return (
        '<!DOCTYPE html>\n<html lang="en"><meta charset="utf-8"><title>Energy of mining</title>'
        "<style>:root { color-scheme: light dark } body { font: 15px/1.5 system-ui, sans-serif;"
        " max-width: 1000px; margin: 2em auto } figure { max-width: 760px; margin: 1em 0 }"
        " th { text-align: left } code, pre { font-size: 12px }</style>\n"
        "<h1>The thesis' chapter 6, printed next to computed</h1>"
        f"<pre>{escape(chr(10).join(lines()))}</pre>"
        f"<h2>{escape(caption('6.1'))}</h2><table>{rows}</table>"
        f"<h2>Table 6.1: {escape(TABLES['6.1'].title)}</h2><table><tr><th>machine<th>kind"
        f"<th>Mhash/s<th>W<th>Mhash/J, the thesis<th>computed<th>dollars"
        f"{machines}</table>{''.join(drawn)}\n"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print it; write the page."""
    parser = argparse.ArgumentParser(
        prog="python -m naproxy.lab.papers.bitcoin",
        description="Compute chapter 6 of the thesis, and print each number next to the thesis'.",
    )
    parser.add_argument(
        "--html", metavar="FILE", type=Path, help="also write a page with the figures"
    )
    args = parser.parse_args(arguments)
    for line in lines():
        print(line.rstrip())
    if args.html:
        args.html.write_text(page(), "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
