"""The office itself: three machines on one switch, made and cleaned up as a whole."""

import contextlib
import functools
import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Self

from tests.simulator.office import box, pki, server
from tests.simulator.office.box import Box
from tests.simulator.office.freezer import Freezer
from tests.simulator.office.mainboard import Settings
from tests.simulator.office.namespace import NETNS, Namespace, OfficeError, ip
from tests.simulator.office.server import Server, Site
from tests.simulator.office.wire import Capture

PREFIX = "npx-"
CLIENT_ADDRESS = "192.0.2.10"
VISITORS = "198.18.0.0/15"
"""Every address of it is the client's too: a request can come from any of them."""

_MACHINES = {
    # name: address, IPv6 address, MAC
    "client": (CLIENT_ADDRESS, "2001:db8:2::10", "02:00:5e:10:00:10"),
    "box": (box.ADDRESS, box.ADDRESS_V6, "02:00:5e:10:00:01"),
    "server": (server.ADDRESS, server.ADDRESS_V6, server.MAC),
}
NAS = ("192.0.2.4", "2001:db8:2::4", "02:00:5e:10:00:04")
"""Where the second machine is, which only some offices have."""


class Office:
    """Client, box and server on a switch; nothing in the host's own namespace changes.

    `with Office() as office: ...` makes it and takes it down again, also on
    SIGINT and SIGTERM. It lives in a temporary directory that goes with it,
    open to all: the worker of varnishd is not root. Logs, configuration and
    history are copied to `keep` at the end.
    """

    def __init__(
        self,
        *,
        keep: Path | None = None,
        board: Settings | None = None,
        site: Site | None = None,
        freezer_hierarchy: Path | None = None,
    ):
        # Control groups outlive a run that was killed, and the numbers of processes come again.
        self.name = f"{PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
        self.directory = Path(tempfile.gettempdir()) / self.name
        self._keep = keep
        self.logs = self.directory / "logs"
        self._board = board or Settings()
        self._site = site or Site()
        self._hierarchy = freezer_hierarchy
        self._presence = socket.socket(socket.AF_UNIX)
        self._added: list[Server] = []
        self._handler: signal.Handlers | object = None
        self.switch = Namespace(f"{self.name}-switch", self.logs)
        self.client = Namespace(f"{self.name}-client", self.logs)
        self.server = Server(f"{self.name}-server", self.directory / "server", self.logs)
        self.box = Box(f"{self.name}-box", self.directory / "box", self.logs, self.server)

    def __enter__(self) -> Self:
        if os.geteuid() != 0:
            raise OfficeError("an office needs root: it makes network namespaces")
        self._catch_sigterm()
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @functools.cached_property
    def authority(self) -> pki.Authority:
        """Who signs the certificates of this office."""
        return pki.Authority(self.directory / "authority")

    def add_nas(self) -> Server:
        """Add a second machine that sleeps, with the same programs as the server; it is awake."""
        nas = Server(f"{self.name}-nas", self.directory / "nas", self.logs / "nas", (NAS[0],))
        ip("netns", "add", nas.name)
        self._added.append(nas)
        (self.logs / "nas").mkdir()
        self._plug("nas", *NAS)
        nas.start(Freezer.create(f"{self.name}-nas", self._hierarchy), self._board, Site())
        return nas

    def capture(self, machine: Namespace, expression: str) -> Capture:
        """Begin to capture what crosses this machine's wire, e.g. `ether proto 0x0842`."""
        return Capture(machine, expression)

    def stop(self) -> None:
        """End every process and remove every namespace, group and temporary file."""
        with _undisturbed():
            machines = [self.client, self.box, self.server, *self._added, self.switch]
            _remove(self.name, machines)
            if self._keep and self.directory.exists():
                shutil.copytree(self.directory, self._keep, ignore=_of_no_use, dirs_exist_ok=True)
            shutil.rmtree(self.directory, ignore_errors=True)
            # Only now: somebody else's clean() removes what nobody lives in.
            self._presence.close()
        if self._handler is not None:
            signal.signal(signal.SIGTERM, self._handler)  # type: ignore[arg-type]
            self._handler = None

    def _start(self) -> None:
        # Vanishes with this process: that is how clean() knows whose office is left over.
        self._presence.bind(f"\0{self.name}")
        self._presence.listen(16)
        for directory in (self.directory, self.logs):
            directory.mkdir()
            directory.chmod(0o755)
        self._wire()
        freezer = Freezer.create(self.name, self._hierarchy)
        self.server.start(freezer, self._board, self._site)
        if self._site.https or self._site.redirect:
            issued = pki.issue(self.authority, *self._site.https) if self._site.https else None
            self.server.serve(issued, self._site.redirect)

    def _wire(self) -> None:
        for namespace in (self.switch, self.client, self.box, self.server):
            ip("netns", "add", namespace.name)
        _ip(self.switch, "link add br0 type bridge forward_delay 0 mcast_snooping 0")
        for machine, addresses in _MACHINES.items():
            self._plug(machine, *addresses)
        _ip(self.switch, "link set lo up", "link set br0 up")
        _ip(self.client, f"route add local {VISITORS} dev lo")
        for namespace in (self.box, self.server):
            _ip(namespace, f"route add {VISITORS} via {CLIENT_ADDRESS}")

    def _plug(self, machine: str, address: str, address_v6: str, mac: str) -> None:
        """Connect a machine with the switch."""
        namespace = Namespace(f"{self.name}-{machine}", self.logs)
        _ip(
            self.switch,
            f"link add {machine} type veth peer name eth0 netns {namespace.name}",
            f"link set {machine} master br0 up",
        )
        _ip(
            namespace,
            "link set lo up",
            f"link set eth0 address {mac} up",
            f"addr add {address}/24 brd + dev eth0",
            f"addr add {address_v6}/64 dev eth0 nodad",
        )

    def _catch_sigterm(self) -> None:
        def leave(_number: int, _frame: FrameType | None) -> None:
            sys.exit(128 + signal.SIGTERM)

        if threading.current_thread() is threading.main_thread():
            self._handler = signal.signal(signal.SIGTERM, leave)


def clean() -> list[str]:
    """Remove what offices left that were killed before they could; returns their names."""
    names = {path.name.rpartition("-")[0] for path in NETNS.glob(f"{PREFIX}*")}
    for hierarchy in Freezer.hierarchies():
        names |= {path.name.removesuffix("-nas") for path in hierarchy.glob(f"{PREFIX}*")}
    names |= {path.name for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*")}
    left = sorted(name for name in names if not _inhabited(name))
    for name in left:
        _remove(name, [Namespace(path.name, Path()) for path in NETNS.glob(f"{name}-*")])
        shutil.rmtree(Path(tempfile.gettempdir()) / name, ignore_errors=True)
    return left


def _of_no_use(directory: str, names: list[str]) -> list[str]:
    """Say what is not worth keeping: sockets, the site, and what varnishd compiled."""
    paths = [Path(directory) / name for name in names]
    return [path.name for path in paths if path.is_socket() or path.name in ("site", "varnish")]


def _inhabited(name: str) -> bool:
    with socket.socket(socket.AF_UNIX) as knock, contextlib.suppress(OSError):
        knock.connect(f"\0{name}")
        return True
    return False


def _remove(name: str, namespaces: list[Namespace]) -> None:
    for hierarchy in Freezer.hierarchies():
        for path in (hierarchy / name, hierarchy / f"{name}-nas"):
            Freezer(path).remove()
    for namespace in namespaces:
        if namespace.path.exists():
            namespace.end()
            ip("netns", "del", namespace.name)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Let nothing interrupt the clearing up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, signal.SIG_IGN)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _ip(namespace: Namespace, *commands: str) -> None:
    ip("-n", namespace.name, "-batch", "-", stdin="\n".join(commands) + "\n")
