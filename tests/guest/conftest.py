"""One guest for all tests, booted once; awake and at rest before each."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.guest.guest import Guest, GuestOffice
from tests.guest.image import BUILD, image
from tests.patience import wait_for


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    if os.geteuid() != 0:
        for item in items:
            if here in item.path.parents:
                item.add_marker(pytest.mark.skip(reason="a guest needs root"))


@pytest.fixture(scope="session")
def booted() -> Iterator[GuestOffice]:
    """Boot a Debian 12 and prepare it as the guide says; its logs are in build/guest/logs."""
    with GuestOffice(image("bookworm"), keep=BUILD / "logs") as office:
        office.box.start()
        office.prepare()
        office.box.stop()
        yield office


@pytest.fixture
def office(booted: GuestOffice) -> GuestOffice:
    guest = booted.server
    assert guest.power
    if guest.power.asleep:
        guest.wake(guest.press)
    wait_for(guest.answers, "the guest to answer")
    wait_for(lambda: not guest.people(), "the last test's people to be gone")
    return booted


@pytest.fixture
def guest(office: GuestOffice) -> Guest:
    return office.server
