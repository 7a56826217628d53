"""/api/settings: the configuration, read and changed key by key."""

from __future__ import annotations

import time
from typing import Any

from flask import Blueprint
from naproxy.api.shapes import array, integer, nullable, obj, string
from naproxy.history.read import patterns

from naproxy_webui.http.api import route
from naproxy_webui.http.mount import mount
from naproxy_webui.i18n.reasons import plain
from naproxy_webui.office.equipment import equipment
from naproxy_webui.office.history import history
from naproxy_webui.office.office import forget_office
from naproxy_webui.office.ranges import zone
from naproxy_webui.pages.settings.proposal import LEAST_REQUESTS, WEEKS, proposed

blueprint = Blueprint("settings_api", __name__)


def _changed(done: Any) -> Any:
    """Refresh the caches after a change."""
    forget_office()
    equipment(fresh=True)
    return done


@route(
    blueprint,
    "GET",
    "/api/settings/hours",
    query={"server": string(minLength=1, maxLength=64)},
    needed=("server",),
    answer=obj(
        days=nullable(array(array(array(integer(description="minutes of the day: begin, end"))))),
        weeks=integer(description="how many were watched"),
    ),
    refusals=(503,),
)
def hours(query: dict[str, Any]) -> Any:
    """Times of the week in which people came nearly every week, to be proposed.

    They are from Monday on; null: people come at nearly all hours.
    """
    to_s = time.time() // 3600 * 3600
    range_s = to_s - WEEKS * 7 * 86400, to_s
    seen = patterns.hours_of_week(history(), *range_s, zone())
    busy = patterns.busy_hours_of_week(
        history(), query["server"], range_s, zone(), least=LEAST_REQUESTS
    )
    return {"days": proposed(busy, seen), "weeks": min(seen)}


def _in_words(said: Any) -> Any:
    """Add the problem of each failed notification in words."""
    ways = [way for each in said.get("told", ()) for way in each["to"]]
    for way in (*ways, *said.get("results", ())):
        way["words"] = plain(way["problem"])
    return said


def _co2_in_words(said: Any) -> Any:
    """Add the problem in words, if there is one."""
    return {**said, "words": plain((said.get("co2") or {}).get("problem"))}


mount(blueprint, "co2.look", "/api/settings/co2/look", then=_co2_in_words)
mount(blueprint, "notify", "/api/settings/notify", then=_in_words)
mount(blueprint, "notify.test", "/api/settings/notify/test", then=_in_words)
mount(blueprint, "cache.empty", "/api/settings/cache/empty")
mount(blueprint, "config", "/api/settings")
mount(blueprint, "config.change", "/api/settings", then=_changed)
mount(blueprint, "config.refused", "/api/settings/refused")
mount(blueprint, "config.mend", "/api/settings/refused", then=_changed)
mount(blueprint, "config.keys", "/api/settings/keys")
mount(blueprint, "config.reload", "/api/settings/reload")
