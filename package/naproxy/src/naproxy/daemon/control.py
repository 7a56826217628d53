"""The control API: HTTP/1.1 and JSON on a unix socket (docs/architecture.md).

One request a connection. Whatever arrives, the answer is a status and words, or the end of
the connection; nothing of it can hold up the loop.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import pwd
import socket
import struct
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit

from naproxy.api.calls import Answer, ApiError, Call, Handlers, answer, told
from naproxy.api.table import SLOW_S
from naproxy.config.document import MAX_BYTES
from naproxy.core.reason import Reason
from naproxy.shm.page import give_to_group

_LOG: Final = logging.getLogger(__name__)
MOST_HEAD_BYTES: Final = 16384
MOST_CLIENTS: Final = 32
REQUEST_S: Final = 10.0
_CREDENTIALS: Final = struct.Struct("iII")


async def serve(
    handlers: Handlers, path: Path, group: str, *, webui_user: str = "", reader: bool = False
) -> asyncio.Server:
    """Serve the API on a unix socket that `group` may use.

    Routes that give or take keys are for our own user and `webui_user` only. `reader`: only for
    reading how things are.
    """
    clients: list[asyncio.StreamWriter] = []

    async def client(lines: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        clients.append(writer)
        if len(clients) > MOST_CLIENTS:
            # Whoever has been here longest has said least: a request takes no time.
            clients[0].transport.abort()
        try:
            async with asyncio.timeout(SLOW_S):
                await _client(handlers, lines, writer, _Door(webui_user, reader=reader))
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            pass
        finally:
            clients.remove(writer)
            writer.close()

    path.unlink(missing_ok=True)
    server = await asyncio.start_unix_server(client, path, limit=MOST_HEAD_BYTES)
    path.chmod(0o660)
    if group:
        give_to_group(path, group)
    return server


@dataclass(frozen=True, slots=True)
class _Door:
    """Whom a socket is for."""

    webui_user: str
    reader: bool = field(kw_only=True)

    def call(self, call: Call, uid: int) -> Call:
        """Return the call with what its sender may."""
        own = uid == os.geteuid()
        trusted = own or uid in (0, _uid(self.webui_user))
        return replace(call, own=own, trusted=trusted, reader=self.reader)


def _uid(user: str) -> int | None:
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        return None


async def _client(
    handlers: Handlers, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, door: _Door
) -> None:
    try:
        async with asyncio.timeout(REQUEST_S):
            call = door.call(await _read(reader), _peer_uid(writer))
    except ApiError as error:
        status, body = error.status, error.body
    else:
        status, body = await _answered(handlers, call)
    text = json.dumps(body).encode() + b"\n"
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(text)}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    writer.write(head.encode() + text)
    await writer.drain()


async def _answered(handlers: Handlers, call: Call) -> Answer:
    try:
        return await answer(handlers, call)
    except ApiError as error:
        return error.status, error.body
    except Exception as error:
        _LOG.error("control API: %r", error)
        return HTTPStatus.INTERNAL_SERVER_ERROR, {**told(Reason("api.fault")), "where": None}


def _peer_uid(writer: asyncio.StreamWriter) -> int:
    """Return the user at the other end, as the kernel knows it (unix(7), SO_PEERCRED)."""
    sock = writer.get_extra_info("socket")
    said = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(said)[1])


async def _read(reader: asyncio.StreamReader) -> Call:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.LimitOverrunError:
        why = Reason("api.large_head", bytes=MOST_HEAD_BYTES)
        raise ApiError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, why) from None
    first, *lines = head.rstrip("\r\n").split("\r\n")
    match first.split(" "):
        case [method, target, "HTTP/1.0" | "HTTP/1.1"] if target.startswith("/"):
            headers = _headers(lines)
        case _:
            raise ApiError(HTTPStatus.BAD_REQUEST, Reason("api.not_http"))
    body = await reader.readexactly(_length(headers))
    try:
        url = urlsplit(target)
        query = parse_qs(url.query, keep_blank_values=True, max_num_fields=20)
    except ValueError:
        raise ApiError(HTTPStatus.BAD_REQUEST, Reason("api.url")) from None
    path = tuple(url.path.removeprefix("/").split("/"))
    return Call(method, path, query, body)


def _headers(lines: list[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip() or name.lower() in headers:
            raise ApiError(HTTPStatus.BAD_REQUEST, Reason("api.header"))
        headers[name.lower()] = value.strip()
    return headers


def _length(headers: dict[str, str]) -> int:
    if "transfer-encoding" in headers:
        raise ApiError(HTTPStatus.LENGTH_REQUIRED, Reason("api.chunked"))
    text = headers.get("content-length", "0")
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise ApiError(HTTPStatus.BAD_REQUEST, Reason("api.no_length"), "Content-Length")
    if int(text) > MAX_BYTES:
        why = Reason("api.large_body", bytes=MAX_BYTES)
        raise ApiError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, why)
    return int(text)
