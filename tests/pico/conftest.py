from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from naproxy.drivers.meter_io import Port
from naproxy.setup import pico
from naproxy.setup.repl import Repl
from naproxy_meter.host import Hello

from tests.patience import PATIENCE_S
from tests.pico.board import Board

Plug = Callable[..., Board]
"""Longer than a real Pico gets: a busy machine may take its time."""


@pytest.fixture
def plug(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Plug]:
    """Plug a Pico in."""
    boards: list[Board] = []
    hello = pico.hello

    async def greeted(port: Port) -> Hello:
        # A REPL never answers this: for that nobody needs to wait long.
        return await hello(port, 1.0 if boards[-1].starts[-1] == "repl" else PATIENCE_S)

    monkeypatch.setattr(pico, "hello", greeted)
    monkeypatch.setattr(pico, "asked", partial(pico.asked, limit_s=PATIENCE_S))
    monkeypatch.setattr(pico, "Repl", partial(Repl, step_s=PATIENCE_S))
    monkeypatch.setattr(pico, "HELLO_S", PATIENCE_S)

    def plugged(**said: Any) -> Board:
        boards.append(Board(tmp_path / f"pico{len(boards)}", **said))
        return boards[-1]

    yield plugged
    for board in boards:
        board.unplug()
