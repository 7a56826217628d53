"""The office's equipment, as the controller knows it: servers, their meters, rules."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

from flask import current_app
from naproxy.api.routes import TIMEOUT_S

from naproxy_webui.http.control import control
from naproxy_webui.http.errors import ApiError

FRESH_S: Final = 5.0
BOX: Final = "box"
"""Whose meter it is that measures the box itself."""


@dataclass(frozen=True, slots=True)
class Server:
    """A server as configured; its powers are used where there is no measurement."""

    id: str
    wake_classes: tuple[str, ...]
    defer_crawlers: bool
    on_w: float
    off_w: float
    worth_s: float | None
    """Sleep saves energy in a pause longer than this; None if it never does."""


@dataclass(frozen=True, slots=True)
class Meter:
    """A meter; `of` is a server's id or BOX, None where nobody remembers."""

    id: str
    of: str | None
    estimated: bool = False


@dataclass(frozen=True, slots=True)
class Equipment:
    """`answered` is false while the controller is silent; then all is empty."""

    answered: bool = False
    version: str = ""
    servers: tuple[Server, ...] = ()
    meters: tuple[Meter, ...] = ()
    rules: tuple[dict[str, Any], ...] = field(default=())
    proxy_w: float = 5.0
    """The power of the box, as configured."""
    keep_days: int = 90
    """Changes of state are kept for so many days."""

    def server(self, name: str) -> Server | None:
        """Return a server by its id."""
        return next((s for s in self.servers if s.id == name), None)

    def meters_of(self, name: str) -> list[str]:
        """Return the ids of the meters of a server, or of BOX."""
        return [m.id for m in self.meters if m.of == name]


def equipment(*, fresh: bool = False) -> Equipment:
    """Return what there is, at most FRESH_S old; `fresh`: as it is now."""
    kept: dict[str, Any] = current_app.extensions.setdefault("naproxy_equipment", {})
    if fresh or time.monotonic() >= kept.get("until_s", 0.0):
        kept["equipment"] = _ask()
        kept["until_s"] = time.monotonic() + FRESH_S
    known: Equipment = kept["equipment"]
    return known


def commissioned(name: str, timeout_s: float = TIMEOUT_S) -> dict[str, Any] | None:
    """Return the report of a server's last commissioning, None if there was none; ApiError."""
    path = f"/v1/servers/{quote(name, safe='')}/commission"
    try:
        report: dict[str, Any] = control().get(path, timeout_s=timeout_s)
    except ApiError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        return None
    return report


def _ask() -> Equipment:
    try:
        said = control().get("/v1/config", timeout_s=5.0)
        meters = control().get("/v1/meters", timeout_s=5.0, since_s=time.time())["meters"]
    except ApiError:
        return Equipment()
    estimated = {meter["id"] for meter in meters if meter["estimated"]}
    return Equipment(
        answered=True,
        version=said.get("version", ""),
        servers=tuple(map(_server, said["server"])),
        meters=tuple(Meter(m["id"], m["of"], m["id"] in estimated) for m in said["meter"]),
        rules=tuple(said["rule"]),
        proxy_w=said["box"]["proxy_w"],
        keep_days=said["box"]["keep_days"],
    )


def _server(said: dict[str, Any]) -> Server:
    return Server(
        id=said["id"],
        wake_classes=tuple(said["wake_classes"]),
        defer_crawlers=said["defer_crawlers"],
        on_w=said["power"]["on_w"],
        off_w=said["power"]["off_w"],
        worth_s=_worth_s(**said["power"]),
    )


def _worth_s(on_w: float, off_w: float, switch_j: float) -> float | None:
    return switch_j / (on_w - off_w) if on_w > off_w else None
