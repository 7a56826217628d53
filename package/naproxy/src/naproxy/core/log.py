"""A program's log: each message is one line on standard error.

A module has a logger of its own, by its name; a program calls `to_standard_error` at its start.
"""

from __future__ import annotations

import logging
from typing import Any


class Lines(logging.Formatter):
    """Each message is one line, with any text; the lines of a traceback are indented."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging calls it so
        """Return the message as one line."""
        return printable(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802 - logging calls it so
        """Return the traceback, of which no line can be taken for a message."""
        lines = super().formatException(ei).splitlines()
        return "\n".join(f"  {printable(line)}" for line in lines)


def to_standard_error(*others: logging.Handler) -> None:
    """Write what this program says to standard error, and hand it to `others` too."""
    handlers = (logging.StreamHandler(), *others)
    for handler in handlers:
        handler.setFormatter(Lines())
    logging.basicConfig(handlers=handlers)
    logging.getLogger("naproxy").setLevel(logging.INFO)


def printable(text: str) -> str:
    """Return the text with escapes for characters that a log or a terminal would not show."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
