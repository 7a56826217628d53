"""A controller that has a fault: a notice is more than it bears."""

from __future__ import annotations

import signal
from typing import Any

import forked
from naproxy.daemon import main as daemon

from tests.fixed import Fixed

_take = daemon.Controller._take


class FaultyController(forked.Forked):
    """Ends, or hangs, when it takes a notice that says so."""

    def __init__(self, arguments: Any, env: Any, log: Any, fixed: Fixed | None = None) -> None:
        started = (arguments, env, log, None, fixed or {})
        self._process = forked._FORKS.Process(target=_run, args=started, daemon=True)
        self._process.start()
        assert self._process.pid
        self.pid = self._process.pid


def _faulty(self: daemon.Controller, new: Any) -> None:
    if new.box.notice == "crash":
        raise RuntimeError("a fault")
    if new.box.notice == "hang":
        # What is to end it is set already; let it come sooner.
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
        signal.setitimer(signal.ITIMER_REAL, 0.5)
    while new.box.notice == "hang":
        pass
    _take(self, new)


def _run(*started: Any) -> None:
    daemon.PROVED_S = 0.3
    daemon.Controller._take = _faulty  # type: ignore[method-assign]
    forked._run(*started)
