"""The control API's part below /v1/update (docs/update.md)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from naproxy.api.calls import Handler, Handlers
from naproxy.update.updates import Updates


def handlers(updates: Updates) -> Handlers:
    """Return who answers which route: each of them with all there is to say."""

    def then_told(does: Handler) -> Handler:
        async def answer(**asked: Any) -> dict[str, Any]:
            await does(**asked)
            return await updates.status()

        return answer

    async def check(file: str) -> None:
        await updates.check(Path(file))

    async def install(*, older: bool = False) -> None:
        await updates.install(older=older)

    async def activate(slot: Any) -> None:
        await updates.activate(slot)

    async def forget() -> None:
        updates.forget()

    return {
        "update": updates.status,
        "update.forget": then_told(forget),
        "update.check": then_told(check),
        "update.install": then_told(install),
        "update.activate": then_told(activate),
        "update.confirm": then_told(updates.confirm),
    }
