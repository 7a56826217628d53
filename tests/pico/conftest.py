from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.pico.board import Board

Plug = Callable[..., Board]


@pytest.fixture
def plug(tmp_path: Path) -> Iterator[Plug]:
    """Plug a Pico in."""
    boards: list[Board] = []

    def plugged(**said: Any) -> Board:
        boards.append(Board(tmp_path / f"pico{len(boards)}", **said))
        return boards[-1]

    yield plugged
    for board in boards:
        board.unplug()
