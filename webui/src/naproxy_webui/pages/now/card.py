"""The content of the page Now, from the controller's answers; independent of HTTP."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from naproxy.api import https
from naproxy.server.fit import measured

from naproxy_webui.i18n.reasons import plain, sentences
from naproxy_webui.pages.now.rates import Rates

LIVE_S: Final = 600
"""Length of the live chart."""

MOST_BANDS: Final = 100

Status = Mapping[str, Any]


def server(status: Status, said: Status, now_s: float, rates: Rates) -> dict[str, Any]:
    """Return one server's card, without what is asked for apart: chart, ledger, always on.

    `status` is the server's, `said` the whole of `GET /v1/status`, `now_s` monotonic.
    """
    counters = status["counters"]["requests"]
    counts = {klass: sum(outcomes.values()) for klass, outcomes in counters.items()}
    window_s, requests = rates.take(status["id"], now_s, counts)
    commissioning = status.get("commissioning")
    sight, certain = https.sight_of(status)
    past = sight.plain() if sight and certain else None
    return {
        "id": status["id"],
        "state": status["state"],
        "since_s": status["since_s"],
        "why": sentences(status["reason"]),
        "alert": plain(status["alert"]) or None,
        "moved": status["moved"],
        "mode": status["mode"],
        "mode_until_s": status["mode_until_s"],
        "held": status["held"],
        "eta_s": status["eta_s"],
        "wake_s": status["wake_s"],
        "armed": status["armed"],
        "waits": status["not_armed"] is not None and status["not_armed"] == status["live"]["waits"],
        "silent": plain(status["live"]["waits"]) if _stays_on(status) else None,
        "tripped": (status["not_armed"] or {}).get("code") == "server.tripped",
        "commissioning": _progress(commissioning) if commissioning else None,
        "decision": sentences(status["decision"]["reason"]),
        "would_sleep": status["decision"]["sleep"],
        # `past` has a notice of its own.
        "inhibitors": [plain(each) for each in status["inhibitors"] if each != past],
        "appointments": status["appointments"],
        "engines": [
            {key: each[key] for key in ("name", "refused_since_s", "let_in_s")}
            for each in status["engines"]
        ],
        "sleeps_itself": plain(status.get("sleeps_itself")) or None,
        "strangers": _strangers(status.get("over_share", {})),
        "calendar": _calendar(status.get("calendar")),
        "power": power(status["id"], said["meters"]),
        "past": plain(past) or None,
        "around": https.around(status),
        "serves": unanswered(status),
        "requests": {"window_s": round(window_s, 1), "by_class": requests},
    }


def _stays_on(status: Status) -> bool:
    """Does it stay awake because no visitor has come through the box for long?"""
    waits = status["live"]["waits"]
    return bool(status["live"]["silent"]) and waits == status["not_armed"]


def _strangers(told: Status) -> dict[str, Any] | None:
    """Return what strangers have cost today, and may; None without a limit."""
    if not told.get("most_cost"):
        return None
    return {"cost": told["cost"], "most": told["most_cost"]}


def _calendar(told: Status | None) -> dict[str, Any] | None:
    if not told:
        return None
    return {"events": told["events"], "problem": plain(told["problem"]) or None}


def unanswered(status: Status) -> list[str]:
    """Return what it does that its sleep would end, and nobody has chosen anything for."""
    found = [
        each
        for each in status["services"]["list"]
        if each["proposal"] == "never" and each["choice"] is None
    ]
    return [plain(each["name"]).removesuffix(".") for each in found]


def _progress(report: Status) -> dict[str, Any]:
    return {name: report[name] for name in ("phase", "cycle", "cycles")}


def power(whose: str, meters: Sequence[Status]) -> dict[str, Any] | None:
    """Return what the first meter of a server that says something says; None without a meter."""
    of = [meter for meter in meters if meter["of"] == whose]
    if not of:
        return None
    found = next((meter for meter in of if meter["power_w"] is not None), of[0])
    names = ("power_w", "estimated", "age_s")
    problem = plain(found["problem"]) or None
    return {"meter": found["id"], **{name: found[name] for name in names}, "problem": problem}


def seconds(found: Sequence[Status], meter: str, shift_s: float) -> list[list[float]]:
    """Return [time, mean W] of a meter's seconds; `shift_s`: from the house's clock to ours."""
    return [
        [round(row["t_s"] + shift_s, 1), row["mean_mw"] / 1000]
        for row in found
        if row["meter"] == meter
    ]


def bands(
    changes: Sequence[Status], state: str, from_s: float, to_s: float
) -> list[dict[str, Any]]:
    """Return the states in a range, from its changes (newest first) and the state now."""
    made: list[dict[str, Any]] = []
    end_s = to_s
    for change in changes:
        start_s = min(max(change["t_s"], from_s), end_s)
        if start_s < end_s:
            made.append({"from_s": start_s, "to_s": end_s, "state": change["to"]})
        end_s, state = start_s, change["from"]
    if from_s < end_s:
        made.append({"from_s": from_s, "to_s": end_s, "state": state})
    return made[::-1]


def woken(row: Status | None) -> dict[str, Any] | None:
    """Return the newest row of the wake ledger, as the card shows it."""
    if row is None:
        return None
    names = ("t_s", "who", "method", "path", "agent", "class", "waited_s", "outcome")
    return {**{name: row.get(name) for name in names}, "reason": plain(row["reason"])}


def always_on(report: Status | None, configured_w: float | None) -> dict[str, Any] | None:
    """Return what the server draws awake, and how that is known.

    Measured by its commissioning, where that is certain enough to use, else as the configuration
    says.
    """
    found = measured((report or {}).get("fit"))
    if found:
        return {"w": found["on_w"], "measured": True}
    return None if configured_w is None else {"w": configured_w, "measured": False}


class Slow:
    """Values that seldom change, fetched again once their `key` differs or they are old."""

    def __init__(self, most_s: float) -> None:
        """Nothing is older than `most_s` when it is returned."""
        self._most_s = most_s
        self._known: dict[str, tuple[Any, float, Any]] = {}

    def get(self, name: str, key: Any, now_s: float, ask: Callable[[], Any]) -> Any:
        """Return the result of `ask`, or its recent result for the same key."""
        known = self._known.get(name)
        if known is None or known[0] != key or now_s - known[1] > self._most_s:
            known = self._known[name] = (key, now_s, ask())
        return known[2]
