"""The page shared with the VMOD, mapped; `naproxy.core.page_h` declares its content.

The rules are those of `naproxy_page.h`: the controller writes the words marked [C], never those
marked [V].
"""

from __future__ import annotations

import ctypes
import logging
import mmap
import os
import platform
import shutil
import struct
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from ctypes import c_uint32, c_uint64
from itertools import compress
from pathlib import Path
from typing import Any, Final

from naproxy.core.page_h import (
    CLIENTS,
    PAGE_MAGIC,
    PAGE_SIZE,
    PAGE_VERSION,
    SERVERS,
    VERIFIED,
    Events,
    Layout,
    Listen,
    Server,
    Service,
    State,
)

_LOG: Final = logging.getLogger(__name__)

EVERY_SERVER: Final = 255
"""`naproxy_rule.server` of a rule that holds for every server."""

HEARTBEAT_MAX_MS: Final = 3000
"""A heartbeat older than this is stale: the VMOD fails awake."""

_SHARED_MODE: Final = 0o660
_MOST_AT_ONCE: Final = 1 << 20
_FILES_CHANGE: Final = (State.AWAKE, State.TROUBLE)
"""States of a server that may change its files."""
_FILES_STAY: Final = (State.FALLING_ASLEEP, State.ASLEEP, State.WAKING)
_AWAY_US: Final = 60_000_000
"""A controller that was away for longer does not know what its servers did meanwhile."""


class RingHead(ctypes.Structure):
    """`struct naproxy_events` and `struct naproxy_stores` before their records."""

    _fields_ = Events._fields_[:-1]


_CLIENT: Final = struct.Struct(f"=QQHBB{3 * SERVERS}B2x")
_NOBODY: Final = bytes(CLIENTS * _CLIENT.size)

_FUTEX_WAKE: Final = 1
_FUTEX_NUMBERS: Final = {
    8: {"x86_64": 202, "aarch64": 98},
    4: dict.fromkeys(
        ["x86_64", "i386", "i486", "i586", "i686", "aarch64", "armv6l", "armv7l", "armv8l"], 240
    ),
}


def futex_number(machine: str, pointer_bytes: int) -> int:
    """Return the number of the futex system call; RuntimeError where it is not known."""
    try:
        return _FUTEX_NUMBERS[pointer_bytes][machine]
    except KeyError:
        raise RuntimeError(
            f"no futex number known for {machine} with {8 * pointer_bytes} bit pointers"
        ) from None


def futex_waker() -> Callable[[int], int]:
    """Return a function that wakes all who wait on the 32 bit word at an address.

    It returns how many were woken. The word is shared between processes, so the
    private flag is not set. libc has no wrapper for futex.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    number = futex_number(platform.machine(), struct.calcsize("P"))
    syscall = libc.syscall
    syscall.restype = ctypes.c_long

    def wake(address: int) -> int:
        woken = syscall(
            ctypes.c_long(number),
            ctypes.c_void_p(address),
            ctypes.c_int(_FUTEX_WAKE),
            ctypes.c_int(0x7FFFFFFF),
            ctypes.c_void_p(None),
            ctypes.c_void_p(None),
            ctypes.c_int(0),
        )
        if woken < 0:
            error = ctypes.get_errno()
            raise OSError(error, f"futex: {os.strerror(error)}")
        return int(woken)

    return wake


def read_u64(read: Callable[[], int]) -> int:
    """Read a 64 bit word that another process writes.

    A 32 bit machine reads it in two halves, so it is read until two readings agree.
    """
    value = read()
    while (again := read()) != value:
        value = again
    return value


def map_file(
    path: Path,
    size: int,
    head: bytes,
    *,
    group: str,
    nonsense: Callable[[bytes], str | None] = lambda _: None,
) -> mmap.mmap:
    """Map the file at `path`, which starts with `head` and has `size` bytes.

    A file that fits and in which `nonsense` finds no fault is kept with its counters. Any other is
    set aside as `NAME.bad` and logged. A new one appears by rename, so no reader sees half a
    file. There is no fsync: the directory is on a tmpfs, and after a crash of the machine a page
    without counters is right.
    """
    wrong = _what_is_wrong(path, size, head, nonsense)
    if wrong:
        bad = path.with_name(path.name + ".bad")
        path.rename(bad)
        _LOG.warning("%s: %s; set aside as %s and made anew", path, wrong, bad.name)
    if not path.exists():
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        temporary.unlink(missing_ok=True)
        with temporary.open("xb") as file:
            file.write(head)
            file.truncate(size)
            os.fchmod(file.fileno(), _SHARED_MODE)
        temporary.rename(path)
    path.chmod(_SHARED_MODE)
    if group:
        give_to_group(path, group)
    with path.open("r+b") as file:
        return mmap.mmap(file.fileno(), size)


def give_to_group(path: Path, group: str) -> None:
    """Let `group` use `path`; a missing group is logged and does not stop the controller."""
    try:
        shutil.chown(path, group=group)
    except (LookupError, PermissionError) as error:
        _LOG.warning("%s: not given to group %s: %s", path, group, error)


def _what_is_wrong(
    path: Path, size: int, head: bytes, nonsense: Callable[[bytes], str | None]
) -> str | None:
    if not path.exists() and not path.is_symlink():
        return None
    if path.is_symlink() or not path.is_file():
        return "is not a plain file"
    if path.stat().st_size != size:
        return f"has {path.stat().st_size} bytes, not {size}"
    content = path.read_bytes()
    return nonsense(content) if content.startswith(head) else "does not start as it should"


def _nonsense(content: bytes) -> str | None:
    """Look for noise behind a good head: a gauge of it would inhibitor all sleep."""
    layout = Layout.from_buffer_copy(content)
    for index, server in enumerate(layout.server):
        gauges = (server.held_now, server.fetching_now, server.piping_now)
        if max(gauges) > _MOST_AT_ONCE or server.state > max(State):
            return f"has nonsense in the record of server {index}"
    for index, service in enumerate(layout.service):
        if max(service.open_now, service.held_now) > _MOST_AT_ONCE:
            return f"has nonsense in the record of service {index}"
    return None


class Page:
    """The page, mapped for writing by the controller.

    Order of stores (other processors may see them in another order): the futex system
    call is a full memory barrier before it looks for waiters, by its contract with the
    waiters. So the barrier of the seqlock is a wake on a word without waiters: under 1 us.
    membarrier's global form waits for an RCU grace period, 10 ms and more, and its expedited
    forms need the readers to register.

    A 32 bit machine stores a 64 bit word in two halves. The controller stores the high
    half first, so for some nanoseconds every 71 minutes a reader sees a time 71 minutes
    ahead, which is not stale.
    """

    def __init__(self, run_dir: Path, group: str = "") -> None:
        """Map `run_dir`/page; create it if it is missing or malformed."""
        self.path = run_dir / "page"
        head = struct.pack("=III", PAGE_MAGIC, PAGE_VERSION, PAGE_SIZE)
        self._map = map_file(self.path, PAGE_SIZE, head, group=group, nonsense=_nonsense)
        self.layout = Layout.from_buffer(self._map)
        self._wake = futex_waker()
        self.layout.heartbeat_max_ms = HEARTBEAT_MAX_MS
        if monotonic_us() - self.layout.heartbeat_us > _AWAY_US:
            for server in self.layout.server:
                server.froze_us = 0

    def server(self, index: int) -> Server:
        """Return the record of server `index`, not a copy."""
        server: Server = self.layout.server[index]
        return server

    def clients(self) -> list[tuple[int, ...]]:
        """Return who has requests in flight.

        In each row: address, network, their number, own, exempt, people, robots, programs. The
        last three are of each server. A row that is being written may be half new.
        """
        begin = Layout.client.offset
        table = self._map[begin : begin + CLIENTS * _CLIENT.size]
        if table == _NOBODY:
            return []
        # Most are empty: their addresses are looked at together.
        addresses = memoryview(table).cast("Q")[:: _CLIENT.size // 8].tolist()
        taken = compress(range(CLIENTS), addresses)
        return [_CLIENT.unpack_from(table, number * _CLIENT.size) for number in taken]

    def heartbeat(self, t_us: int) -> None:
        """Say that the controller was alive at `t_us` (CLOCK_MONOTONIC); 0: it is gone."""
        self.layout.controller_pid = os.getpid() if t_us else 0
        _store_u64(self.layout, Layout.heartbeat_us.offset, t_us)

    def set_state(self, index: int, state: int, t_us: int) -> int:
        """Publish a state and wake who waits for it; returns how many were waiting."""
        server = self.server(index)
        if server.state != state:
            _store_u64(server, Server.since_us.offset, t_us)
            if state in _FILES_CHANGE:
                _store_u64(server, Server.froze_us.offset, 0)
            elif state in _FILES_STAY and not server.froze_us:
                _store_u64(server, Server.froze_us.offset, t_us)
            server.state = state
        return self._wake(ctypes.addressof(server))

    @contextmanager
    def configure(self, index: int | None) -> Iterator[Any]:
        """Write the configuration of a server, or of the box (None), under its seqlock."""
        target: Any = self.layout if index is None else self.server(index)
        with self._locked(target, "seq"):
            yield target

    @contextmanager
    def naming(self) -> Iterator[Layout]:
        """Write names and challenges, under their seqlock."""
        with self._locked(self.layout, "names_seq"):
            yield self.layout

    @contextmanager
    def serving(self, index: int) -> Iterator[Service]:
        """Write the configuration of a service, under its seqlock."""
        service: Service = self.layout.service[index]
        with self._locked(service, "seq"):
            yield service

    @contextmanager
    def _locked(self, target: Any, field: str) -> Iterator[None]:
        word = ctypes.addressof(target) + getattr(type(target), field).offset
        # Odd already: a controller died while it wrote. Its half-written record is overwritten.
        setattr(target, field, getattr(target, field) | 1)
        self._wake(word)
        try:
            yield
        finally:
            self._wake(word)
            setattr(target, field, (getattr(target, field) + 1) & 0xFFFFFFFF)
            self._wake(word)

    def verify(self, index: int, paths: Sequence[int]) -> None:
        """Write the hashes of a server's verified pages, sorted, if they are others."""
        row = [*paths, *[0] * (VERIFIED - len(paths))]
        if list(self.layout.verified[index]) != row:
            with self.configure(None) as layout:
                layout.verified[index][:] = row

    def clear(self, index: int) -> None:
        """Free a server's slot. Its counters start at 0 for the next server."""
        with self.configure(index) as server:
            server.id = b""
        self.verify(index, ())
        counters = Server.requests.offset
        end = ctypes.sizeof(Server)
        server = self.server(index)
        server.state = 0
        ctypes.memset(ctypes.addressof(server) + counters, 0, end - counters)

    def clear_service(self, index: int) -> None:
        """Free a service's place. Its counters start at 0 for the next service."""
        with self.serving(index) as service:
            service.listen = Listen.NONE
            service.id = b""
        begin = Service.open_now.offset
        ctypes.memset(ctypes.addressof(service) + begin, 0, ctypes.sizeof(Service) - begin)

    def configuration(self) -> bytes:
        """Return a page with this one's configuration and nothing else.

        It has no heartbeat, states, gauges or counters: until a controller runs, Varnish knows the
        servers and takes all of them for available. Used-up shares are left out, because the page
        is kept on a disk and an address' hash is as good as the address. So are the challenges of
        an issuer of certificates, which are over by then, and the verified pages, for which a
        controller must go on checking.
        """
        layout = Layout.from_buffer_copy(self._map)
        layout.heartbeat_us = layout.controller_pid = 0
        layout.child_start_us = layout.wake_errors = 0
        for server in layout.server:
            server.state = server.since_us = server.spent_mask = 0
            server.visited_us = server.visited_tls_us = 0
            begin, end = Server.held_now.offset, Server.cookie.offset
            ctypes.memset(ctypes.addressof(server) + begin, 0, end - begin)
        for service in layout.service:
            begin = Service.open_now.offset
            ctypes.memset(ctypes.addressof(service) + begin, 0, ctypes.sizeof(Service) - begin)
        for field in (Layout.spent, Layout.client, Layout.challenge, Layout.verified):
            ctypes.memset(ctypes.addressof(layout) + field.offset, 0, field.size)
        return bytes(layout)

    def close(self) -> None:
        """Let go of the mapping; the page object is of no use afterwards."""
        del self.layout
        with suppress(BufferError):  # somebody still holds a server's record
            self._map.close()


def fnv(data: bytes) -> int:
    """Return the hash of the page's texts that are only compared: FNV-1a, 64 bits."""
    found = 0xCBF29CE484222325
    for byte in data:
        found = (found ^ byte) * 0x100000001B3 % (1 << 64)
    return found


def monotonic_us() -> int:
    """Return CLOCK_MONOTONIC in microseconds, the page's clock."""
    return time.monotonic_ns() // 1000


def _store_u64(structure: ctypes.Structure, offset: int, value: int) -> None:
    address = ctypes.addressof(structure) + offset
    if struct.calcsize("P") == 8:
        c_uint64.from_address(address).value = value
        return
    low, high = (0, 4) if sys.byteorder == "little" else (4, 0)
    c_uint32.from_address(address + high).value = value >> 32
    c_uint32.from_address(address + low).value = value & 0xFFFFFFFF
