"""Keys that older files have: each is still read, with a warning that says what became of it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from naproxy.config.installation import Installation, argument
from naproxy.core.reason import Reason
from naproxy.core.schema import Problem, label

_OF_WAYS: Final = (
    *("attempts", "timeout_s", "connect_timeout_s", "to_all", "pulse_ms"),
    *("known_hosts_file", "uri", "level", "cipher_suite"),
)
"""Keys that ways to wake a server had."""

OLD: Final[dict[str, str | None]] = {
    **{f"box.{field.name}": argument(field.name) for field in fields(Installation)},
    "box.learn_robots": None,
    "box.heartbeat_s": None,
    "mqtt.discovery": None,
    "mqtt.every_s": None,
    "fleet.tenant": None,
    "fleet.name": None,
    "certificate.kind": None,
    "server.redirect_robots": "defer_crawlers",
    "server.wake_expect_s": None,
    "server.crawler_retry_s": None,
    "server.connect_timeout_s": None,
    "server.awake.least_s": None,
    "server.awake.work_s": None,
    "server.awake.time_zone": "office.time_zone",
    **{
        f"server.{ways}.{key}": now
        for ways in ("sleep", "wake", "rung")
        for key, now in {
            "domain": "machine",
            "system": "machine",
            "token_file": "password_file",
        }.items()
    },
    "server.cache.grace_s": None,
    "server.share.network_awake_s": None,
    "server.hold.cap": None,
    "server.policy.utc_offset": None,
    "server.policy.counting": None,
    "server.policy.tick_s": None,
    "server.policy.robots": None,
    "server.policy.min_idle_s": None,
    "server.policy.delta_s": None,
    "server.policy.threshold_s": None,
    "server.policy.budget_hours": None,
    "server.cache.warm_sla": None,
    "server.hold.release_batch": None,
    "server.hold.release_ms": None,
    "server.sleep.answer_s": None,
    "server.sleep.expect_s": None,
    "server.sleep.known_hosts_file": None,
    "server.sleep.connect_timeout_s": None,
    "server.sleep.level": None,
    "server.sleep.cipher_suite": None,
    "server.sleep.uri": None,
    **{f"server.{ways}.{key}": None for ways in ("wake", "rung") for key in _OF_WAYS},
    "server.ready.timeout_s": None,
    "server.ready.interval_s": None,
    "server.ready.status": None,
    "server.share.awake_s": None,
    "server.share.wakes": None,
    "meter.highest_w": None,
    "meter.timeout_s": None,
    "meter.interface": None,
    "meter.i2c_address": None,
    "meter.settings_file": None,
    "meter.base_w": "on_w",
    "meter.asleep_w": "off_w",
    "meter.period_s": "interval_s",
    "meter.ups": "host",
    "meter.component": "kind",
    "meter.sensor": "channel",
    "meter.outlet": "channel",
    "meter.community_file": "password_file",
    "meter.token_file": "password_file",
    "meter.entity": "source",
    "meter.oid": "source",
    "meter.path": "source",
    "meter.variable": "source",
}
"""What became of each: an argument of the service, another name in its section, a key of another
section (with a dot), or nothing."""


def _hours(policy: Mapping[str, Any]) -> Any:
    days, opens = policy.get("days", ["mon-fri"]), policy.get("opens", "07:00")
    closes = policy.get("closes", "19:00")
    if days == [] or opens in (closes, "24:00"):
        return []
    days = days if isinstance(days, list) else [days]
    return [f"{','.join(map(str, days))} {opens}-{closes}"]


def _guest(way: Mapping[str, Any]) -> Any:
    return f"{way.get('node')}/{way.get('kind', 'qemu')}/{way.get('vmid')}"


def _call(way: Mapping[str, Any]) -> Any:
    arguments = way["arguments"] if isinstance(way["arguments"], list) else [way["arguments"]]
    if not way.get("program"):
        return ""
    return " ".join([str(way["program"]), *(shlex.quote(str(each)) for each in arguments)])


def _chip(meter: Mapping[str, Any]) -> Any:
    if meter.get("via") == "i2c":
        return f"/dev/i2c-{meter.get('bus', 1)}"
    if meter.get("via") == "hwmon":
        return meter.get("hwmon_dir", "/sys/class/hwmon/hwmon0")
    return meter.get("device", "/dev/ttyACM0")


@dataclass(frozen=True, slots=True)
class Joined:
    """What several keys of the section at `path` said, one key says now."""

    path: str
    keys: tuple[str, ...]
    now: str
    join: Callable[[Mapping[str, Any]], Any]


JOINED: Final = (
    Joined("server.policy", ("days", "opens", "closes"), "hours", _hours),
    *(
        Joined(f"server.{ways}", ("node", "kind", "vmid"), "machine", _guest)
        for ways in ("sleep", "wake", "rung")
    ),
    *(
        Joined(f"server.{ways}", ("arguments",), "program", _call)
        for ways in ("sleep", "wake", "rung")
    ),
    Joined("meter", ("via", "bus", "hwmon_dir"), "device", _chip),
)

NO_LIMIT: Final = "strangers_cost"
"""With 0 no client has a limit, as with `awake_s` before."""

FIRST_WAY: Final = "etherwake"
"""The driver of the way to wake a server for which none is given."""

_OF_THE_TABLE: Final = {
    "expect_s": None,
    "interface": "server.interface",
    "broadcast": "server.wake.address",
    "direct": None,
    "direct_port": None,
}
"""What became of the keys that a server's table `wake` had besides those of its driver."""


@dataclass(frozen=True, slots=True)
class Old:
    """An old key that a file has, at the path `where`, in the table `section`."""

    section: dict[str, Any]
    key: str
    where: str
    now: str | None

    @property
    def is_argument(self) -> bool:
        """Does the file keep it, for where the argument is not given?"""
        return self.now is not None and self.now.startswith("--")

    @property
    def is_elsewhere(self) -> bool:
        """Is it another section's now? Then what is given there holds."""
        return self.now is not None and "." in self.now

    def warning(self) -> Problem:
        """Say what became of it."""
        if self.now is None:
            return Problem(self.where, Reason("config.now_gone"))
        code = "config.now_argument" if self.is_argument else "config.now_called"
        return Problem(self.where, Reason(code, name=self.now))


def found(data: dict[str, Any]) -> Iterator[Old]:
    """Yield the old keys in the plain data of a file."""
    for path, now in OLD.items():
        *above, key = path.split(".")
        for section, where in _sections(data, above, ""):
            if key in section:
                yield Old(section, key, f"{where}.{key}", now)


@dataclass(frozen=True, slots=True)
class OldJoined:
    """Keys that a section has of those that one key says together now, at the path `where`."""

    section: dict[str, Any]
    where: str
    keys: tuple[str, ...]
    now: str
    value: Any

    def warnings(self) -> Iterator[Problem]:
        """Say what became of them."""
        for key in self.keys:
            yield Old(self.section, key, f"{self.where}.{key}", self.now).warning()


def found_joined(data: dict[str, Any]) -> Iterator[OldJoined]:
    """Yield them, for each section that has any."""
    for joined in JOINED:
        for section, where in _sections(data, joined.path.split("."), ""):
            if keys := tuple(key for key in joined.keys if key in section):
                yield OldJoined(section, where, keys, joined.now, joined.join(section))


def without_limits(data: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the sections, and where they are, in which 0 said that no client has a limit."""
    for section, where in _sections(data, ["server", "share"], ""):
        if section.get("awake_s") == 0 and NO_LIMIT not in section:
            yield section, where


def _sections(here: Any, path: Sequence[str], where: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the tables at a path, each member of an array, with where they are."""
    if isinstance(here, list):
        for number, member in enumerate(here, 1):
            yield from _sections(member, path, label(where, member, number))
    elif isinstance(here, dict):
        if not path:
            yield here, where
        elif path[0] in here:
            below = f"{where}.{path[0]}" if where else path[0]
            yield from _sections(here[path[0]], path[1:], below)


@dataclass(frozen=True, slots=True)
class OldWays:
    """A server's ways to wake in an older form: a table `wake`, and a list `rung` of others."""

    server: dict[str, Any]
    where: str

    def warnings(self) -> Iterator[Problem]:
        """Say what became of them."""
        table, now = self.server.get("wake"), "[[server.wake]]"
        if isinstance(table, dict):
            yield Problem(f"{self.where}.wake", Reason("config.now_list", name=now))
            for key in (key for key in _OF_THE_TABLE if key in table):
                yield Old(table, key, f"{self.where}.wake.{key}", _OF_THE_TABLE[key]).warning()
        if "rung" in self.server:
            yield Problem(f"{self.where}.rung", Reason("config.now_called", name=now))


def found_ways(data: dict[str, Any]) -> Iterator[OldWays]:
    """Yield the servers with ways to wake in an older form, as far as one list can be made."""
    for server, where in _sections(data, ["server"], ""):
        wake, rung = server.get("wake", []), server.get("rung", [])
        listed = isinstance(wake, dict | list) and isinstance(rung, dict | list)
        if listed and ("rung" in server or isinstance(wake, dict)):
            yield OldWays(server, where)


def list_ways(server: Any, make: Callable[[Any, Any], Any]) -> None:
    """Make one list of a server's ways to wake.

    `make` turns a value into what belongs into a container: of TOML, or of plain data.
    """
    first, others = server.pop("wake", {"driver": FIRST_WAY}), server.pop("rung", [])
    others = list(others) if isinstance(others, list) else [others]
    if isinstance(first, list):
        ways = [*first, *others]
    else:
        ways = [first, *others]
        whole = {key: first.pop(key) for key in _OF_THE_TABLE if key in first}
        if whole.get("interface") and first.get("address"):
            # Otherwise the routes lead to that address.
            first["interface"] = whole["interface"]
        if "interface" in whole:
            server.setdefault("interface", whole["interface"])
        to = whole.get("broadcast")
        if to and to not in [way.get("address") for way in ways if isinstance(way, dict)]:
            ways.append({"driver": "udp", "address": to})
    server["wake"] = make(ways, server)


def take(data: dict[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    """Bring the data up to date; return what old keys say of arguments, and warnings."""
    for share, _ in without_limits(data):
        share[NO_LIMIT] = 0.0
    every, arguments = list(found(data)), {}
    for old in every:
        value = old.section.pop(old.key)
        if old.is_argument:
            arguments[old.key] = value
        elif old.now and old.is_elsewhere:
            section, _, key = old.now.rpartition(".")
            table = data.setdefault(section, {})
            if value and isinstance(table, dict):
                table.setdefault(key, value)
        elif old.now:
            old.section.setdefault(old.now, value)
    warnings = [old.warning() for old in every]
    for joined in found_joined(data):
        warnings += joined.warnings()
        for key in joined.keys:
            del joined.section[key]
        joined.section[joined.now] = joined.value
    for ways in found_ways(data):
        warnings += ways.warnings()
        list_ways(ways.server, lambda value, _: value)
    return arguments, warnings
