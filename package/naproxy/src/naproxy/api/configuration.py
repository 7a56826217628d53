"""The configuration in force and its file; and the control API's part that changes them."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from http import HTTPStatus
from importlib import resources
from typing import Any, Final, TypeVar

from naproxy.api.calls import ApiError, Handlers, told
from naproxy.config import edit as configedit
from naproxy.config import kept
from naproxy.config.document import Config
from naproxy.config.in_force import InForce
from naproxy.config.shown import mended, shown
from naproxy.core.reason import Reason, WrongError
from naproxy.core.schema import ConfigError, Problem

T = TypeVar("T")

_LARGE_UNITS: Final = ("AUD", "CAD", "CHF", "EUR", "GBP", "NZD", "SGD", "USD")
"""Currencies in which a kilowatt-hour costs a part of one unit."""
_MOST_PRICE: Final = 3.0
"""In these, three times the highest price that any household pays."""


def handlers(in_force: InForce) -> Handlers:
    """Return who answers which route."""

    def put(body: bytes) -> dict[str, Any]:
        _checked(lambda: in_force.put(in_force.checked(body)))
        return in_force.told()

    async def patch(changes: list[Any], version: str) -> dict[str, Any]:
        await change(in_force, _read(changes), version)
        return in_force.told()

    def reload() -> dict[str, Any]:
        _checked(in_force.reload)
        return in_force.told()

    def refused() -> dict[str, Any]:
        found, text = in_force.refused, None
        if found:
            with contextlib.suppress(OSError):
                text = shown(in_force.text())
        reason = found.reason(in_force.file).plain() if found else None
        return {"reason": reason, "text": text, "version": in_force.version}

    def mend(version: str, text: str) -> dict[str, Any]:
        if in_force.refused is None:
            raise ApiError(HTTPStatus.CONFLICT, Reason("config.not_refused"))
        _unchanged(in_force, version)
        _checked(lambda: in_force.put(in_force.checked(mended(text, in_force.text()), ())))
        return in_force.told()

    return {
        "config": in_force.told,
        "config.refused": refused,
        "config.mend": mend,
        "config.put": put,
        "config.change": patch,
        "config.keys": _keys,
        "config.reload": reload,
    }


async def change(in_force: InForce, changes: list[configedit.Change], version: str) -> None:
    """Change single keys of the file that `version` is of; ApiError, and nothing changes."""
    changes, secrets = kept.taken(changes, in_force.secrets_folder)
    written = await _edited(in_force, changes, version)
    # Whoever sweeps while these are written must leave them.
    in_force.coming.update(secrets)
    try:
        new = _checked(lambda: in_force.checked(written, changes))
        _plausible(changes, new.config.office.currency, new.config.office.price_per_kwh)
        _checked(lambda: kept.check(new.config, secrets))
        if secrets:
            await _keep(in_force, secrets)
        _unchanged(in_force, version)
        _checked(lambda: in_force.put(new))
    except ApiError:
        kept.remove(secrets)
        raise
    finally:
        in_force.coming.difference_update(secrets)
    in_force.sweep()


def _plausible(changes: list[configedit.Change], currency: str, office_price: float) -> None:
    """Refuse a price of 31 euros per kilowatt-hour: somebody has typed cents. ApiError."""
    if currency not in _LARGE_UNITS:
        return
    for each in changes:
        section = each.value if isinstance(each.value, dict) else {}
        of_bands = each.value if each.where.endswith(".bands") else section.get("bands")
        prices: list[Any] = [str(line).rpartition(" ")[2] for line in of_bands or ()]
        if each.where.endswith("price_per_kwh"):
            prices.append(each.value)
        elif each.where == "office.currency":
            prices.append(office_price)
        prices.append(section.get("price_per_kwh"))
        for price in prices:
            with contextlib.suppress(TypeError, ValueError):
                if float(price) > _MOST_PRICE:
                    likely = round(float(price) / 100, 4)
                    why = Reason("config.price_of_cents", currency=currency, likely=likely)
                    raise _wrong(ConfigError([Problem(each.where, why, float(price))]))


async def _keep(in_force: InForce, secrets: dict[str, str]) -> None:
    """Write them, before the configuration names them; ApiError."""
    try:
        # In a thread: the loop must not wait for the disk.
        await asyncio.to_thread(kept.write, in_force.secrets_folder, secrets)
    except WrongError as error:
        raise ApiError(HTTPStatus.CONFLICT, error.reason) from None
    except OSError as error:
        why = Reason("api.not_written", said=error.strerror or "")
        raise ApiError(HTTPStatus.INSUFFICIENT_STORAGE, why) from None


async def draft(in_force: InForce, changes: list[Any]) -> Config:
    """Return what a request's changes would make of the configuration; ApiError."""
    drafted, _ = kept.taken(_read(changes), in_force.secrets_folder)
    written = await _edited(in_force, drafted, in_force.version)
    return _checked(lambda: in_force.checked(written)).config


def _read(changes: list[Any]) -> list[configedit.Change]:
    try:
        return configedit.read(changes)
    except configedit.ChangeError as error:
        raise ApiError(HTTPStatus.BAD_REQUEST, error.reason, error.where) from None


async def _edited(in_force: InForce, changes: list[configedit.Change], version: str) -> bytes:
    text = _unchanged(in_force, version)
    known = in_force.secret_names()
    try:
        # In a thread: the loop must not wait for a large file, nor for the library's import.
        return await asyncio.to_thread(configedit.edit, text, changes, known)
    except ConfigError as error:
        raise _wrong(error) from None


def _unchanged(in_force: InForce, version: str) -> bytes:
    """Return the text to edit, if the file's is what `version` is of."""
    if version != in_force.version:
        raise ApiError(HTTPStatus.CONFLICT, Reason("config.meanwhile"), "version")
    try:
        text = in_force.text()
    except OSError as error:
        raise unreadable(error) from None
    if configedit.version(text) != version:
        raise ApiError(HTTPStatus.CONFLICT, Reason("config.by_hand"), "version")
    return in_force.to_edit()


def unreadable(error: Exception) -> ApiError:
    """Return the refusal where the file cannot be read."""
    return ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, Reason("api.not_read", said=str(error)))


def _checked(use: Callable[[], T]) -> T:
    try:
        return use()
    except ConfigError as error:
        raise _wrong(error) from None
    except OSError as error:
        why = Reason("api.not_written", said=str(error))
        raise ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, why) from None


def _wrong(error: ConfigError) -> ApiError:
    first = error.problems[0]
    wrong = ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, first.reason, first.where or None)
    wrong.body["problems"] = [
        {"where": p.where, "given": p.given, **told(p.reason)} for p in error.problems
    ]
    return wrong


async def _keys() -> dict[str, Any]:
    file = resources.files("naproxy").joinpath("keys.json")
    # In a thread: the loop must not wait for the disk.
    found: dict[str, Any] = json.loads(await asyncio.to_thread(file.read_bytes))
    return found
