"""/help: the pages of docs/, which `webui/help.py` makes when the package is built."""

from __future__ import annotations

import json
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from flask import abort
from markupsafe import Markup

from naproxy_webui.http.page import Page
from naproxy_webui.render import render

blueprint = Page("help", __name__, "/help")

FOLDER: Final = Path(__file__).parents[2] / "help"


@cache
def index() -> dict[str, Any]:
    """Return the titles of all pages, and their groups."""
    found: dict[str, Any] = json.loads((FOLDER / "index.json").read_text("utf-8"))
    return found


@blueprint.get("/help")
def overview() -> str:
    """Show which pages there are."""
    return render("help.html", **index())


@blueprint.get("/help/<path:name>")
def show(name: str) -> str:
    """Show a page; only a name that the index has becomes the path of a file."""
    known = index()["pages"]
    if name not in known:
        abort(HTTPStatus.NOT_FOUND)
    # Ours, and built with us.
    text = Markup((FOLDER / f"{name}.html").read_text("utf-8"))  # noqa: S704
    return render("help_page.html", title=known[name], text=text)
