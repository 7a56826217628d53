"""Does a transfer, with libcurl's multi interface, in the thread that calls it.

A channel of the paper is a file on its way; its parallelism are range requests, each on a
connection of its own. Its pipelining are HTTP/2 streams where the server speaks it. On HTTP/1.1
requests of a channel follow each other on a connection that is kept: libcurl has had no pipelining
since 7.62, and few servers and proxies were ever right about it.
"""

from __future__ import annotations

import contextlib
import os
import re
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pycurl

from naproxy import __version__
from naproxy.core.reason import Reason, WrongError
from naproxy.lab.transfer.parts import (
    ALL,
    Group,
    Link,
    group_of,
    loads,
    parallelism,
    pipelining,
    ranges,
)
from naproxy.lab.transfer.power import BOX, SERVER
from naproxy.lab.transfer.sla import PROBE_S, Algorithm, Reading, Sla, between
from naproxy.lab.transfer.sweep import Tuning
from naproxy.lab.transfer.urls import checked

MOST_CHANNELS: Final = 12
BANDWIDTH_BYTES_S: Final = 12.5e6
"""100 Mbit/s: most small offices have at least that inside, and a link cannot be asked."""

_CONNECT_S: Final = 10
_SILENT_S: Final = 30
_REDIRECTS: Final = 5
_LOOK_S: Final = 0.1
_MOST_STREAMS: Final = 100
_READ_BYTES: Final = 128 << 10
_UNKNOWN_RTT_S: Final = 0.01
_PARTIAL: Final = 206
_OK: Final = 200
_BAD: Final = 400
_WEB: Final = pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS
_STATUS: Final = re.compile(rb"HTTP/[\d.]+ (\d{3})")
_BUFFERS: Final = Path("/proc/sys/net/ipv4/tcp_rmem")
_BUFFER_BYTES: Final = 3 << 20


@dataclass(frozen=True, slots=True)
class Job:
    """A file to be fetched. Its body is kept in `to`, or nowhere."""

    url: str
    size_bytes: int | None = None
    to: Path | None = None


@dataclass(slots=True)
class File:
    """The result of a job: an HTTP status, or a problem."""

    job: Job
    status: int = 0
    bytes: int = 0
    seconds: float = 0.0
    problem: Reason | None = None

    @property
    def good(self) -> bool:
        """Was it fetched, whole?"""
        return self.problem is None and 0 < self.status < _BAD


@dataclass(frozen=True, slots=True)
class Step:
    """An algorithm's view at one moment, and the channels that it chose for the next."""

    t_s: float
    bytes_s: float
    joules: float
    channels: Mapping[str, int]


@dataclass(slots=True)
class Report:
    """The result of a transfer."""

    files: list[File]
    seconds: float = 0.0
    bytes: int = 0
    joules: float = 0.0
    """Modelled, unless `energy` measures."""

    steps: list[Step] = field(default_factory=list)
    connections: int = 0
    pipelining: dict[str, int] = field(default_factory=dict)
    parallelism: dict[str, int] = field(default_factory=dict)
    http2: bool = False

    @property
    def bytes_s(self) -> float:
        """The throughput."""
        return self.bytes / self.seconds if self.seconds else 0.0


def modelled() -> Callable[[], float]:
    """Return a counter of joules: a server kept awake, and the box, which this thread works on.

    The server's processor cannot be seen from here and is left out.
    """
    begun_s, begun_cpu_s = time.monotonic(), time.thread_time()
    cores = os.cpu_count() or 1

    def joules() -> float:
        elapsed_s = time.monotonic() - begun_s
        box_j = BOX.energy_j(elapsed_s, time.thread_time() - begun_cpu_s, cores)
        return SERVER.energy_j(elapsed_s, 0.0, cores) + box_j

    return joules


def window_bytes() -> int:
    """Return what TCP lets be on its way at most: half of the buffer, as tcp(7) divides it."""
    try:
        return int(_BUFFERS.read_text().split()[2]) // 2
    except (OSError, ValueError, IndexError):
        return _BUFFER_BYTES


def fetch(
    jobs: Sequence[Job],
    sla: Sla,
    *,
    most_channels: int = MOST_CHANNELS,
    energy: Callable[[], float] | None = None,
    follow: bool = False,
    stop: threading.Event | None = None,
    bandwidth_bytes_s: float = BANDWIDTH_BYTES_S,
    buffer_bytes: int | None = None,
    probe_s: float = PROBE_S,
    top_bytes_s: float | None = None,
    told: Callable[[File], None] | None = None,
    tuning: Tuning | None = None,
) -> Report:
    """Fetch all jobs; blocks until that is done, or `stop` is set.

    `energy` is a counter of joules, by default `modelled()`. `follow` redirects, to http and
    https only. Unknown sizes are asked for with HEAD. `buffer_bytes` is the system's by default,
    `top_bytes_s` the throughput that flexible takes its share of, if known. `told` is called for
    each file as it ends. `tuning` overrides the equations and, with a number of channels, the
    algorithm.

    Faults of a job or a server do not raise: they are in the report.
    """
    stop = stop or threading.Event()
    with contextlib.closing(_Transfer(jobs, stop, energy or modelled(), told)) as transfer:
        transfer.follow = follow
        transfer.look(most_channels)
        link = Link(bandwidth_bytes_s, transfer.rtt_s, buffer_bytes or window_bytes())
        tuning = tuning or Tuning()
        if tuning.concurrency:
            sla, most_channels = Sla("fixed"), tuning.concurrency
        algorithm = sla.make(link, max(1, most_channels), probe_s=probe_s, top_bytes_s=top_bytes_s)
        transfer.run(algorithm, link, tuning)
        return transfer.report


class _Going:
    """A file, from when it waits until it ends."""

    def __init__(self, file: File, url: str) -> None:
        self.file = file
        self.url = url
        self.size = file.job.size_bytes
        self.group = Group.SMALL
        self.whole = False
        """Fetched without ranges, because they failed."""
        self.tag = ""
        self.parts: list[_Part] = []
        self.begun_s = 0.0
        self.out: int | None = None

    def open(self) -> None:
        """OSError if it cannot be kept, or is there: nothing is overwritten, no link followed."""
        if self.file.job.to and self.out is None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            self.out = os.open(self.file.job.to, flags, 0o644)

    def close(self, *, keep: bool) -> None:
        """Keep it, or not."""
        if self.out is None:
            return
        os.close(self.out)
        self.out = None
        if self.file.job.to and not keep:
            self.file.job.to.unlink()


class _Part:
    """One request for a file or a range of it."""

    def __init__(self, going: _Going, span: tuple[int, int] | None) -> None:
        self.going = going
        self.span = span
        self.at = span[0] if span else 0
        self.bytes = 0
        self.checked = False
        self.keeps = True
        self.status = 0
        self.headers: dict[str, str] = {}
        self.broken: Reason | None = None
        self.no_ranges = False

    def header(self, line: bytes) -> None:
        # libcurl has read the status too, but says so only when all is done.
        if first := _STATUS.match(line):
            self.headers.clear()
            self.status = int(first[1])
        else:
            name, _, value = line.decode("latin-1").partition(":")
            self.headers[name.strip().lower()] = value.strip()

    def fits(self) -> bool:
        """Is this the part that was asked for, of the same file as the others?"""
        if self.span is None:
            return True
        tag = self.headers.get("etag") or self.headers.get("last-modified", "")
        first, last = self.span
        wanted = f"bytes {first}-{last}/{self.going.size}"
        if self.status != _PARTIAL or self.headers.get("content-range") != wanted:
            return False
        self.going.tag = self.going.tag or tag
        return self.going.tag == tag

    def as_asked(self, problem: Reason | None) -> bool:
        """Was this range given, as far as it came?"""
        if self.span is None or not self.checked or not self.fits():
            return self.span is None
        return problem is not None or self.bytes == self.span[1] - self.span[0] + 1


class _Transfer:
    def __init__(
        self,
        jobs: Sequence[Job],
        stop: threading.Event,
        energy: Callable[[], float],
        told: Callable[[File], None] | None,
    ) -> None:
        self._stop = stop
        self.follow = False
        self._energy = energy
        self._told = told
        self._begun = Reading(time.monotonic(), 0, energy())
        self.report = Report([File(job) for job in jobs])
        self.rtt_s = _UNKNOWN_RTT_S
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_PIPELINING, pycurl.PIPE_MULTIPLEX)
        self._spare: list[pycurl.Curl] = []
        self._parts: dict[pycurl.Curl, _Part] = {}
        self._queues: dict[Group, deque[_Going]] = {group: deque() for group in ALL}
        self._active: dict[Group, list[_Going]] = {group: [] for group in ALL}
        self._moved = 0
        self._no_ranges: set[str] = set()
        self._waiting: list[_Going] = []
        for file in self.report.files:
            try:
                self._waiting.append(_Going(file, checked(file.job.url)))
            except WrongError as error:
                file.problem = error.reason
                self._tell(file)

    def close(self) -> None:
        for curl in [*self._parts, *self._spare]:
            with contextlib.suppress(pycurl.error):
                self._multi.remove_handle(curl)
            curl.close()
        self._multi.close()

    def _tell(self, file: File) -> None:
        if self._told:
            self._told(file)

    def _now(self) -> Reading:
        return Reading(time.monotonic(), self._moved, self._energy())

    # One request

    def _start(self, part: _Part, *, streams: bool, head: bool = False) -> None:
        going = part.going
        curl = self._spare.pop() if self._spare else pycurl.Curl()
        curl.reset()
        curl.setopt(pycurl.URL, going.url)
        curl.setopt(pycurl.PROTOCOLS, _WEB)
        curl.setopt(pycurl.REDIR_PROTOCOLS, _WEB)
        curl.setopt(pycurl.FOLLOWLOCATION, int(self.follow))
        curl.setopt(pycurl.MAXREDIRS, _REDIRECTS)
        curl.setopt(pycurl.NOSIGNAL, 1)
        curl.setopt(pycurl.CONNECTTIMEOUT, _CONNECT_S)
        curl.setopt(pycurl.LOW_SPEED_LIMIT, 1)
        curl.setopt(pycurl.LOW_SPEED_TIME, _SILENT_S)
        curl.setopt(pycurl.BUFFERSIZE, _READ_BYTES)
        curl.setopt(pycurl.USERAGENT, f"naproxy/{__version__}")
        _trust(curl)
        version = pycurl.CURL_HTTP_VERSION_2TLS if streams else pycurl.CURL_HTTP_VERSION_1_1
        curl.setopt(pycurl.HTTP_VERSION, version)
        curl.setopt(pycurl.PIPEWAIT, int(streams))
        # As it is asked for elsewhere: what /a/../b is, the server says.
        curl.setopt(pycurl.PATH_AS_IS, 1)
        curl.setopt(pycurl.NOBODY, int(head))
        if part.span:
            curl.setopt(pycurl.RANGE, "{}-{}".format(*part.span))
        curl.setopt(pycurl.HEADERFUNCTION, part.header)
        curl.setopt(pycurl.WRITEFUNCTION, lambda data: self._write(part, data))
        self._parts[curl] = part
        going.parts.append(part)
        self._multi.add_handle(curl)

    def _write(self, part: _Part, data: bytes) -> int | None:
        """Take a piece of a body; 0 ends the request."""
        going = part.going
        if not part.checked:
            part.checked = True
            part.no_ranges = not part.fits()
            part.keeps = part.status in (_OK, _PARTIAL)
        if part.no_ranges:
            return 0
        if going.out is not None and part.keeps:
            try:
                view = memoryview(data)
                while view:
                    written = os.pwrite(going.out, view, part.at)
                    part.at += written
                    view = view[written:]
            except OSError as error:
                part.broken = _unkept(going, error)
                return 0
        part.bytes += len(data)
        self._moved += len(data)
        return None

    def _drop(self, going: _Going) -> None:
        """End all requests for a file."""
        for curl in [c for c, part in self._parts.items() if part.going is going]:
            self._give_back(curl)
        going.parts.clear()

    def _give_back(self, curl: pycurl.Curl) -> _Part:
        self._multi.remove_handle(curl)
        self._spare.append(curl)
        return self._parts.pop(curl)

    def _turn(self, longest_s: float) -> Iterator[tuple[pycurl.Curl, Reason | None]]:
        """Let libcurl work, for so long at most; yield the ended handles with their faults.

        The caller's work for one may end another, whose handle then does something else.
        """
        code, _ = self._multi.perform()
        while code == pycurl.E_CALL_MULTI_PERFORM:
            code, _ = self._multi.perform()
        ended: list[tuple[pycurl.Curl, Reason | None]] = []
        more = 1
        while more:
            more, good, bad = self._multi.info_read()
            ended += [(curl, None) for curl in good]
            ended += [(curl, Reason("transfer.failed", said=said)) for curl, _, said in bad]
        if not ended:
            wanted_ms = self._multi.timeout()
            wanted_s = wanted_ms / 1e3 if wanted_ms >= 0 else _LOOK_S
            wait_s = max(0.0, min(wanted_s, longest_s, _LOOK_S))
            if self._multi.select(wait_s) < 0:
                time.sleep(min(wait_s, 0.01))
        parts = [self._parts[curl] for curl, _ in ended]
        for (curl, problem), part in zip(ended, parts, strict=True):
            if self._parts.get(curl) is part:
                yield curl, problem

    def _learn(self, curl: pycurl.Curl) -> None:
        """How far it is, and whether HTTP/2 is spoken."""
        made = curl.getinfo(pycurl.NUM_CONNECTS)
        self.report.connections += made
        self.report.http2 |= curl.getinfo(pycurl.INFO_HTTP_VERSION) == pycurl.CURL_HTTP_VERSION_2_0
        rtt_s = curl.getinfo(pycurl.CONNECT_TIME) - curl.getinfo(pycurl.NAMELOOKUP_TIME)
        rtt_s = rtt_s if made else 0.0
        if rtt_s > 0 and (self.rtt_s == _UNKNOWN_RTT_S or rtt_s < self.rtt_s):
            self.rtt_s = rtt_s

    # Before it

    def look(self, most: int) -> None:
        """Ask for sizes that nobody knows; in any case ask once, to learn how far the server is."""
        todo = deque([g for g in self._waiting if g.size is None] or self._waiting[:1])
        while (todo or self._parts) and not self._stop.is_set():
            # The first one alone: it tells whether the others can be streams.
            at_once = most if self.report.connections else 1
            while todo and len(self._parts) < at_once:
                going = todo.popleft()
                self._start(_Part(going, None), streams=going.url.startswith("https:"), head=True)
            for curl, problem in self._turn(_LOOK_S):
                part = self._give_back(curl)
                part.going.parts.clear()
                # One that cannot be asked is fetched all the same: that says what is wrong.
                self.report.connections += problem is not None
                if problem is None:
                    self._learn(curl)
                    length = curl.getinfo(pycurl.CONTENT_LENGTH_DOWNLOAD)
                    found = curl.getinfo(pycurl.RESPONSE_CODE) == _OK
                    if found and part.going.size is None and length > 0:
                        part.going.size = int(length)
                    if part.headers.get("accept-ranges", "") == "none":
                        self._no_ranges.add(_origin(part.going.url))
        for curl in list(self._parts):
            self._give_back(curl).going.parts.clear()

    # The transfer

    def run(self, algorithm: Algorithm, link: Link, tuning: Tuning) -> None:
        """Fetch, as the algorithm says."""
        report = self.report
        for going in self._waiting:
            going.group = group_of(going.size, link.bdp_bytes)
            self._queues[going.group].append(going)
        load = loads((g.group, g.size) for g in self._waiting)
        there = [group for group in ALL if load[group].files]
        report.pipelining = {g: tuning.pipelining or pipelining(load[g], link) for g in there}
        report.parallelism = {g: tuning.parallelism or parallelism(load[g], link) for g in there}
        last = self._now()
        algorithm.begin(last)
        while not self._stop.is_set():
            now_s = time.monotonic()
            if now_s >= algorithm.due_s:
                now = self._now()
                algorithm.read(now)
                self._note(last, now, algorithm)
                last = now
            self._fill(algorithm)
            if not self._parts:
                if not any(self._queues.values()):
                    break
                continue
            for curl, problem in self._turn(algorithm.due_s - now_s):
                self._ended(curl, problem)
        self._end()
        self._note(last, self._now(), algorithm)
        end = self._now()
        report.seconds = end.t_s - self._begun.t_s
        report.bytes = end.bytes
        report.joules = end.joules - self._begun.joules

    def _note(self, last: Reading, now: Reading, algorithm: Algorithm) -> None:
        rate = between(last, now)
        channels = {str(g): n for g, n in algorithm.channels(self._left()).items()}
        t_s = now.t_s - self._begun.t_s
        self.report.steps.append(Step(t_s, rate.bytes_s, rate.joules, channels))

    def _left(self) -> dict[Group, Any]:
        return loads((g.group, g.size) for n in ALL for g in (*self._queues[n], *self._active[n]))

    def _fill(self, algorithm: Algorithm) -> None:
        """Start files while their groups have channels."""
        for group, most in algorithm.channels(self._left()).items():
            queue, active = self._queues[group], self._active[group]
            wide = self.report.pipelining.get(group, 1) if self.report.http2 else 1
            while queue and len(active) < min(most * wide, max(most, _MOST_STREAMS)):
                going = queue.popleft()
                active.append(going)
                going.begun_s = time.monotonic()
                self._ask(going)

    def _ask(self, going: _Going) -> None:
        size = going.size
        try:
            going.open()
        except OSError as error:
            self._finish(going, _unkept(going, error))
            return
        spans: list[tuple[int, int] | None] = [None]
        parts = self.report.parallelism[going.group]
        split = not going.whole and _origin(going.url) not in self._no_ranges
        if size and parts > 1 and split:
            spans = list(ranges(size, parts))
        # Split files need connections of their own, and large files do not profit from streams.
        secure = going.url.startswith("https:")
        streams = secure and len(spans) == 1 and self.report.pipelining[going.group] > 1
        for span in spans:
            self._start(_Part(going, span), streams=streams)

    def _ended(self, curl: pycurl.Curl, problem: Reason | None) -> None:
        """One request has: the file is done with its last part, or with the first that failed."""
        status = curl.getinfo(pycurl.RESPONSE_CODE)
        self._learn(curl)
        part = self._give_back(curl)
        going = part.going
        if part.span and status and not part.broken and not part.as_asked(problem):
            # Ranges are ignored, or it has changed: all of it, then, in one.
            self._no_ranges.add(_origin(going.url))
            self._drop(going)
            going.whole, going.tag = True, ""
            if going.out is not None:
                os.ftruncate(going.out, 0)
            self._ask(going)
            return
        if problem:
            going.file.status = 0 if part.broken else status
            self._finish(going, part.broken or problem)
        elif not any(each.going is going for each in self._parts.values()):
            going.file.status = _OK if part.span else status
            self._finish(going, None)

    def _finish(self, going: _Going, problem: Reason | None) -> None:
        file = going.file
        file.bytes = sum(part.bytes for part in going.parts)
        self._drop(going)
        file.problem = problem
        if going.begun_s:
            file.seconds = time.monotonic() - going.begun_s
        try:
            going.close(keep=file.good and file.status == _OK)
        except OSError as error:
            file.problem = _unkept(going, error)
        if going in self._active[going.group]:
            self._active[going.group].remove(going)
        self._tell(file)

    def _end(self) -> None:
        """End what is still on its way, or has not begun."""
        why = Reason("transfer.stopped")
        for group in ALL:
            for going in [*self._active[group], *self._queues[group]]:
                self._finish(going, why)
            self._queues[group].clear()


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _unkept(going: _Going, error: OSError) -> Reason:
    return Reason("transfer.unkept", file=str(going.file.job.to), said=error.strerror or "")


def _trust(curl: pycurl.Curl) -> None:
    """Take the system's authorities: a libcurl that came with pycurl looks elsewhere."""
    found = ssl.get_default_verify_paths()
    if found.cafile:
        curl.setopt(pycurl.CAINFO, found.cafile)
    if found.capath:
        curl.setopt(pycurl.CAPATH, found.capath)
