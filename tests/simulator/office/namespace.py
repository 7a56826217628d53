"""Network namespaces: one is one machine on the office LAN, as far as packets go."""

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TypeVar

from tests.patience import wait_for

NETNS = Path("/run/netns")
ROOT = Path(__file__).resolve().parents[3]
"""The project: on the path of the helpers that this package runs."""

T = TypeVar("T")

_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


class OfficeError(Exception):
    """The office could not do what it was asked, in words."""


def _setns(fd: int) -> None:
    if _libc.setns(fd, _CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"setns: {os.strerror(number)}")


class Namespace:
    """A network namespace made by this office, and the processes started in it."""

    def __init__(self, name: str, logs: Path):
        self.name = name
        self.path = NETNS / name
        self._logs = logs
        self._children: list[subprocess.Popen[str]] = []

    def argv(self, argv: Sequence[str | Path]) -> list[str]:
        """Return the command that runs `argv` in here; it keeps its process id."""
        return ["nsenter", f"--net={self.path}", "--", *map(str, argv)]

    def run(
        self,
        argv: Sequence[str | Path],
        *,
        check: bool = True,
        timeout_s: float = 30.0,
        stdin: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in here to its end; unless `check` is off, a failure is an error."""
        done = subprocess.run(
            self.argv(argv),
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            env=environment(env),
            check=False,
        )
        if check and done.returncode != 0:
            said = (done.stderr or done.stdout).strip()
            raise OfficeError(f"{' '.join(map(str, argv))}: exit {done.returncode}: {said}")
        return done

    def popen(
        self,
        argv: Sequence[str | Path],
        *,
        log: str | None = None,
        stdin: int | IO[str] | None = subprocess.DEVNULL,
        stdout: int | IO[str] | None = None,
        env: Mapping[str, str] | None = None,
        pass_fds: Iterable[int] = (),
    ) -> subprocess.Popen[str]:
        """Start a command in here that the office ends with itself.

        What it says goes to LOGS/`log`.log, or nowhere; standard output to
        `stdout` if that is given.
        """
        with (self._logs / f"{log}.log").open("ab") if log else Path(os.devnull).open("wb") as said:
            child = subprocess.Popen(
                self.argv(argv),
                stdin=stdin,
                stdout=said if stdout is None else stdout,
                stderr=said,
                text=True,
                env=environment(env),
                pass_fds=tuple(pass_fds),
                # Ctrl-C is for the office, which ends these in order.
                start_new_session=True,
            )
        self._children.append(child)
        return child

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Move the calling thread, and no other, in here for a while."""
        before = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            there = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                _setns(there)
            finally:
                os.close(there)
            try:
                yield
            finally:
                _setns(before)
        finally:
            os.close(before)

    def connect(
        self, host: str, port: int, *, timeout_s: float = 10.0, source: str | None = None
    ) -> socket.socket:
        """Open a TCP connection from in here; the socket can be used from anywhere."""
        with self.entered():
            return socket.create_connection(
                (host, port), timeout_s, (source, 0) if source else None
            )

    def pids(self) -> list[int]:
        """Every process that is in here now, whoever started it."""
        return [int(pid) for pid in ip("netns", "pids", self.name).split()]

    def end(self) -> None:
        """Kill what runs in here and reap our own."""
        for child in self._children:
            if child.poll() is None:
                child.kill()
        kill(self.pids)
        for child in self._children:
            child.wait(timeout=10)
            for stream in (child.stdin, child.stdout):
                if stream:
                    stream.close()
        self._children.clear()


def kill(pids: Callable[[], list[int]], timeout_s: float = 10.0) -> None:
    """Kill these processes until none is left; children may be born meanwhile."""

    def gone() -> bool:
        left = [pid for pid in pids() if running(pid)]
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not left

    wait_for(gone, "killed processes to end", timeout_s)


def running(pid: int) -> bool:
    """Whether there is such a process that has not ended; one to be reaped has.

    One whose first thread has ended goes on listening until its others have, too.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        threads = list(Path(f"/proc/{pid}/task").iterdir())
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX" or len(threads) > 1


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return this process's environment, with the project on Python's path."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", **(extra or {})}


def ip(*argv: str, stdin: str | None = None) -> str:
    """Run ip(8) and return what it says."""
    done = subprocess.run(["ip", *argv], input=stdin, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OfficeError(f"ip {' '.join(argv)}: {done.stderr.strip()}")
    return done.stdout
