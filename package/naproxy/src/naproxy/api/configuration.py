"""The control API's part that reads and changes the configuration."""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus
from importlib import resources
from typing import Any, Protocol

from naproxy.api.calls import Answer, ApiError, Call, only, told
from naproxy.config import edit as configedit
from naproxy.core.reason import Reason
from naproxy.core.schema import ConfigError


class Store(Protocol):
    """What holds the configuration."""

    version: str
    """That of the file's text that is in force."""

    def config(self) -> dict[str, Any]:
        """Return the configuration in force, secrets left out, with `version`."""

    def config_text(self) -> bytes:
        """Return the file as it is now."""

    def secret_names(self) -> frozenset[str]:
        """Return the names of secret keys that are given."""

    def put_config(self, text: bytes) -> None:
        """Check, write and use a new configuration; ConfigError, and nothing changes."""

    def reload(self) -> None:
        """Use the file as it is now; ConfigError, and nothing changes."""


async def answer(store: Store, call: Call) -> Answer:
    """Answer what is below /v1/config."""
    match call.method, call.path[2:]:
        case "GET", ():
            return HTTPStatus.OK, store.config()
        case "GET", ("keys",):
            return await _keys()
        case "PUT", ():
            _use(store, call.body)
        case "PATCH", ():
            await _patch(store, call.json())
        case "POST", ("reload",):
            only(call.json())
            _checked(store.reload)
        case _, () | ("keys",) | ("reload",):
            raise ApiError(HTTPStatus.METHOD_NOT_ALLOWED, f"{call.method} is not used here")
        case _:
            raise ApiError(HTTPStatus.NOT_FOUND, "there is nothing here")
    return HTTPStatus.OK, store.config()


async def _patch(store: Store, body: dict[str, Any]) -> None:
    only(body, "changes", "version")
    version = body.get("version")
    if not isinstance(version, str):
        raise ApiError(HTTPStatus.BAD_REQUEST, "must be that of GET /v1/config", "version")
    try:
        changes = configedit.read(body.get("changes"))
    except configedit.ChangeError as error:
        raise ApiError(HTTPStatus.BAD_REQUEST, error.reason, error.where) from None
    await change(store, changes, version)


async def change(store: Store, changes: list[configedit.Change], version: str) -> None:
    """Change single keys of the file that `version` is of; ApiError, and nothing changes."""
    text = _unchanged(store, version)
    secrets = store.secret_names()
    try:
        # In a thread: the loop must not wait for a large file, nor for the library's import.
        written = await asyncio.to_thread(configedit.edit, text, changes, secrets)
    except ConfigError as error:
        raise _wrong(error) from None
    _unchanged(store, version)
    _use(store, written)


def _unchanged(store: Store, version: str) -> bytes:
    """Return the file's text if it is what `version` is of, and in force."""
    if version != store.version:
        raise ApiError(HTTPStatus.CONFLICT, Reason("config.meanwhile"), "version")
    try:
        text = store.config_text()
    except OSError as error:
        words = f"the file cannot be read: {error}"
        raise ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, words) from None
    if configedit.version(text) != version:
        raise ApiError(HTTPStatus.CONFLICT, Reason("config.by_hand"), "version")
    return text


def _use(store: Store, text: bytes) -> None:
    _checked(lambda: store.put_config(text))


def _checked(use: Any) -> None:
    try:
        use()
    except ConfigError as error:
        raise _wrong(error) from None
    except OSError as error:
        words = f"the file cannot be written: {error}"
        raise ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, words) from None


def _wrong(error: ConfigError) -> ApiError:
    first = error.problems[0]
    wrong = ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, first.reason, first.where or None)
    wrong.body["problems"] = [{"where": p.where, **told(p.reason)} for p in error.problems]
    return wrong


async def _keys() -> Answer:
    file = resources.files("naproxy").joinpath("keys.json")
    # In a thread: the loop must not wait for the disk.
    found: dict[str, Any] = json.loads(await asyncio.to_thread(file.read_bytes))
    return HTTPStatus.OK, found
