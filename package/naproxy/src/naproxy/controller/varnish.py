"""Has Varnish fetch what its cache is to have, or forget it, over the listener of the box's own."""

from __future__ import annotations

import logging
import queue
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Final

_LOG: Final = logging.getLogger(__name__)
AT_ONCE: Final = 4
"""Requests at a time: a small server has a few processors, and others it serves."""
_ANSWER_S: Final = 5.0
_KEPT: Final = (200, 203, 204, 300, 301, 302, 304, 307, 308, 404, 410)


@dataclass(frozen=True, slots=True)
class Job:
    """How to ask Varnish for one variant of an address. `path` is its hash, as in events."""

    path: int
    host: str
    url: str
    accept: str = ""
    https: bool = False
    bytes: int = 0


@dataclass(slots=True)
class Fetched:
    """What became of a batch: seconds that each address took, of those that the cache has now."""

    took_s: dict[int, float] = field(default_factory=dict)
    whole_s: float = 0.0


class Varnish:
    """The listener `box` of Varnish."""

    def __init__(self, socket_path: Path) -> None:
        self._path = str(socket_path)

    def fetch(
        self, jobs: Sequence[Job], *, most_s: float, stop: threading.Event, expire: bool
    ) -> Fetched:
        """Have the cache ask the server for each of these that it has not fresh.

        Blocks until all is done, `most_s` are over, or `stop` is set. `expire`: also for those that
        are fresh.
        """
        begun_s = time.monotonic()
        todo: queue.SimpleQueue[Job] = queue.SimpleQueue()
        for job in jobs:
            todo.put(job)
        done = Fetched()

        def work() -> None:
            with _Line(self._path) as line:
                while not stop.is_set() and time.monotonic() - begun_s < most_s:
                    try:
                        job = todo.get_nowait()
                    except queue.Empty:
                        return
                    took_s = line.ask(job, expire=expire)
                    if took_s is not None:
                        done.took_s[job.path] = took_s

        threads = [threading.Thread(target=work) for _ in range(min(AT_ONCE, len(jobs)))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        done.whole_s = time.monotonic() - begun_s
        return done

    def empty(self, *, server: str = "", path: str = "", tag: str = "") -> int:
        """Have nothing used any more of a server, below a path (percent-encoded), with a tag.

        Blocks; returns the answer's status: 200, or 404 for a server that Varnish does not know.
        OSError or HTTPException if it does not answer.
        """
        named = {"Server": server, "Path": path, "Tag": tag}
        connection = HTTPConnection("box", timeout=_ANSWER_S)
        with closing(connection), closing(socket.socket(socket.AF_UNIX)) as sock:
            sock.settimeout(_ANSWER_S)
            sock.connect(self._path)
            connection.sock = sock
            headers = {f"X-Naproxy-{name}": value for name, value in named.items() if value}
            connection.request("PURGE", "/", headers=headers)
            return connection.getresponse().status


class _Line:
    """One connection, made anew where it has ended."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._connection: HTTPConnection | None = None

    def __enter__(self) -> _Line:
        return self

    def __exit__(self, *_: object) -> None:
        if self._connection:
            self._connection.close()

    def ask(self, job: Job, *, expire: bool) -> float | None:
        """Have one fetched; returns how long it took, None if the cache does not have it now."""
        headers = {"Host": job.host}
        if job.accept:
            headers["Accept"] = job.accept
        if job.https:
            headers["X-Naproxy-Https"] = "1"
        begun_s = time.monotonic()
        try:
            if expire:
                self._head(job.url, {**headers, "X-Naproxy-Expire": "1"})
            status = self._head(job.url, headers)
        except (OSError, HTTPException) as error:
            _LOG.debug("%s%s: not fetched: %r", job.host, job.url, error)
            if self._connection:
                self._connection.close()
            self._connection = None
            return None
        return time.monotonic() - begun_s if status in _KEPT else None

    def _head(self, url: str, headers: dict[str, str]) -> int:
        if self._connection is None:
            self._connection = HTTPConnection("box", timeout=_ANSWER_S)
            self._connection.sock = socket.socket(socket.AF_UNIX)
            self._connection.sock.settimeout(_ANSWER_S)
            self._connection.sock.connect(self._path)
        self._connection.request("HEAD", url, headers=headers)
        answer = self._connection.getresponse()
        answer.read()
        if answer.will_close:
            self._connection.close()
            self._connection = None
        return answer.status
