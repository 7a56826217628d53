"""A box's history, read as the web interface reads it."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

from history_box import Box
from naproxy.history.read import queries


def opened(box: Box) -> "closing[sqlite3.Connection]":
    """Open it with all that is known until now."""
    box.history.flush()
    return closing(queries.open_history(box.directory))


def answer(box: Box, question: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a query answers of what was written."""
    with closing(queries.open_history(box.directory)) as db:
        found = question(db, *arguments)
        return list(found) if isinstance(found, Iterator) else found
