"""What the box measures, under one name and one unit wherever it is shown.

`naproxy export`, Prometheus and Home Assistant take names, units and words from here. The
names end in the unit: watts, joules, seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from naproxy.core.state import State

PREFIX: Final = "naproxy_"


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure: its name, whether it only ever grows, and what it is, in words."""

    name: str
    kind: str
    help: str


POWER: Final = Measure("power_watts", "gauge", "Power that a meter measures now")
ENERGY: Final = Measure("energy_joules_total", "counter", "Energy that a meter has measured")
UP: Final = Measure("server_state", "gauge", "1 for the state that a server was seen in")
OVER: Final = Measure(
    "clients_over_share", "gauge", "Addresses that have used up their share of the server today"
)
HELD: Final = Measure("held_requests", "gauge", "Requests that wait for the server")
REQUESTS: Final = Measure("requests_total", "counter", "Requests by class and outcome")
DELAYED: Final = Measure(
    "delayed_requests_total", "counter", "Requests that waited longer than promised"
)
WAKES: Final = Measure(
    "wake_requests_total", "counter", "Requests that asked for a wake, by reason"
)
PACKETS: Final = Measure("magic_packets_total", "counter", "Magic packets that Varnish sent")
AROUND: Final = Measure(
    "around_visits_total", "counter", "Visits that were seen to come past the box"
)
VERSION: Final = Measure("build_info", "gauge", "1; its label is the version that runs")
REFUSED: Final = Measure(
    "settings_refused", "gauge", "1 while the settings are refused, and older ones in force"
)
ARMED: Final = Measure(
    "server_armed", "gauge", "1 while the box may put the server to sleep by itself"
)
ALERT: Final = Measure("server_alert", "gauge", "1 while the box warns of the server")
STARTED: Final = Measure("start_time_seconds", "gauge", "When the controller started")
LOST: Final = Measure(
    "events_lost_total", "counter", "Requests that the controller did not hear of"
)
WRITTEN: Final = Measure("history_writable", "gauge", "1 while the history can be written")

DOOR: Final = Measure(
    "front_door_up", "gauge", "1 while the box answers on a port of its outside address"
)
EDGE_UP: Final = Measure("edge_up", "gauge", "1 while HTTPS is served as the settings want it")
ENDS: Final = Measure(
    "certificate_expires_seconds", "gauge", "When a certificate of HTTPS ends, Unix time"
)

STARTS: Final = Measure(
    "certificate_starts_seconds", "gauge", "When a certificate of HTTPS began, Unix time"
)

Sample = tuple[Measure, Mapping[str, str], float]
"""A measure, its labels, its value."""


def samples(status: Mapping[str, Any]) -> Iterator[Sample]:
    """Yield all that a status of the control API (GET /v1/status) says in figures.

    What is not known has no sample: a silent meter has no power, not 0 W.
    """
    box = status["box"]
    yield VERSION, {"version": box["version"]}, 1.0
    yield STARTED, {}, box["started_s"]
    yield REFUSED, {}, float(box["settings_refused"] is not None)
    yield LOST, {}, box["events_lost"]
    yield WRITTEN, {}, float(box["history_error"] is None)
    front = box.get("front_door") or {"looked_s": None}
    if front["looked_s"] is not None:
        for each in front["ports"]:
            yield DOOR, {"port": str(each["port"])}, float(each["problem"] is None)
    if box["edge"]["wanted"]:
        yield EDGE_UP, {}, float(box["edge"]["problem"] is None)
    for certificate in box["edge"]["certificates"]:
        yield ENDS, {"certificate": certificate["id"]}, certificate["not_after_s"]
        if "not_before_s" in certificate:
            yield STARTS, {"certificate": certificate["id"]}, certificate["not_before_s"]
    for meter, energy_j in box["energy_j"].items():
        yield ENERGY, {"meter": meter}, energy_j
    for meter in status["meters"]:
        if meter["power_w"] is not None:
            estimated = "true" if meter["estimated"] else "false"
            labels = {"meter": meter["id"], "of": meter["of"], "estimated": estimated}
            yield POWER, labels, meter["power_w"]
    for server in status["servers"]:
        yield from _server(server)


def _server(server: Mapping[str, Any]) -> Iterator[Sample]:
    counters, of = server["counters"], {"server": server["id"]}
    for state in State:
        name = state.name.lower()
        yield UP, {**of, "state": name}, float(server["state"] == name)
    yield ARMED, of, float(server["armed"])
    yield ALERT, of, float(server["alert"] is not None)
    yield HELD, of, server["held"]
    yield OVER, of, server["over_share"]["addresses"]
    for klass, outcomes in counters["requests"].items():
        for outcome, number in outcomes.items():
            yield REQUESTS, {**of, "class": klass, "outcome": outcome}, number
    yield DELAYED, of, counters["delayed"]
    yield PACKETS, of, counters["magic_packets"]
    if around := (server.get("https") or {}).get("around"):
        yield AROUND, of, around["total"]
    for reason, number in counters["wakes"].items():
        yield WAKES, {**of, "reason": reason}, number


def prometheus(status: Mapping[str, Any]) -> str:
    """Return a status in Prometheus' text format, version 0.0.4."""
    families: dict[Measure, list[str]] = {}
    for measure, labels, value in samples(status):
        said = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
        line = f"{PREFIX}{measure.name}{f'{{{said}}}' if said else ''} {float(value)!r}"
        families.setdefault(measure, []).append(line)
    lines = []
    for measure, said_lines in families.items():
        name = PREFIX + measure.name
        lines += [f"# HELP {name} {measure.help}", f"# TYPE {name} {measure.kind}", *said_lines]
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
