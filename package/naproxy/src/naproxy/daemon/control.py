"""The control API: HTTP/1.1 and JSON on a unix socket (docs/architecture.md).

One request a connection. Whatever arrives, the answer is a status and words, or the end of
the connection; nothing of it can hold up the loop.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import parse_qs, urlsplit

from naproxy.api import configuration as configapi
from naproxy.api import measures, powers
from naproxy.api.calls import Answer, ApiError, Call, only
from naproxy.box.api import Operations
from naproxy.config.document import MAX_BYTES
from naproxy.controller.runner import Runner
from naproxy.core.reason import Reason, together
from naproxy.core.request import Asker
from naproxy.server.commissioning import Plan
from naproxy.setup import api as setup
from naproxy.shm.page import give_to_group
from naproxy.update import api as update
from naproxy.update.updates import Updates

_LOG: Final = logging.getLogger(__name__)
MOST_HEAD_BYTES: Final = 16384
MOST_CLIENTS: Final = 32
REQUEST_S: Final = 10.0
ANSWER_S: Final = 120.0
"""Longest time for an answer that a program has to be run for."""
_DEFAULT_ROWS: Final = 100


class Box(configapi.Store, Protocol):
    """What the API needs of the controller."""

    runners: dict[str, Runner]
    setup: setup.Setup
    operations: Operations
    updates: Updates

    def status(self) -> dict[str, Any]:
        """Return what `box` is in the status."""

    def meters(self, since_s: float | None) -> dict[str, Any]:
        """Return what the meters say, and their seconds after `since_s` if it is given."""

    def history(self, table: str, server: str | None, since_s: float, limit: int) -> list[Any]:
        """Return rows of the journal, newest first."""


async def answer(box: Box, call: Call) -> Answer:
    """Answer one request; ApiError for those that cannot be."""
    match call.method, call.path:
        case "GET", ("v1", what) if what in _READS:
            return HTTPStatus.OK, _READS[what](box, call)
        case _, ("v1", part, *_) if part in _PARTS:
            return await _PARTS[part](box, call)
        case "GET", ("v1", ("transitions" | "wakes" | "decisions") as table):
            return _history(box, call, table)
        case _ if setup.ours(call):
            return await box.setup.answer(call)
        case _, ("v1", "servers", name, "power"):
            runner = _runner(box, name)
            return await powers.answer(box, runner.server, runner.supervisor.report(), call)
        case method, ("v1", "servers", name, verb) if (method, verb) in _VERBS:
            return _VERBS[method, verb](_runner(box, name), call.json())
    if call.method not in ("GET", "PUT", "POST"):
        raise ApiError(HTTPStatus.METHOD_NOT_ALLOWED, f"{call.method} is not used here")
    raise ApiError(HTTPStatus.NOT_FOUND, "there is nothing here")


def _runner(box: Box, name: str) -> Runner:
    if name not in box.runners:
        raise ApiError(HTTPStatus.NOT_FOUND, f"there is no server {name}", "server")
    return box.runners[name]


def _status(box: Box, call: Call) -> dict[str, Any]:
    servers = [runner.status() for runner in box.runners.values()]
    return {"box": box.status(), "servers": servers, **box.meters(None)}


_READS: Final[dict[str, Callable[[Box, Call], dict[str, Any]]]] = {
    "status": _status,
    "health": lambda box, call: {"ok": True},
    "metrics": lambda box, call: {"text": measures.prometheus(_status(box, call))},
    "meters": lambda box, call: box.meters(call.number("since_s", time.time())),
}


_PARTS: Final[dict[str, Callable[[Box, Call], Awaitable[Answer]]]] = {
    "config": configapi.answer,
    "box": lambda box, call: box.operations.answer(call),
    "update": lambda box, call: update.answer(box.updates, call),
}
"""What has a module of its own."""


def _history(box: Box, call: Call, table: str) -> Answer:
    server = call.query.get("server")
    if server is not None and server not in box.runners:
        raise ApiError(HTTPStatus.NOT_FOUND, f"there is no server {server}", "server")
    limit = int(call.number("limit", _DEFAULT_ROWS))
    found = box.history(table, server, call.number("since_s", 0.0), limit)
    return HTTPStatus.OK, {table: found}


def _wake(runner: Runner, body: dict[str, Any]) -> Answer:
    only(body)
    runner.wake(Asker("command", Reason("server.by_hand")))
    return HTTPStatus.ACCEPTED, runner.status()


def _sleep(runner: Runner, body: dict[str, Any]) -> Answer:
    only(body)
    if runner.supervisor.running:
        raise ApiError(HTTPStatus.CONFLICT, together(*runner.supervisor.vetoes()))
    vetoes = runner.sleep(Reason("server.by_hand"), by_hand=True)
    if vetoes:
        raise ApiError(HTTPStatus.CONFLICT, together(*vetoes))
    return HTTPStatus.ACCEPTED, runner.status()


def _mode(runner: Runner, body: dict[str, Any]) -> Answer:
    only(body, "mode", "until_s")
    mode, until_s = body.get("mode"), body.get("until_s")
    if mode not in ("auto", "awake"):
        raise ApiError(HTTPStatus.BAD_REQUEST, "must be auto or awake", "mode")
    if until_s is not None:
        if isinstance(until_s, bool) or not isinstance(until_s, (int, float)):
            raise ApiError(HTTPStatus.BAD_REQUEST, "must be a number or null", "until_s")
        if mode == "auto":
            raise ApiError(HTTPStatus.BAD_REQUEST, "is for the mode awake only", "until_s")
        if not time.time() < until_s < time.time() + 10 * 366 * 86400:
            raise ApiError(HTTPStatus.BAD_REQUEST, "must be in the next ten years", "until_s")
    runner.set_mode(awake=mode == "awake", until_s=until_s)
    runner.save()
    return HTTPStatus.OK, runner.status()


def _commission(runner: Runner, body: dict[str, Any]) -> Answer:
    only(body, *_PLAN)
    values = {name: _plan_value(body[name], name) for name in body}
    vetoes = runner.commission(Plan(**values))
    if vetoes:
        raise ApiError(HTTPStatus.CONFLICT, together(*vetoes))
    return HTTPStatus.ACCEPTED, runner.supervisor.report()


def _plan_value(value: object, name: str) -> Any:
    kinds, low, high = _PLAN[name]
    if isinstance(value, bool) or not isinstance(value, kinds) or not low <= value <= high:
        what = "whole number" if kinds is int else "number"
        raise ApiError(HTTPStatus.BAD_REQUEST, f"must be a {what}, {low} to {high}", name)
    return value


def _commissioning(runner: Runner, body: dict[str, Any]) -> Answer:
    only(body)
    report = runner.supervisor.report()
    if not report:
        raise ApiError(HTTPStatus.NOT_FOUND, "it was never commissioned")
    return HTTPStatus.OK, report


def _cancel(runner: Runner, body: dict[str, Any]) -> Answer:
    only(body)
    if not runner.supervisor.running:
        raise ApiError(HTTPStatus.CONFLICT, "it is not being commissioned")
    runner.supervisor.cancel()
    return HTTPStatus.OK, runner.supervisor.report()


def _arm(runner: Runner, body: dict[str, Any]) -> Answer:
    only(body)
    why_not = runner.supervisor.arm()
    if why_not:
        raise ApiError(HTTPStatus.CONFLICT, why_not)
    return HTTPStatus.OK, runner.status()


_PLAN: Final[dict[str, tuple[Any, float, float]]] = {
    "cycles": (int, 1, 1000),
    "awake_s": ((int, float), 0, 86400),
    "asleep_s": ((int, float), 0, 86400),
}
"""Type and range of each key of a commissioning."""

_VERBS: Final[dict[tuple[str, str], Callable[[Runner, dict[str, Any]], Answer]]] = {
    ("POST", "wake"): _wake,
    ("POST", "sleep"): _sleep,
    ("POST", "mode"): _mode,
    ("POST", "arm"): _arm,
    ("POST", "commission"): _commission,
    ("GET", "commission"): _commissioning,
    ("DELETE", "commission"): _cancel,
}


# The wire


async def serve(box: Box, path: Path, group: str) -> asyncio.Server:
    """Serve the API on a unix socket that `group` may use."""
    clients: list[asyncio.StreamWriter] = []

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        clients.append(writer)
        if len(clients) > MOST_CLIENTS:
            # Whoever has been here longest has said least: a request takes no time.
            clients[0].transport.abort()
        try:
            async with asyncio.timeout(ANSWER_S):
                await _client(box, reader, writer)
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


async def _client(box: Box, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        async with asyncio.timeout(REQUEST_S):
            call = await _read(reader)
    except ApiError as error:
        status, body = error.status, error.body
    else:
        status, body = await _answered(box, call)
    text = json.dumps(body).encode() + b"\n"
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(text)}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    writer.write(head.encode() + text)
    await writer.drain()


async def _answered(box: Box, call: Call) -> Answer:
    try:
        return await answer(box, call)
    except ApiError as error:
        return error.status, error.body
    except Exception as error:
        _LOG.error("control API: %r", error)
        body = {"error": "a fault in Naproxy; see its log", "where": None}
        return HTTPStatus.INTERNAL_SERVER_ERROR, body


async def _read(reader: asyncio.StreamReader) -> Call:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.LimitOverrunError:
        raise ApiError(
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the head is too large"
        ) from None
    first, *lines = head.rstrip("\r\n").split("\r\n")
    match first.split(" "):
        case [method, target, "HTTP/1.0" | "HTTP/1.1"] if target.startswith("/"):
            headers = _headers(lines)
        case _:
            raise ApiError(HTTPStatus.BAD_REQUEST, "this is not HTTP/1.1")
    body = await reader.readexactly(_length(headers))
    try:
        url = urlsplit(target)
        query = parse_qs(url.query, keep_blank_values=True, max_num_fields=20)
    except ValueError:
        raise ApiError(HTTPStatus.BAD_REQUEST, "the URL is malformed") from None
    path = tuple(url.path.removeprefix("/").split("/"))
    return Call(method, path, {k: v[-1] for k, v in query.items()}, body)


def _headers(lines: list[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip() or name.lower() in headers:
            raise ApiError(HTTPStatus.BAD_REQUEST, "a header is malformed or there twice")
        headers[name.lower()] = value.strip()
    return headers


def _length(headers: dict[str, str]) -> int:
    if "transfer-encoding" in headers:
        raise ApiError(HTTPStatus.LENGTH_REQUIRED, "send Content-Length, not Transfer-Encoding")
    text = headers.get("content-length", "0")
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise ApiError(HTTPStatus.BAD_REQUEST, "is not a length", "Content-Length")
    if int(text) > MAX_BYTES:
        raise ApiError(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body is larger than {MAX_BYTES} bytes"
        )
    return int(text)
