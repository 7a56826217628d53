"""Sends JSON over HTTP, for the notification channels that need it."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

import urllib3
from urllib3.util import Timeout, parse_url

from naproxy import __version__
from naproxy.core.reason import WrongError

_TIMEOUT: Final = Timeout(connect=10, read=10)


def send(url: str, said: Mapping[str, Any], *, token: str = "", method: str = "POST") -> None:
    """Send it as JSON; WrongError, HTTPError.

    The token is sent as Authorization: Bearer, else `user:password@` of the address as Basic.
    """
    headers = {"Content-Type": "application/json", "User-Agent": f"naproxy/{__version__}"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    elif login := parse_url(url).auth:
        # The library drops it.
        user, _, password = login.partition(":")
        said_by = f"{unquote(user)}:{unquote(password)}".encode()
        headers["Authorization"] = f"Basic {base64.b64encode(said_by).decode()}"
    # A redirected request would take the token along.
    answer = urllib3.PoolManager(timeout=_TIMEOUT).request(
        method, url, body=json.dumps(said).encode(), headers=headers, retries=False, redirect=False
    )
    if not 200 <= answer.status < 300:
        raise WrongError("notify.status", status=answer.status)
