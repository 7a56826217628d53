"""Hostile bytes on everything that the box reads, with the sanitizers in the VMOD.

Spoilt requests come all the time. Meanwhile spoilt datagrams come to the controller, spoilt calls
to its API, and the page and the ring of events are scratched and replaced.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import re
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from naproxy.core.page_h import PAGE_MAGIC, PAGE_SIZE, PAGE_VERSION, Layout
from naproxy.core.state import State
from naproxy.shm.page import monotonic_us

from tests.bench.result import goal
from tests.e2e.clients import ask, fresh
from tests.patience import wait_for
from tests.siege.fair import HIT
from tests.siege.mutator import CALLS, DATAGRAMS, scratches, spoilt
from tests.siege.place import ENDS, Place, end, place, start
from tests.simulator.office.namespace import ROOT, OfficeError

VMOD_ROOM: Final = ROOT / "package/libvmod-naproxy"
SANITIZED: Final = ROOT / "build/libvmod-naproxy-asan"
FINDING: Final = re.compile(
    r"AddressSanitizer|runtime error:|Panic|Assert error|Segmentation|^Traceback"
)
"""In what varnishd and the controller say."""

DATAGRAM_MOST: Final = 60_000
NOTICED_S: Final = 1.5
"""Varnish looks once a second whether there is another page."""


def _page(magic: int, version: int, size: int, servers: int = 0) -> bytes:
    return struct.pack("=IIII", magic, version, size, servers).ljust(PAGE_SIZE, b"\0")


BROKEN: Final = {
    "no bytes": b"",
    "a short page": _page(PAGE_MAGIC, PAGE_VERSION, PAGE_SIZE)[:12],
    "another magic": _page(PAGE_MAGIC + 1, PAGE_VERSION, PAGE_SIZE),
    "another version": _page(PAGE_MAGIC, PAGE_VERSION + 1, PAGE_SIZE),
    "another size": _page(PAGE_MAGIC, PAGE_VERSION, PAGE_SIZE + 1),
    "too many servers": _page(PAGE_MAGIC, PAGE_VERSION, PAGE_SIZE, 255),
}
"""Pages that say of themselves that they are none: each means that all servers are awake."""

BELIEVED: Final = "pages that say asleep, and are believed"
"""Without these it would show nothing that the broken ones are not."""


class Hostile:
    """One place with the sanitized VMOD, and what was found there."""

    def __init__(self, at: Place, seed: int) -> None:
        """Nothing hostile yet."""
        self.at = at
        self.seed = seed
        self.counts: dict[str, int] = {}
        self.not_awake: list[str] = []
        self.deaf = 0

    def requests(self, seconds: float) -> None:
        """Nothing but the spoilt requests that come anyway."""
        time.sleep(seconds)

    def sockets(self, seconds: float) -> None:
        """Spoilt datagrams on wake.sock and spoilt calls on control.sock; then a sound one."""
        run = self.at.office.box.run_dir
        until_s = time.monotonic() + seconds
        datagrams = spoilt(self.seed, DATAGRAMS, DATAGRAM_MOST)
        calls = spoilt(self.seed, CALLS)
        while time.monotonic() < until_s:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as wake:
                wake.connect(str(run / "wake.sock"))
                wake.setblocking(False)
                with contextlib.suppress(OSError):
                    for datagram in itertools.islice(datagrams, 20):
                        wake.send(datagram)
                        self._count("datagrams")
            self._call(run / "control.sock", next(calls))
        if not self.at.office.box.healthy():
            self.deaf += 1

    def _call(self, control: Path, call: bytes) -> None:
        with socket.socket(socket.AF_UNIX) as line, contextlib.suppress(OSError):
            line.settimeout(2)
            line.connect(str(control))
            self._count("calls")
            line.sendall(call)
            line.shutdown(socket.SHUT_WR)
            while line.recv(1 << 16):
                pass

    def scratched(self, seconds: float) -> None:
        """Write anything anywhere into page and ring while all read them."""
        run = self.at.office.box.run_dir
        files = [(run / "page").open("r+b"), (run / "events").open("r+b")]
        with contextlib.ExitStack() as stack:
            scratching = [
                (stack.enter_context(file), scratches(self.seed, os.fstat(file.fileno()).st_size))
                for file in files
            ]
            until_s = time.monotonic() + seconds
            while time.monotonic() < until_s:
                for file, each in scratching:
                    at, data = next(each)
                    os.pwrite(file.fileno(), data, at)
                    self._count("scratches")
                time.sleep(0.002)

    def replaced(self, seconds: float) -> None:
        """Put spoilt files in the place of page and ring."""
        run = self.at.office.box.run_dir
        sound, ring = ((run / name).read_bytes() for name in ("page", "events"))
        dice = random.Random(self.seed)
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            _replace(run / "page", _scratched(dice, sound, 40))
            _replace(run / "events", _scratched(dice, ring, 400)[: dice.choice((0, 64, len(ring)))])
            self._count("pages replaced")
            time.sleep(NOTICED_S)

    def broken(self, _seconds: float) -> None:
        """After a page that says asleep comes a broken one: it means that the server is awake."""
        page = self.at.office.box.run_dir / "page"
        sound = page.read_bytes()
        for name, broken in BROKEN.items():
            _replace(page, _asleep(sound))
            time.sleep(NOTICED_S)
            if ask(self.at.office.client, fresh(HIT), timeout_s=0.5).status == 0:
                self._count(BELIEVED)
            _replace(page, broken)
            time.sleep(NOTICED_S)
            if ask(self.at.office.client, fresh(HIT), timeout_s=5).status != 200:
                self.not_awake.append(name)
            self._count("pages broken")

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1


def _scratched(dice: random.Random, sound: bytes, times: int) -> bytes:
    data = bytearray(sound)
    for at, written in itertools.islice(scratches(dice.randrange(1 << 30), len(sound)), times):
        data[at : at + len(written)] = written
    # A page with another head is not looked at any further.
    return sound[:16] + bytes(data[16:])


def _asleep(sound: bytes) -> bytes:
    layout = Layout.from_buffer_copy(sound)
    layout.server[0].state = State.ASLEEP
    layout.heartbeat_us = monotonic_us()
    return bytes(layout)


def _replace(file: Path, content: bytes) -> None:
    new = file.with_suffix(".siege")
    new.write_bytes(content)
    new.chmod(0o660)
    with contextlib.suppress(FileNotFoundError):
        owner = file.stat()
        os.chown(new, owner.st_uid, owner.st_gid)
    new.rename(file)


@contextlib.contextmanager
def sanitized(logs: Path) -> Iterator[Place]:
    """Build the VMOD with the sanitizers, and a place with it."""
    made = subprocess.run(
        ["make", "-s", "-C", VMOD_ROOM, "asan"], capture_output=True, text=True, check=False
    )
    if made.returncode != 0:
        raise OfficeError(f"no VMOD with sanitizers: {made.stderr.strip()[-500:]}")
    # There is a varnishd that brings their libraries along.
    path = f"{VMOD_ROOM / 'tests/asan'}:{os.environ['PATH']}"
    with place(logs, {"PATH": path}, SANITIZED) as at:
        loaded = Path(f"/proc/{at.office.box.child()}/maps").read_text()
        if "libasan" not in loaded or "_vmod_naproxy" not in loaded:
            raise OfficeError("the sanitizers are not in varnishd's worker")
        yield at


def hostile(seconds: float, seed: int, logs: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """Do all of it, a quarter of the time each; what was sent, and what was found.

    Without the firewall, which would let few of the connections in.
    """
    with sanitized(logs) as at:
        box = at.office.box
        bad = Hostile(at, seed)
        counted = at.counters()
        firing = start(at.attacker, "tests.siege.mutating", str(seed))
        ended = 0
        for part in (bad.requests, bad.sockets, bad.scratched, bad.replaced, bad.broken):
            say(f"hostile bytes: {part.__name__}")
            part(seconds / 4)
            assert box.controller
            if box.controller.poll() is not None:
                ended += 1
            else:
                box.kill_controller()
            # The one that starts finds what was done to its files.
            box.start_controller()
            box.api("POST", "/v1/config/reload", {})
            wait_for(lambda: box.status()["state"] == "awake", "the server to be seen awake")
        bad.counts.update({f"requests {what}": n for what, n in json.loads(end(firing)).items()})
        now = at.counters()
        recovered_s = at.recover()
    said = [
        (logs / f"logs/{name}.log").read_text(errors="replace")
        for name in ("varnishd", "controller")
    ]
    return {
        "sent": bad.counts,
        "findings": [line for log in said for line in log.splitlines() if FINDING.search(line)][
            :20
        ],
        "worker_ends": sum(now[each] - counted[each] for each in ENDS),
        "controller_ends": ended,
        "controller_deaf": bad.deaf,
        "not_awake": bad.not_awake,
        "recovered_s": round(recovered_s, 2),
    }


def goals(row: dict[str, Any]) -> list[dict[str, Any]]:
    """What hostile bytes must not do."""
    return [
        goal(
            "hostile bytes: findings of the sanitizers, exceptions", len(row["findings"]), 0, "<="
        ),
        goal("hostile bytes: ends of varnishd's worker", row["worker_ends"], 0, "<="),
        goal("hostile bytes: ends of the controller", row["controller_ends"], 0, "<="),
        goal("hostile bytes: controllers that did not answer", row["controller_deaf"], 0, "<="),
        goal(BELIEVED, row["sent"].get(BELIEVED, 0), len(BROKEN), ">="),
        goal("broken pages that kept a server from serving", len(row["not_awake"]), 0, "<="),
    ]
