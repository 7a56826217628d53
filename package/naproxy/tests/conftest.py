import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from history_box import Box
from hypothesis import settings
from naproxy.core import office_time
from naproxy.core.log import Lines
from naproxy.history.read import queries

# The same examples every time, so that a run which fails fails again; `large` looks for others.
# A machine that does something else beside makes inputs slowly; that is no fault of theirs.
settings.register_profile(
    "large", settings.get_profile("ci"), derandomize=False, max_examples=10_000
)
settings.load_profile("ci")


class _Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(self.format(record))


@pytest.fixture(autouse=True)
def no_office(monkeypatch: pytest.MonkeyPatch) -> None:
    """Follow no office's clock at first, whatever the test before did."""
    monkeypatch.setattr(office_time, "_followed", [])


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    """What Naproxy says meanwhile, as its log has it."""
    caplog.set_level(logging.INFO, "naproxy")
    kept = _Kept()
    kept.setFormatter(Lines())
    logging.getLogger("naproxy").addHandler(kept)
    yield kept.said
    logging.getLogger("naproxy").removeHandler(kept)


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    """A box whose history is real and whose time is made."""
    made = Box(tmp_path)
    yield made
    made.stop()


@pytest.fixture
def db(box: Box) -> Iterator[sqlite3.Connection]:
    """Its history, read-only as the web interface reads it."""
    with closing(queries.open_history(box.directory)) as opened:
        yield opened
