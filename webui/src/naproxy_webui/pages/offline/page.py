"""/manifest.webmanifest, /worker.js and /offline make the web interface an app.

All three need no login: a browser fetches them without a session, and they reveal no more than
the login page does.
"""

from __future__ import annotations

import json
from typing import Final

from flask import Response, send_from_directory, url_for

from naproxy_webui.http.access import access
from naproxy_webui.http.page import Page
from naproxy_webui.http.static_files import FOLDER
from naproxy_webui.i18n.texts import language
from naproxy_webui.office.office import office
from naproxy_webui.render import render

blueprint = Page("offline", __name__, "/offline")

NIGHT: Final = "#171b42"
DAY: Final = "#eef1f8"
SIZES: Final = (192, 512)


@blueprint.get("/offline")
@access(open=True)
def page() -> str:
    """Show what the service worker keeps."""
    return render("offline.html")


@blueprint.get("/worker.js")
@access(open=True)
def worker() -> Response:
    """Send the service worker: from here it may speak for all pages."""
    made = send_from_directory(FOLDER / "js", "worker.js", mimetype="text/javascript")
    made.headers["Cache-Control"] = "no-cache"
    return made


@blueprint.get("/manifest.webmanifest")
@access(open=True)
def manifest() -> Response:
    """Describe the app. The mark fills its square and keeps clear of the edge: it may be cut."""
    icons = [
        {
            "src": url_for("static", filename=f"icons/{size}.png"),
            "sizes": f"{size}x{size}",
            "type": "image/png",
            "purpose": purpose,
        }
        for size in SIZES
        for purpose in ("any", "maskable")
    ]
    name = office().name
    said = {
        "id": "/",
        "name": f"Naproxy, {name}" if name else "Naproxy",
        "short_name": "Naproxy",
        "lang": language(),
        "start_url": "/",
        "scope": "/",
        "display": "standalone",
        "theme_color": NIGHT,
        "background_color": DAY,
        "icons": icons,
    }
    return Response(json.dumps(said, ensure_ascii=False), mimetype="application/manifest+json")
