"""One office a module, restored to a working state before each test.

A module may set `CONFIG`: changes to the box's configuration, as `Box.start` takes them; and
`SITE`: the server's initial site.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.clients import ask, fresh
from tests.e2e.clock import Clock
from tests.patience import wait_for
from tests.simulator.office import Office, Settings
from tests.simulator.office.box import VMOD
from tests.simulator.office.namespace import ROOT, OfficeError, ip
from tests.simulator.office.server import Site

QUICK = Settings(sleep_s=0.2, wake_s=0.2)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    if os.geteuid() != 0:
        for item in items:
            if here in item.path.parents:
                item.add_marker(pytest.mark.skip(reason="an office needs root"))


@pytest.fixture(scope="module")
def shared(request: pytest.FixtureRequest) -> Iterator[Office]:
    """Make the module's office; its logs are in build/e2e afterwards."""
    assert (VMOD / "libvmod_naproxy.so").exists(), "the VMOD is not built: make build"
    config: dict[str, Any] = getattr(request.module, "CONFIG", {})
    site: Site | None = getattr(request.module, "SITE", None)
    logs = ROOT / "build/e2e" / request.module.__name__.rpartition(".")[2]
    with Office(keep=logs, board=QUICK, site=site) as office:
        office.box.fixed = getattr(request.module, "FIXED", {})
        office.box.start(**config)
        yield office


@pytest.fixture(scope="module")
def visited(shared: Office) -> Office:
    """A visitor has come through the box: the doctor misses none."""
    shared.box.await_state("awake")
    assert ask(shared.client, fresh()).status == 200
    wait_for(lambda: shared.box.status()["live"]["last_s"] is not None, "the visitor")
    return shared


@pytest.fixture(scope="module")
def clock(shared: Office) -> Clock:
    """Start the box again with a clock of its own."""
    shared.box.stop()
    clock = Clock(shared.directory)
    shared.box.start_controller(clock.environment())
    shared.box.start_varnish(clock.environment())
    return clock


@contextlib.contextmanager
def no_cable(office: Office) -> Iterator[None]:
    """The server's is pulled."""
    ip("-n", office.switch.name, "link", "set", "server", "down")
    try:
        yield
    finally:
        ip("-n", office.switch.name, "link", "set", "server", "up")


def settle(office: Office) -> None:
    """Restore the server's behaviour and have box and controller up, after any previous test."""
    board, box = office.server.board, office.box
    board.reset(QUICK)
    assert box.controller is not None
    if box.controller.poll() is not None:
        box.start_controller()
    wait_for(lambda: board.state not in ("suspending", "resuming"), "the board to settle")
    wait_for(lambda: ask(office.client, "/.naproxy/status", timeout_s=2).status, "varnishd's child")


def settle_awake(office: Office) -> None:
    """The same, and the server is awake."""
    settle(office)
    if office.server.board.state != "on":
        # The controller may go on calling: then it resumes already.
        with contextlib.suppress(OfficeError):
            office.server.board.power_on()
    office.box.await_state("awake")


def settle_asleep(office: Office) -> None:
    """The same, and the server sleeps."""
    settle(office)
    if office.server.board.state != "off" or office.box.status()["state"] != "asleep":
        settle_awake(office)
        office.box.sleep()


@pytest.fixture
def office(shared: Office) -> Office:
    """The server is awake."""
    settle_awake(shared)
    return shared


@pytest.fixture
def asleep(shared: Office) -> Office:
    """The server sleeps."""
    settle_asleep(shared)
    return shared
