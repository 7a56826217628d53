"""Static files under a path with their version, so that a browser may keep them for ever.

`url_for("static", filename="css/kit.css")` gives `/static/VERSION/css/kit.css`; relative
imports between modules keep the version. On the box lighttpd answers these paths.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Final

from flask import Flask, Response, send_from_directory

from naproxy_webui.http.access import access

FOLDER: Final = Path(__file__).parents[1] / "static"
KEEP_S: Final = 365 * 86400


def install(app: Flask) -> None:
    """Serve them; those of another version too, but then nobody is to keep them."""
    current = _version(FOLDER)

    @app.url_defaults
    def add_version(endpoint: str, values: dict[str, Any]) -> None:
        if endpoint == "static":
            values.setdefault("version", current)

    @access(open=True)
    def static(version: str, filename: str) -> Response:
        made = send_from_directory(FOLDER, filename, max_age=KEEP_S)
        if version != current:
            made.headers["Cache-Control"] = "no-cache"
        return made

    app.add_url_rule("/static/<version>/<path:filename>", "static", static)
    app.extensions["naproxy_static_version"] = current


def _version(folder: Path) -> str:
    """Return a version that differs when any file does; restart the program after a change."""
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            digest.update(file.relative_to(folder).as_posix().encode() + b"\0")
            digest.update(file.read_bytes())
    return digest.hexdigest()[:12]
