"""By HTTP: to a topic of ntfy, or as JSON to any address."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from typing import Any, Final

import urllib3
from urllib3.util import Timeout

from naproxy import __version__
from naproxy.core.reason import WrongError

_URGENT: Final = frozenset({"not_woken", "certificate", "disk"})
_TIMEOUT: Final = Timeout(connect=10, read=10)


def ntfy(settings: Mapping[str, Any], letter: Mapping[str, Any]) -> None:
    """Publish it as JSON (ntfy's documentation, "Publish as JSON"); WrongError, HTTPError."""
    base, _, topic = settings["ntfy"].rpartition("/")
    priority = 4 if letter["event"] in _URGENT else 3
    said = {"topic": topic, "title": letter["title"], "message": letter["text"]}
    _post(f"{base}/", settings["ntfy_token"], {**said, "priority": priority})


def webhook(settings: Mapping[str, Any], letter: Mapping[str, Any]) -> None:
    """Post all that is known of it; WrongError, HTTPError."""
    names = ("event", "t_s", "title", "text", "reason")
    said = {"box": socket.gethostname(), **{name: letter[name] for name in names}}
    _post(settings["webhook"], settings["webhook_token"], said)


def _post(url: str, token: str, said: Mapping[str, Any]) -> None:
    headers = {"Content-Type": "application/json", "User-Agent": f"naproxy/{__version__}"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    # Who is sent elsewhere would take the token along.
    answer = urllib3.PoolManager(timeout=_TIMEOUT).request(
        "POST", url, body=json.dumps(said).encode(), headers=headers, retries=False, redirect=False
    )
    if not 200 <= answer.status < 300:
        raise WrongError("notify.status", status=answer.status)
