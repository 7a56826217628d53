"""`render` makes a page from its template, with the variables that every page has."""

from __future__ import annotations

from typing import Any, Final

from flask import Flask, current_app, g, render_template, request
from naproxy import __version__
from naproxy.box.clock import zone_name
from naproxy.core.hours import place_of_zone
from naproxy.core.words import own_names

from naproxy_webui.http.page import Page
from naproxy_webui.i18n.terms import terms
from naproxy_webui.i18n.texts import language, t, texts_of
from naproxy_webui.office.office import office

_RIGHT_TO_LEFT: Final = frozenset(("ar", "fa", "he", "ur"))


def render(template: str, **values: Any) -> str:
    """Return a page; templates extend `base.html` (docs/webui.md names its blocks and values)."""
    return render_template(template, **values)


def install(app: Flask, pages: list[Page]) -> None:
    """Give every template what `base.html` needs."""
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.jinja_env.filters["terms"] = terms
    by_name = {page.name: page for page in pages}

    @app.context_processor
    def common() -> dict[str, Any]:
        return {
            "t": t,
            "texts_of": texts_of,
            "language": language(),
            "direction": "rtl" if language() in _RIGHT_TO_LEFT else "ltr",
            "languages": own_names(),
            "office": office(),
            "time_zone": place_of_zone(office().time_zone or "") or zone_name(),
            "page": by_name.get(request.blueprint or ""),
            "navigation": [page for page in pages if page.place is not None],
            "user": g.get("user"),
            "csrf_token": g.get("csrf_token", ""),
            "version": __version__,
            "static_version": current_app.extensions["naproxy_static_version"],
        }
