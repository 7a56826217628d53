"""The control API's part for what the cache has: to take it out."""

from __future__ import annotations

from collections.abc import Callable, Collection
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from naproxy.api.calls import ApiError, Handlers, no_server
from naproxy.api.table import MOST_PATH
from naproxy.controller.varnish import Varnish
from naproxy.core.processes import why
from naproxy.core.reason import Reason


class Cached:
    """Answers for the cache."""

    def __init__(self, varnish: Varnish, servers: Callable[[], Collection[str]]) -> None:
        """`servers` says which there are now."""
        self._varnish = varnish
        self._servers = servers

    def handlers(self) -> Handlers:
        """Return who answers which route."""
        return {"cache.empty": self._empty}

    async def _empty(self, server: str = "", path: str = "", tag: str = "") -> dict[str, Any]:
        if tag and (server or path):
            # Tags are the same for all: Varnish knows nothing else of an answer.
            raise ApiError(HTTPStatus.BAD_REQUEST, Reason("api.tag_alone"), "tag")
        if server and server not in self._servers():
            raise no_server(server)
        coded = quote(path, safe="/%!$&'()*+,;=:@~")
        if len(coded) > MOST_PATH:
            most = Reason("config.characters_most", high=MOST_PATH)
            raise ApiError(HTTPStatus.BAD_REQUEST, most, "path")
        try:
            status = await self._varnish.empty(server=server, path=coded, tag=tag)
        except OSError as error:
            raise _not_emptied(why(error)) from None
        if status != HTTPStatus.OK:
            raise _not_emptied(f"HTTP {status}")
        return {}


def _not_emptied(said: object) -> ApiError:
    return ApiError(HTTPStatus.BAD_GATEWAY, Reason("box.varnish", said=said))
