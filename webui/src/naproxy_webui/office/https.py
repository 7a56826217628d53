"""How HTTPS is, out of the controller's status, for people without any knowledge of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from naproxy.api.https import STARTING, bare_of

from naproxy_webui.i18n.reasons import plain
from naproxy_webui.i18n.texts import t

WARN_DAYS: Final = 30
BAD_DAYS: Final = 7
USUAL_DAYS: Final = 89.0
_IN_TIME: Final = 0.85
"""The renewal of a short-lived one is spread by a twentieth of its life."""


def level(days: float | None, life_days: float = USUAL_DAYS) -> str:
    """Return how urgent an end is: `bad`, `warn` or nothing; `life_days` is its whole life.

    One that is renewed in time has still a third of its life.
    """
    scale = min(1.0, life_days / USUAL_DAYS)
    if days is None or days > WARN_DAYS * (scale if scale == 1 else scale * _IN_TIME):
        return ""
    return "bad" if days <= BAD_DAYS * scale else "warn"


def troubles(edge: Mapping[str, Any] | None) -> list[dict[str, str]]:
    """Return what of the box's own HTTPS needs somebody: `kind` is `warn` or `bad`."""
    if not edge or not edge["wanted"]:
        return []
    found = []
    if edge["problem"] and edge["problem"]["code"] != STARTING:
        why = plain(edge["problem"])
        found.append({"kind": "bad", "words": f"{t('settings.https.problem')} {why}"})
    if edge["uncovered"]:
        words = plain(bare_of(edge["uncovered"]).plain())
        found.append({"kind": "warn", "words": words})
    names = {each["id"]: next(iter(each["names"]), None) for each in edge["certificates"]}
    for each in edge["ending"]:
        id = each["params"]["name"]
        found.append(_ending(names.get(id) or id, each["params"]["why"]))
    return found


def _ending(name: str, why: Mapping[str, Any]) -> dict[str, str]:
    days = why["params"].get("days")
    if why["code"] != "https.ends_soon" or days is None:
        return {"kind": "bad", "words": t("now.https_ended", name=name, why=plain(why))}
    words = t("now.https_ends", name=name, count=days) if days else t("now.https_today", name=name)
    life_days = why["params"].get("life_days", USUAL_DAYS)
    return {"kind": level(days, life_days) or "warn", "words": words}
