"""One office for all recipes; what it logged is in build/recipes afterwards."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.recipes.place import Place, place
from tests.simulator.office.namespace import ROOT


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    if os.geteuid() != 0:
        for item in items:
            if here in item.path.parents:
                item.add_marker(pytest.mark.skip(reason="an office needs root"))


@pytest.fixture(scope="session")
def shared() -> Iterator[Place]:
    with place(ROOT / "build/recipes") as at:
        yield at


@pytest.fixture
def awake(shared: Place) -> Place:
    shared.office.box.wake()
    return shared


@pytest.fixture
def asleep(awake: Place) -> Place:
    awake.asleep()
    return awake
