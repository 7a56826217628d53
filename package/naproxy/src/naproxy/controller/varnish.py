"""Has Varnish fetch what its cache is to have, or forget it, over the listener of the box's own."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from http.client import HTTPConnection
from pathlib import Path
from typing import Final

from naproxy.core.reason import WrongError
from naproxy.transfer import fetch as transfer
from naproxy.transfer.sla import Sla
from naproxy.transfer.urls import checked

MOST_CHANNELS: Final = 8
"""Requests at a time: a small server has a few processors, and others it serves."""
PROBE_S: Final = 0.5
"""The paper's probes of five seconds would be half of all the time there is."""
_ANSWER_S: Final = 5.0
_EXPIRE: Final = {"X-Naproxy-Expire": "1"}
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
    """What became of a batch: what each address had of the time, of those that the cache has now.

    Several are on their way at once, so that is not how long each was.
    """

    took_s: dict[int, float] = field(default_factory=dict)
    whole_s: float = 0.0


class Varnish:
    """The listener `box` of Varnish."""

    def __init__(self, socket_path: Path) -> None:
        self._path = str(socket_path)

    def fetch(
        self,
        jobs: Sequence[Job],
        *,
        most_s: float,
        stop: threading.Event,
        expire: bool,
    ) -> Fetched:
        """Have the cache ask the server for each of these that it has not fresh.

        Blocks until all is done, `most_s` are over, or `stop` is set. The algorithm is EE
        (`naproxy.transfer`). `expire`: also for those that are fresh.
        """
        begun_s = time.monotonic()
        asked = [(job, _asks(job)) for job in jobs if _as_it_is(_url(job))]
        if expire:
            expired = [replace(each, headers={**each.headers, **_EXPIRE}) for _, each in asked]
            self._transfer(expired, Sla("maxthr"), begun_s + most_s, stop)
        report = self._transfer([each for _, each in asked], Sla("ee"), begun_s + most_s, stop)
        done = Fetched(whole_s=time.monotonic() - begun_s)
        whole_s = sum(file.seconds for file in report.files)
        for (job, _), file in zip(asked, report.files, strict=True):
            if file.problem is None and file.status in _KEPT:
                share_s = done.whole_s * file.seconds / whole_s if whole_s else 0.0
                # Its variants are one address.
                done.took_s[job.path] = done.took_s.get(job.path, 0.0) + share_s
        return done

    def _transfer(
        self, asked: Sequence[transfer.Job], sla: Sla, end_s: float, stop: threading.Event
    ) -> transfer.Report:
        return transfer.fetch(
            asked,
            sla,
            bounds=transfer.Bounds(most_s=max(0.0, end_s - time.monotonic())),
            most_channels=MOST_CHANNELS,
            unix_socket=self._path,
            ask_sizes=False,
            stop=stop,
            probe_s=PROBE_S,
        )

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


def _url(job: Job) -> str:
    return f"http://box{job.url}"


def _as_it_is(url: str) -> bool:
    """Does it go over the wire as it is written? Otherwise the cache would have another."""
    try:
        return checked(url) == url
    except WrongError:
        return False


def _asks(job: Job) -> transfer.Job:
    headers = {"Host": job.host}
    if job.accept:
        headers["Accept"] = job.accept
    if job.https:
        headers["X-Naproxy-Https"] = "1"
    return transfer.Job(_url(job), job.bytes, headers, method="HEAD")
