"""/api/settings: the configuration, read and changed key by key."""

from __future__ import annotations

from typing import Any

from flask import Blueprint

from naproxy_webui.http.mount import mount
from naproxy_webui.http.page import Page
from naproxy_webui.office.equipment import equipment
from naproxy_webui.office.office import forget_office

PAGE = Page(name="settings_api", path="/api/settings")
blueprint = Blueprint("settings_api", __name__)


def _changed(done: Any) -> Any:
    """Ask for what was changed again."""
    forget_office()
    equipment(fresh=True)
    return done


mount(blueprint, "config", "/api/settings")
mount(blueprint, "config.change", "/api/settings", then=_changed)
mount(blueprint, "config.refused", "/api/settings/refused")
mount(blueprint, "config.mend", "/api/settings/refused", then=_changed)
mount(blueprint, "config.keys", "/api/settings/keys")
mount(blueprint, "config.reload", "/api/settings/reload")
