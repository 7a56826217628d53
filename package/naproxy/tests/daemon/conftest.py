"""Controllers in processes of their own, each with a server that can fall silent."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from box import Box
from naproxy.core.state import State


@pytest.fixture(scope="session")
def able() -> None:
    if os.geteuid() != 0:
        pytest.skip("raw packets need root")
    if not Path("/usr/sbin/etherwake").exists():
        pytest.skip("etherwake not installed")


@pytest.fixture
def make(able: None, tmp_path: Path) -> Iterator[Callable[..., Box]]:
    made: list[Box] = []

    def new(**server: object) -> Box:
        made.append(Box(tmp_path, **server))
        return made[-1]

    yield new
    for box in made:
        box.close()


@pytest.fixture(scope="module")
def more_settings() -> str:
    """What the boxes of a file have in their configuration besides."""
    return ""


def started(box: Box, more_settings: str) -> Box:
    box.file.write_text(box.file.read_text() + more_settings)
    box.start().wait(State.AWAKE)
    return box


@pytest.fixture
def box(make: Callable[..., Box], more_settings: str) -> Box:
    """A box of the test's own."""
    return started(make(), more_settings)


@pytest.fixture(scope="module")
def of_file(
    able: None, tmp_path_factory: pytest.TempPathFactory, more_settings: str
) -> Iterator[Box]:
    box = Box(tmp_path_factory.mktemp("shared"))
    yield started(box, more_settings)
    box.close()


@pytest.fixture
def shared(of_file: Box) -> Iterator[Box]:
    """A box for all tests of a file; it gets its configuration back after each."""
    before = of_file.file.read_bytes()
    yield of_file
    if of_file.file.read_bytes() != before:
        of_file.file.write_bytes(before)
        assert of_file.call("POST", "/v1/config/reload", b"{}")[0] == 200
