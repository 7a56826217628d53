"""How HTTPS is, out of the controller's status, for people without any knowledge of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from naproxy_webui.i18n.reasons import plain
from naproxy_webui.i18n.texts import has, t

_PASSING: Final = ("server.not_looked", "server.not_seen")
"""What ends by itself: the box looks again."""
WARN_DAYS: Final = 30
BAD_DAYS: Final = 7


def level(days: int | None) -> str:
    """Return how urgent an end is: `bad`, `warn` or nothing."""
    if days is None or days > WARN_DAYS:
        return ""
    return "bad" if days <= BAD_DAYS else "warn"


def sight_of(status: Mapping[str, Any]) -> tuple[dict[str, Any] | None, bool]:
    """Return why visitors may come past the box, and whether that is more than a moment's doubt."""
    sight = (status.get("https") or {}).get("sight")
    return sight, sight is not None and sight["code"] not in _PASSING


def around(status: Mapping[str, Any]) -> int:
    """Return how many visits today did not come through the box, as far as it is known."""
    return ((status.get("https") or {}).get("around") or {}).get("today") or 0


def sight_words(sight: Mapping[str, Any]) -> str:
    """Return how visitors come past the box."""
    name = f"settings.https.{sight['code'].removeprefix('server.')}"
    return t(name, **sight["params"]) if has(name) else plain(sight)


def troubles(edge: Mapping[str, Any] | None) -> list[dict[str, str]]:
    """Return what of the box's own HTTPS needs somebody: `kind` is `warn` or `bad`."""
    if not edge or not edge["wanted"]:
        return []
    found = []
    if edge["problem"]:
        why = plain(edge["problem"])
        found.append({"kind": "bad", "words": f"{t('settings.https.problem')} {why}"})
    if edge["uncovered"]:
        names = ", ".join(edge["uncovered"])
        found.append({"kind": "warn", "words": t("settings.https.bare", names=names)})
    return found + [_ending(each["params"]) for each in edge["ending"]]


def _ending(params: Mapping[str, Any]) -> dict[str, str]:
    name, why = params["name"], params["why"]
    days = why["params"].get("days")
    if why["code"] != "https.ends_soon" or days is None:
        return {"kind": "bad", "words": t("now.https_ended", name=name, why=plain(why))}
    words = t("now.https_ends", name=name, count=days) if days else t("now.https_today", name=name)
    return {"kind": level(days), "words": words}
