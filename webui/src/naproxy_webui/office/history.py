"""The history, read-only: one connection a request, closed after it."""

from __future__ import annotations

import sqlite3
import time
from http import HTTPStatus
from typing import TYPE_CHECKING

from flask import Flask, current_app, g

from naproxy_webui.http.errors import ApiError
from naproxy_webui.office.equipment import equipment

if TYPE_CHECKING:
    from naproxy_webui.options import Settings


def history() -> sqlite3.Connection:
    """Return this request's connection, for `queries`; ApiError if there is none.

    Lazy results must be read before the request ends.
    """
    if "history" not in g:
        from naproxy.history.read.queries import open_history  # noqa: PLC0415 - only who reads pays

        settings: Settings = current_app.extensions["naproxy_settings"]
        try:
            g.history = open_history(settings.data_dir)
        except sqlite3.OperationalError:
            raise ApiError(
                HTTPStatus.SERVICE_UNAVAILABLE,
                f"there is no history yet in {settings.data_dir}",
            ) from None
    db: sqlite3.Connection = g.history
    return db


def server_names() -> list[str]:
    """Return the servers that there are, else, while the controller is silent, that there were."""
    names = [server.id for server in equipment().servers]
    if names:
        return names
    from naproxy.history.read import timeline  # noqa: PLC0415 - only who reads pays

    try:
        return timeline.servers(history())
    except ApiError:
        return []


def looked_after_until_s(db: sqlite3.Connection) -> float:
    """Return until when states are known: now, or the last sign of a controller that is gone."""
    from naproxy.history.read import timeline  # noqa: PLC0415 - only who reads pays

    return time.time() if equipment().answered else timeline.last_sign_s(db)


def install(app: Flask) -> None:
    """Close each request's connection at its end."""

    @app.teardown_appcontext
    def close(_: BaseException | None) -> None:
        db = g.pop("history", None)
        if db is not None:
            db.close()
