"""The command in a process that need not load its modules: a fork of one that has.

Loading them takes half a second, and a run of the tests starts it a thousand times.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from multiprocessing import get_context
from pathlib import Path

from naproxy.cli.__main__ import main

from tests.fixed import Fixed, fix

_FORKS = get_context("forkserver")
_FORKS.set_forkserver_preload(["naproxy.cli.__main__", "naproxy.daemon.main"])


class Forked:
    """Started as `subprocess.Popen` does, and to be used as one."""

    def __init__(
        self,
        arguments: Sequence[str],
        env: Mapping[str, str],
        log: Path,
        out: Path | None = None,
        fixed: Fixed | None = None,
    ) -> None:
        """Start it with these arguments; its errors are added to `log`, the rest to `out`."""
        started = (tuple(arguments), dict(env), log, out, fixed or {})
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


def run(arguments: Sequence[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
    """Run it to its end, as `subprocess.run` does."""
    with tempfile.TemporaryDirectory() as directory:
        out, err = Path(directory, "out"), Path(directory, "err")
        forked = Forked(arguments, os.environ, err, out)
        try:
            status = forked.wait(timeout_s)
        finally:
            forked.send_signal(signal.SIGKILL)
        return subprocess.CompletedProcess(arguments, status, out.read_text(), err.read_text())


def _run(
    arguments: Sequence[str], env: Mapping[str, str], log: Path, out: Path | None, fixed: Fixed
) -> None:
    fix(fixed)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    for stream, file in ((sys.stderr, log), (sys.stdout, out)):
        if file:
            said = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
            os.dup2(said, stream.fileno())
            os.close(said)
    # As it was started is how it begins anew.
    sys.argv = ["naproxy", *arguments]
    sys.exit(main())
