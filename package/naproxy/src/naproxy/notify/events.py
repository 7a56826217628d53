"""Events worth a message: each condition once, until it is over. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from naproxy.core.reason import Reason, stored_reason, together

CERTIFICATE_DAYS: Final = 14
_LAST_PART: Final = 14 / 89
"""Of its life, for one that is good for less than 89 days."""
METER_S: Final = 900.0
"""A meter that is silent for so long is not only slow."""
DOOR_S: Final = 20.0
"""An upgrade of Varnish takes less."""
DISK_BYTES: Final = 64 << 20
"""Less than this is nearly full: the history and an update's copy need it."""
_DAY_S: Final = 86400.0
_SETTLES_S: Final = 600.0
"""So long a condition must be over before it counts as new again."""
_BACK: Final = {
    "not_woken": "notify.back",
    "meter": "notify.meter_back",
    "front_door": "notify.front_door_back",
}
"""Events whose end is told, too."""


@dataclass(frozen=True, slots=True)
class Condition:
    """Something that is so now. `key` tells it from others, `after_s` is how long it must last."""

    key: str
    event: str
    reason: Reason
    more: Reason | None = None
    after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Notice:
    """Something to be told: `reason` in a line, `more` after it."""

    event: str
    reason: Reason
    more: Reason | None = None


def conditions(
    status: Mapping[str, Any], now_s: float, free_bytes: int, update: Mapping[str, Any]
) -> Iterator[Condition]:
    """Yield what holds.

    `status` and `update` are as the control API tells them, `free_bytes` is the room on the disk.
    """
    for server in status["servers"]:
        if server["state"] == "trouble":
            name = server["id"]
            why = stored_reason(server["alert"] or server["reason"])
            reason = Reason("notify.not_woken", server=name)
            yield Condition(f"not_woken:{name}", "not_woken", reason, why)
    problems = [
        stored_reason(each["problem"])
        for each in status["box"].get("front_door", {}).get("ports", ())
        if each["problem"]
    ]
    if problems:
        reason = Reason("notify.front_door")
        yield Condition("front_door", "front_door", reason, together(*problems), DOOR_S)
    for meter in status["meters"]:
        if meter["problem"]:
            name, why = meter["id"], stored_reason(meter["problem"])
            reason = Reason("notify.meter", meter=name)
            yield Condition(f"meter:{name}", "meter", reason, why, METER_S)
    yield from _certificates(status["box"]["edge"]["certificates"], now_s)
    if free_bytes < DISK_BYTES:
        reason = Reason("notify.disk", number=free_bytes >> 20)
        yield Condition("disk", "disk", reason, after_s=_SETTLES_S)
    if not update or not update["supported"]:
        return
    if update["job"]["phase"] == "failed":
        failed = update["job"]["error_reason"]
        more = stored_reason(failed) if failed else None
        yield Condition("update", "update", Reason("notify.update_failed"), more)
    booted = next((slot for slot in update["slots"] if slot["booted"]), None)
    for slot in update["slots"]:
        if booted and not slot["booted"] and not slot["good"] and slot["version"]:
            reason = Reason("notify.update_back", tried=slot["version"], runs=update["version"])
            yield Condition(f"update:{slot['version']}", "update", reason)


def aftermath(status: Mapping[str, Any]) -> dict[str, Reason]:
    """Return what stays when a condition is over, by its key: a server that may not sleep now."""
    left = ((server["id"], server.get("not_armed")) for server in status["servers"])
    return {
        f"not_woken:{name}": stored_reason(why)
        for name, why in left
        if why and why["code"] == "server.tripped"
    }


def _certificates(found: Iterable[Mapping[str, Any]], now_s: float) -> Iterator[Condition]:
    for each in found:
        name = next(iter(each["names"] or ()), each["id"])
        if each["not_after_s"] is not None:
            left_s = each["not_after_s"] - now_s
            days = int(left_s // _DAY_S)
            length_s = each["not_after_s"] - each.get("not_before_s", -math.inf)
            if days < 0:
                reason = Reason("notify.certificate_ended", name=name)
                yield Condition(f"certificate_ended:{each['id']}", "certificate", reason)
            elif left_s < min(CERTIFICATE_DAYS * _DAY_S, length_s * _LAST_PART):
                reason = Reason("notify.certificate_ends", name=name, days=days)
                why = stored_reason(each["problem"]) if each.get("problem") else None
                yield Condition(f"certificate:{each['id']}", "certificate", reason, why)


class Watch:
    """Which conditions hold, since when, and which were told."""

    def __init__(self, kept: Mapping[str, Any] | None = None) -> None:
        """Go on where `kept()` ended, as far as that can be read."""
        self._held: dict[str, dict[str, Any]] = {}
        for key, each in (kept or {}).items():
            if isinstance(each, dict) and each.keys() >= {"since_s", "told", "event"}:
                self._held[str(key)] = {**each, "seen_s": 0.0}

    def kept(self) -> dict[str, Any]:
        """Return what the next run goes on with, as JSON."""
        told = ((key, each) for key, each in self._held.items() if each["told"])
        # When it was last seen changes with each look, and a card wears with each write.
        return {key: {k: v for k, v in each.items() if k != "seen_s"} for key, each in told}

    def look(
        self, now_s: float, found: Iterable[Condition], left: Mapping[str, Reason] | None = None
    ) -> list[Notice]:
        """Take what holds now; return what is to be told. `left`: see `aftermath`."""
        told = []
        for each in found:
            held = self._held.setdefault(
                each.key, {"since_s": now_s, "told": False, "event": each.event, "seen_s": now_s}
            )
            held["seen_s"] = now_s
            if not held["told"] and now_s - held["since_s"] >= each.after_s:
                held["told"] = True
                held["names"] = dict(each.reason.params)
                told.append(Notice(each.event, each.reason, each.more))
        for key, held in list(self._held.items()):
            if held["seen_s"] == now_s:
                continue
            over = held["told"] and held["event"] in _BACK and not held.get("back")
            if over:
                held["back"] = True
                names = {name: str(value) for name, value in held.get("names", {}).items()}
                reason = Reason(_BACK[held["event"]], **names)
                told.append(Notice(held["event"], reason, (left or {}).get(key)))
            if not held["told"] or held.get("back") or now_s - held["seen_s"] >= _SETTLES_S:
                del self._held[key]
        return told
