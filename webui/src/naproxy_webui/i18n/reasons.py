"""Reasons of the controller in the user's language; none is an empty text."""

from __future__ import annotations

from typing import Any

from naproxy.core import words
from naproxy.core.reason import stored_reason

from naproxy_webui.i18n.texts import language


def plain(reason: Any) -> str:
    """Return a reason, as the API or the history has it, as sentences one after the other."""
    return " ".join(sentences(reason))


def sentences(reason: Any) -> list[str]:
    """Return what a reason says, a sentence each."""
    return words.sentences(stored_reason(reason), language()) if reason else []
