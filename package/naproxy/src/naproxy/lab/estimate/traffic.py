"""An access log as the traffic a box would have seen: classified, aged by the cache, in time order.

Records are kept in a temporary file of 24 bytes each, so that a log of any size is
parsed once, takes little memory, and can be gone through by one process after the other.
"""

from __future__ import annotations

import math
import shutil
import sys
import tempfile
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, reduce
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, cast
from zlib import crc32

from naproxy.core.classify import Agents, Behaviour, Kind, Seen, never_refused
from naproxy.core.reason import Reason
from naproxy.core.state import Klass
from naproxy.lab.estimate.accesslog import WRONG_YEAR, Entry, Log, Options
from naproxy.lab.estimate.boxcache import NOT_KEPT, PLAIN, Keeps, size_code
from naproxy.lab.estimate.cachemodel import NEVER, CacheModel, Fetched, is_cacheable, is_static
from naproxy.lab.estimate.inorder import STEP_BACK_S, Order, in_order
from naproxy.lab.estimate.trust import Trust

CHUNK: Final = 1 << 13  # records
STATIC_FLAG: Final = 1
PAGE_LOAD_FLAG: Final = 2
CACHEABLE_FLAG: Final = 4
LISTED_FLAG: Final = 8
"""Its User-Agent is in the thesis' table 4.1 of robots."""
_PERSON, _API = Klass.PERSON, Klass.API
_ALWAYS_S: Final = -math.inf


class Rows(NamedTuple):
    """Columns of a chunk, as lists of the same length."""

    t_s: Sequence[float]
    client: Sequence[int]
    path: Sequence[int]
    klass: Sequence[Klass]
    page_load: Sequence[bool]
    expires_s: Sequence[float]  # when the cache's entry stops being usable


class BoxRows(NamedTuple):
    """The same for a cache that is simulated."""

    t_s: Sequence[float]
    client: Sequence[int]
    path: Sequence[int]
    klass: Sequence[Klass]
    page_load: Sequence[bool]
    what: Sequence[int]  # how the answer is kept, and the code of its size times 256


class Chunk:
    """Up to CHUNK records in the order of their times."""

    def __init__(self) -> None:
        self.t_s = array("d")
        self.client = array("I")
        self.path = array("I")
        self.klass = array("B")
        self.flags = array("B")
        self.age_s = array("f")
        self.keep = array("B")
        self.size = array("B")
        self._rows: dict[str, Rows] = {}
        self._box_rows: BoxRows | None = None

    def __len__(self) -> int:
        return len(self.t_s)

    def append(
        self,
        t_s: float,
        client: int = 0,
        path: int = 0,
        klass: int = Klass.CRAWLER,
        *,
        flags: int = 0,
        age_s: float = NEVER,
        keep: int = NOT_KEPT,
        size: int = 0,
    ) -> None:
        """Take one record; `keep` is of boxcache.Keeps, `size` a code of boxcache."""
        self.t_s.append(t_s)
        self.client.append(client)
        self.path.append(path)
        self.klass.append(klass)
        self.flags.append(flags)
        self.age_s.append(age_s)
        self.keep.append(keep)
        self.size.append(size)

    def _columns(self) -> tuple[array[float] | array[int], ...]:
        return (
            *(self.t_s, self.client, self.path, self.klass, self.flags, self.age_s),
            *(self.keep, self.size),
        )

    def write(self, file: BinaryIO) -> None:
        """Append to `file`."""
        for column in self._columns():
            column.tofile(file)

    @classmethod
    def read(cls, file: BinaryIO, length: int) -> Chunk:
        """Read back what `write` wrote; OSError or EOFError if it is not there."""
        chunk = cls()
        for column in chunk._columns():
            column.fromfile(file, length)
        return chunk

    def awaited(self, cache: CacheModel) -> Rows:
        """Return the requests of people and programs, which wake a server."""
        rows = self._rows.get(cache.name)
        if rows is None:
            rows = self._rows[cache.name] = self._some(self._people(), cache)
        return rows

    def boxed(self) -> BoxRows:
        """Return the same requests for a cache that is simulated."""
        rows = self._box_rows
        if rows is None:
            people, keep, size = self._people(), self.keep, self.size
            what = [keep[i] | size[i] << 8 for i in people]
            rows = self._box_rows = BoxRows(*self._some(people, CacheModel(""))[:5], what)
        return rows

    def _people(self) -> Sequence[int]:
        return [i for i, klass in enumerate(self.klass) if klass in (_PERSON, _API)]

    def _some(self, keep: Sequence[int], cache: CacheModel) -> Rows:
        t_s, flags, age_s, usable_s = self.t_s, self.flags, self.age_s, cache.usable_s
        klasses = [Klass(n) for n in range(len(Klass))]
        if cache.usable:
            each_s, kinds = cache.usable, self.keep
            expires_s = [
                t_s[i] - age_s[i] + each_s[kinds[i]] if age_s[i] >= 0 else _ALWAYS_S for i in keep
            ]
        elif usable_s == 0:
            expires_s = [_ALWAYS_S] * len(keep)
        else:
            expires_s = [
                t_s[i] - age_s[i] + usable_s
                if age_s[i] >= 0 and (cache.pages or flags[i] & STATIC_FLAG)
                else _ALWAYS_S
                for i in keep
            ]
        return Rows(
            [t_s[i] for i in keep],
            [self.client[i] for i in keep],
            [self.path[i] for i in keep],
            [klasses[self.klass[i]] for i in keep],
            [bool(flags[i] & PAGE_LOAD_FLAG) for i in keep],
            expires_s,
        )


class Traffic:
    """The records of one log, in a file that is there as long as this object."""

    def __init__(self, name: str, file: BinaryIO, path: Path) -> None:
        """Use the open and empty `file`, which others can open as `path`."""
        self.name = name
        self.trust = Trust()
        self.understood: list[Reason] = []
        """How the log was read."""
        self.requests = [0] * len(Klass)
        self._file = file
        self._path = path
        self._lengths: list[int] = []

    @classmethod
    @contextmanager
    def temporary(cls, name: str) -> Iterator[Traffic]:
        """Yield one without records yet; they are gone afterwards."""
        with tempfile.NamedTemporaryFile(prefix="naproxy-traffic-") as file:
            yield cls(name, cast(BinaryIO, file), Path(file.name))

    @property
    def span_s(self) -> float:
        """From the first request to the last, in seconds."""
        return self.trust.span_s

    @property
    def start_s(self) -> float:
        """Epoch seconds of the first request."""
        return self.trust.first_s

    def add(self, chunk: Chunk) -> None:
        """Append records, none earlier than those before."""
        chunk.write(self._file)
        self._file.flush()  # others may read it from now on
        self._lengths.append(len(chunk))
        for klass in Klass:
            self.requests[klass] += chunk.klass.tobytes().count(klass)

    def clear(self) -> None:
        """Forget all records."""
        self._file.seek(0)
        self._file.truncate()
        self._lengths.clear()
        self.requests = [0] * len(Klass)
        self.trust = Trust()

    def __iter__(self) -> Iterator[Chunk]:
        """Go through the chunks; any number of processes may do so at the same time."""
        with self._path.open("rb") as file:
            for length in self._lengths:
                yield Chunk.read(file, length)

    def daily(self, *classes: Klass) -> float:
        """Requests a day of these classes."""
        return sum(self.requests[klass] for klass in classes) / max(self.span_s / 86400, 1e-9)


class OutOfOrder(Exception):  # noqa: N818 - the log is
    """Times step back further than a server that logs at a request's end lets them."""


class Reader:
    """Turns log entries into records."""

    def __init__(
        self,
        traffic: Traffic,
        agents: Agents,
        behaviour: Behaviour | None,
        keeps: Keeps = PLAIN,
    ) -> None:
        """`behaviour` None: only declared classes count."""
        self._keeps = keeps
        self._traffic = traffic
        self._trust = traffic.trust
        self._agents = agents
        self._behaviour = behaviour
        self._fetched = Fetched()
        self._chunk = Chunk()
        self._agent_hash = lru_cache(maxsize=1 << 16)(_agent_hash)
        self._listed = Agents.thesis().klass

    def read(self, log: Iterable[Entry], progress: Callable[[int], None] | None = None) -> None:
        """Read all entries; `progress` is told their number now and then.

        Raises OutOfOrder where the entries must be sorted first.
        """
        for entry in log:
            self._take(entry)
            if len(self._chunk) == CHUNK:
                self._flush()
                if progress:
                    progress(self._traffic.trust.entries)
        self._flush()

    def _flush(self) -> None:
        if len(self._chunk):
            self._traffic.add(self._chunk)
            self._chunk = Chunk()

    def _time(self, logged_s: float) -> float:
        """Time that never steps back."""
        trust = self._trust
        t_s = logged_s
        if t_s < trust.last_s:
            if trust.last_s - t_s > STEP_BACK_S:
                raise OutOfOrder
            t_s = trust.last_s
        trust.see(t_s)
        return t_s

    def _take(self, entry: Entry) -> None:
        # Once taken apart, not field by field: this is the hottest code of an estimate.
        logged_s, host, method, address, status, body, _, agent = entry
        t_s = self._time(logged_s)
        klass = self._agents.klass(agent)
        # Not cryptographic, but the same in every run; Python's own hash is not.
        client = crc32(host.encode("latin-1"), self._agent_hash(agent))
        path = crc32(address.encode("latin-1", "replace"))
        bare = address[:cut] if (cut := address.find("?")) >= 0 else address
        static = is_static(bare)
        page_load = klass is _PERSON and not static and method == "GET"
        if self._behaviour and (klass is _PERSON or klass is _API):
            klass = self._behaviour.see(
                Seen(
                    t_s,
                    client,
                    path,
                    klass,
                    _kind(bare, static, page_load, status),
                    status,
                    method in ("GET", "HEAD"),
                )
            )
        if agent.startswith("WordPress/") and bare.endswith("/wp-cron.php"):
            klass = Klass.CRAWLER  # It calls itself; the VMOD sees that by the host.
        elif klass.robot and klass is not Klass.MONITOR and never_refused(method, address):
            # This costs more than in the box, which a declared robot wakes only for a moment.
            klass = _API
        age_s, keep = NEVER, NOT_KEPT
        cacheable = is_cacheable(method, status)
        if cacheable and (klass is _PERSON or klass is _API):
            age_s = self._fetched.age_s(t_s, path)
            keep = self._keeps.of(bare, static=static, status=status, size=body)
        trust = self._trust
        if not agent:
            trust.without_agent += 1
        if trust.asks and (klass is _PERSON or klass is _API):
            trust.ask(host)
        flags = static * STATIC_FLAG | page_load * PAGE_LOAD_FLAG | cacheable * CACHEABLE_FLAG
        if self._listed(agent) is Klass.CRAWLER:
            flags |= LISTED_FLAG
        size = size_code(body)
        self._chunk.append(t_s, client, path, klass, flags=flags, age_s=age_s, keep=keep, size=size)


def _agent_hash(agent: str) -> int:
    return crc32(agent.encode("latin-1"))


def _kind(bare: str, static: bool, page_load: bool, status: int) -> Kind:
    if bare == "/robots.txt":
        return Kind.ROBOTS_TXT
    if static:
        return Kind.ASSET
    return Kind.PAGE if page_load and status in (200, 304) else Kind.OTHER


def read_log(
    traffic: Traffic,
    files: Sequence[str | Path],
    agents: Agents,
    *,
    learn: bool,
    progress: Callable[[int, int], None] | None,
    keeps: Keeps = PLAIN,
    options: Options | None = None,
) -> None:
    """Read the files of one log, in order, into `traffic`.

    `progress` is told now and then how many entries and how many bytes of the files were read.
    """
    with _rewindable(files) as names:
        log, order = Log(names, options or Options()), Order()
        told = (lambda entries: progress(entries, log.read_bytes)) if progress else None

        def read(entries: Iterable[Entry]) -> None:
            Reader(traffic, agents, Behaviour() if learn else None, keeps).read(entries, told)

        try:
            read(log)
        except OutOfOrder:
            traffic.clear()
            read(in_order(log, order))
    trust = traffic.trust
    trust.lines = log.lines
    trust.malformed = sum(log.malformed.values())
    trust.examples = [(example.line, example.text) for example in log.examples]
    trust.wrong_years = [(example.line, example.text) for example in log.wrong_years]
    trust.left_out = log.malformed[WRONG_YEAR]
    trust.cut = bool(log.damaged)
    trust.unread = [Path(name).name for name in log.unread]
    trust.steps_back, trust.furthest_back_s = order.steps_back, order.furthest_back_s
    trust.twice = order.twice
    traffic.understood = understood(log, order)


@contextmanager
def _rewindable(files: Sequence[str | Path]) -> Iterator[Sequence[str | Path]]:
    """Yield the files with standard input in a temporary one: a log may have to be read twice."""
    if "-" not in map(str, files):
        yield files
        return
    with tempfile.NamedTemporaryFile(prefix="naproxy-input-") as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
        copy.flush()
        yield [copy.name if str(name) == "-" else name for name in files]


_LONGEST_TEXT: Final = 60


def understood(log: Log, order: Order) -> list[Reason]:
    """Return how a log was read: its format, the client's field, its lines."""
    if not log.formats:
        return []
    formats = [Reason("log.format", format=each.name, client=each.client) for each in log.formats]
    form = reduce(lambda first, then: Reason("log.then", first=first, then=then), formats)
    skipped = log.malformed.total()
    if skipped:
        first = log.examples[0]
        made = Reason(
            "log.read_skipped",
            format=form,
            lines=log.lines,
            skipped=skipped,
            line=first.line,
            why=first.why,
            text=first.text[:_LONGEST_TEXT],
        )
    else:
        made = Reason("log.read", format=form, lines=log.lines)
    return [made, Reason("log.newest_first")] if order.newest_first else [made]
