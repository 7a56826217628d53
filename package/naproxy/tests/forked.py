"""The command in a process that need not load its modules: a fork of one that has.

Loading them takes half a second, and a run of the tests starts it a thousand times.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from multiprocessing import get_context
from pathlib import Path

from naproxy.cli.__main__ import main

_FORKS = get_context("forkserver")
_FORKS.set_forkserver_preload(["naproxy.cli.__main__", "naproxy.daemon.main"])


class Forked:
    """Started as `subprocess.Popen` does, and to be used as one."""

    def __init__(self, arguments: Sequence[str], env: Mapping[str, str], log: Path) -> None:
        """Start it with these arguments; what it says is added to `log`."""
        started = (tuple(arguments), dict(env), log)
        self._process = _FORKS.Process(target=_run, args=started, daemon=True)
        self._process.start()
        assert self._process.pid
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("naproxy", timeout or 0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


def _run(arguments: Sequence[str], env: Mapping[str, str], log: Path) -> None:
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    said = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    os.dup2(said, sys.stderr.fileno())
    os.close(said)
    # As it was started is how it begins anew.
    sys.argv = ["naproxy", *arguments]
    sys.exit(main())
