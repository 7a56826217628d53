"""The numbers of the thesis' figures, tables and equations, with their subjects.

"Power Saving for Web Servers Using Proxies" is chapter 4 of the thesis. The titles are ours; the
words are those by which a sentence that names the number can be checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class Item(NamedTuple):
    """The subject of a figure, table or equation."""

    title: str
    words: tuple[str, ...]
    """One of them is in each sentence that names the number, and in the thesis' own caption."""


FIGURES: Final[Mapping[str, Item]] = {
    "4.1": Item("a reverse proxy", ("reverse proxy",)),
    "4.2": Item("median requests an hour", ("median", "168 hours")),
    "4.3": Item("mean requests an hour", ("mean", "168 hours")),
    "4.4": Item("gaps between all requests", ("gaps", "pauses")),
    "4.5": Item("gaps between requests that the cache does not answer", ("gaps", "pauses")),
    "4.6": Item("gaps between requests that are not robots'", ("gaps", "pauses")),
    "4.7": Item("power asleep, waking and awake", ("power",)),
    "4.8": Item("energy of the idealised model over its threshold", ("idealised", "threshold")),
    "4.9": Item("energy of the idealised model behind the cache", ("idealised", "threshold")),
    "4.10": Item("energy of the five configurations", ("energy", "five configurations")),
    "4.11": Item("delays of the five configurations", ("delays", "five configurations")),
    "4.12": Item("throughput of a faster proxy", ("performance", "throughput")),
    "5.1": Item("how virtual machines are built", ("virtual machine",)),
    "5.2": Item("how containers are built", ("container",)),
    "5.3": Item("power over time, experiments 0 to 4", ("power",)),
    "5.4": Item("total energy, experiments 0 to 4", ("energy",)),
    "5.5": Item("joules a transaction, experiments 0 to 4", ("joules",)),
    "5.6": Item("transactions a second, experiments 0 to 4", ("transactions",)),
    "5.7": Item("experiment 0 with more threads", ("threads",)),
    "5.8": Item("experiment 1 with more threads", ("threads",)),
    "5.9": Item("experiment 2 with more threads", ("threads",)),
    "5.10": Item("experiment 3 with more threads", ("threads",)),
    "5.11": Item("experiment 4 with more threads", ("threads",)),
    "6.1": Item("a block and its header", ("header", "mining")),
    "6.2": Item("difficulty over time", ("difficulty",)),
    "6.3": Item("transaction fees a block", ("fee",)),
    "6.4": Item("dollars for a bitcoin", ("exchange rate", "dollars")),
    "6.5": Item("cost of the energy for a bitcoin, and its value", ("cost",)),
    "6.6": Item("power of the network", ("power",)),
}

TABLES: Final[Mapping[str, Item]] = {
    "3.1": Item("electrical quantities and their units", ("electrical", "unit")),
    "4.1": Item("the robots that are known by name", ("spider", "crawler", "robot")),
    "4.2": Item(
        "power, switch cost and times of the server",
        ("power", "watts", " W", " J", " s", "draw", "pings", "fall_s", "e_switch"),
    ),
    "4.3": Item(
        "what became of the requests",
        ("requests", "rows", "configurations", "statistics", "delay", "shares of the cache"),
    ),
    "5.1": Item("parameters of the experiments", ("parameters", "at scale")),
    "5.2": Item("processor", ("cpu", "processor", "10,000 requests")),
    "5.3": Item("memory", ("ram", "memory")),
    "5.4": Item("latency of the disk", ("latency", "ioping", "seek")),
    "5.5": Item("sequential reads", ("sequential",)),
    "5.6": Item("sequential writes", ("sequential",)),
    "5.7": Item("random reads and writes", ("random",)),
    "5.8": Item("random writes", ("random",)),
    "5.9": Item("network", ("network",)),
    "6.1": Item("machines that mine", ("mining", "hardware", "machine", "efficiency")),
}

EQUATIONS: Final[Mapping[str, Item]] = {
    "4.1": Item(
        "E = T_on P_on + T_off P_off + N E_switch",
        ("E_switch", "energy", "E_total", "joules", "modelled"),
    ),
    "4.2": Item("the same for several runs", ("runs", "least squares")),
    "4.3": Item("least squares", ("least squares",)),
    "4.4": Item("E[T P_off + E_switch] < E[T P_on]", ("<",)),
    "4.5": Item("the same, term by term", ("<",)),
    "4.6": Item(
        "E[T] > E_switch / (P_on - P_off)", ("E[T]", "window", "expected", "pays", "power-off rule")
    ),
    "6.1": Item("H(B.N) < T", ("target", "hash", "header")),
    "6.2": Item("E[t] = D 2^32 / R", ("time", "difficulty")),
}

SECTIONS: Final[Mapping[str, Item]] = {
    "4.2": Item("investigation of traffic", ("robots", "traffic")),
    "4.3.1": Item("the energy model", ("energy", "E_switch", "switch_j", "model")),
    "4.3.2": Item("times to sleep and to wake", ("ssh", "ping")),
    "4.4": Item("the idealised model", ("ideali", "shorter", "always on", "T_o")),
    "4.5.3": Item("when to power off", ("rule",)),
    "4.5.3.2": Item("managing delay", ("delay", "D + K")),
    "4.5.4": Item("mitigating against mistakes", ("survey", "mistakes")),
    "4.6.2": Item("the five configurations", ("configurations", "evaluation")),
    "4.6.4": Item("a faster proxy", ("throughput", "performance", "faster")),
    "6.2.1": Item("difficulty", ("difficulty",)),
    "6.5": Item("power of the network", ("network", "efficienc")),
    "7.2": Item("future work", ("meters", "future")),
}


def caption(number: str) -> str:
    """Return what a figure of a report is called."""
    return f"Figure {number}: {FIGURES[number].title}"
