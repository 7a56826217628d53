"""A test that is a coroutine runs in the event loop of its fixtures."""

import asyncio
import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from leaping import LeapingLoop
from naproxy.shm.page import Page


@pytest.fixture(autouse=True)
def loop(request: pytest.FixtureRequest) -> Iterator[asyncio.Runner]:
    leaps = "leaping" in request.fixturenames
    with asyncio.Runner(loop_factory=LeapingLoop if leaps else None) as runner:
        yield runner


@pytest.fixture
def leaping() -> None:
    """Have time in the loop pass as soon as everybody waits for it."""


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = inspect.signature(pyfuncitem.obj).parameters
    arguments = {name: pyfuncitem.funcargs[name] for name in wanted}
    pyfuncitem.funcargs["loop"].run(pyfuncitem.obj(**arguments))
    return True


@pytest.fixture
def enter(loop: asyncio.Runner) -> Iterator[Callable[[AbstractAsyncContextManager[Any]], Any]]:
    """Enter an asynchronous context in the test's loop, and leave it after the test."""
    stack = AsyncExitStack()
    yield lambda context: loop.run(stack.enter_async_context(context))
    loop.run(stack.aclose())


@pytest.fixture
def shared(tmp_path: Path) -> Page:
    return Page(tmp_path)
