"""Asks an application on the server whether it is busy, before the server is put to sleep."""

from __future__ import annotations

import asyncio
from typing import Final

from naproxy import __version__
from naproxy.core.reason import Reason
from naproxy.core.wire import Web, exchange, reach, status_of
from naproxy.server.application import busy
from naproxy.server.inhibitors import Settings

_LONGEST_S: Final = 5.0
_MOST_BYTES: Final = 1 << 16


class Application:
    """At `awake.busy_path` of the server; without one there is none, and it is not busy."""

    def __init__(self, settings: Settings, web: Web) -> None:
        """`web` is the server's port, by the name it is asked by."""
        self._settings = settings
        self._web = web

    async def busy(self) -> Reason | None:
        """Return why the server must not sleep; without an answer, it may be busy."""
        path = self._settings.busy_path
        if not path:
            return None
        try:
            async with asyncio.timeout(_LONGEST_S):
                answer = await self._ask(path)
        except TimeoutError:
            return Reason("server.busy_unclear", path=path, what=f"> {_LONGEST_S:.0f} s")
        except OSError as error:
            return Reason("server.busy_unclear", path=path, what=str(error))
        body = answer.partition(b"\r\n\r\n")[2]
        status = status_of(answer)
        if status is None or len(answer) > _MOST_BYTES:
            return Reason("server.busy_unclear", path=path, what="HTTP")
        return busy(path, self._settings.busy_field, status, body)

    async def _ask(self, path: str) -> bytes:
        """Return the whole answer, or one byte over the limit. Over HTTP/1.0: without chunks."""
        request = (
            f"GET {path} HTTP/1.0\r\nHost: {self._web.host_header}\r\n"
            f"User-Agent: naproxy/{__version__} (busy?)\r\nAccept: */*\r\n\r\n"
        ).encode()
        return await exchange(await reach(self._web), request, most_bytes=_MOST_BYTES + 1)
