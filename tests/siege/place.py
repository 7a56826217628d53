"""Where the siege is laid: a virtual office with an attacker on its switch."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import resource
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Self

from tests.e2e.clients import ask, fresh
from tests.patience import wait_for
from tests.siege.attacks import BIG, NETWORK, NETWORK_V6, SLEEPERS
from tests.siege.fair import HIT, Visit
from tests.simulator.office import Namespace, Office, Settings
from tests.simulator.office.box import toml
from tests.simulator.office.namespace import ROOT, OfficeError, ip
from tests.simulator.office.server import Site

ATTACKER: Final = ("192.0.2.66", "2001:db8:2::66", "02:00:5e:10:00:66")
FIREWALL: Final = ROOT / "overlay/etc/nftables.conf"
FILES: Final = 8192
"""Open files that the image allows varnishd, overlay/etc/service/varnish/run."""

QUICK: Final = Settings(sleep_s=0.2, wake_s=0.2)


class Place:
    """The office, the attacker's machine, and what is measured of the box."""

    def __init__(self, office: Office, attacker: Namespace) -> None:
        """All of it runs: see `place`."""
        self.office = office
        self.attacker = attacker
        self._read = 0

    def raise_the_firewall(self) -> None:
        """As on the image: one address opens so many connections a second, and no more."""
        self.office.box.run(["nft", "-f", FIREWALL])

    def fill_the_cache(self, timeout_s: float = 40.0) -> None:
        """As on a box that has run for days: what is new goes in where something old goes out."""
        ask(self.office.client, BIG)
        filling = start(self.attacker, "tests.siege.attacker", "cache_busting", "1", "0")
        wait_for(
            lambda: self.office.box.varnishstat()["MAIN.n_lru_nuked"] > 100,
            "the cache to be full",
            timeout_s,
        )
        end(filling)
        for path in (HIT, BIG):
            ask(self.office.client, path)

    def received(self) -> Counter[str]:
        """Count what reached the server since the last time, by id."""
        with (self.office.logs / "access.log").open() as log:
            log.seek(self._read)
            lines = [line for line in log if line.endswith("\n")]
        self._read += sum(len(line.encode()) for line in lines)
        return Counter(json.loads(line)["id"] for line in lines)

    def forget_received(self) -> None:
        """Count from now on."""
        self._read = (self.office.logs / "access.log").stat().st_size

    def gauges(self) -> dict[str, int]:
        """Return what Varnish says of its memory now."""
        stat = self.office.box.varnishstat()
        return {name: stat.get(name, 0) for name in GAUGES}

    def counters(self) -> dict[str, int]:
        """Return those of Varnish's counters that tell of an attack."""
        stat = self.office.box.varnishstat()
        return {name: stat.get(name, 0) for name in COUNTERS}

    def recover(self, timeout_s: float = 30.0) -> float:
        """Wait until a miss is answered again; how long that took, infinite if it was not."""
        begun_s = time.monotonic()
        while time.monotonic() - begun_s < timeout_s:
            if ask(self.office.client, fresh(HIT), timeout_s=5).status == 200:
                return time.monotonic() - begun_s
        return float("inf")


COUNTERS: Final = (
    *("MGT.child_start", "MGT.child_died", "MGT.child_exit", "MGT.child_stop"),
    *("MAIN.sess_conn", "MAIN.sess_dropped", "MAIN.sess_queued", "MAIN.sess_fail"),
    *("MAIN.threads_limited", "MAIN.client_req", "MAIN.n_lru_nuked", "MAIN.req_dropped"),
)
GAUGES: Final = (
    *("SMA.default.g_bytes", "SMA.Transient.g_bytes", "MAIN.threads", "MAIN.n_object"),
)
ENDS: Final = ("MGT.child_died", "MGT.child_exit", "MGT.child_stop")
"""By a signal, as of a panic; with a status, as the sanitizers' is; by order."""


@contextlib.contextmanager
def place(
    logs: Path, env: dict[str, str] | None = None, vmod: Path | None = None
) -> Iterator[Place]:
    """Make it. `env` is for varnishd; `vmod` is the VMOD's build, if not the usual one."""
    site = Site(every_path=True, dynamic_share=0)
    with Office(keep=logs, board=QUICK, site=site) as office:
        office.box.optimised = True  # what others wait meanwhile is measured
        with _few_files():
            office.box.start()
            if vmod:
                office.box.stop()
                office.box.vmod = vmod
                office.box.start_controller()
                office.box.start_varnish(env)
        office.box.api("PUT", "/v1/config", toml(_with_sleepers(office)).encode())
        with _attacker(office) as attacker:
            wait_for(lambda: ask(office.client, fresh(HIT)).status == 200, "the server")
            yield Place(office, attacker)


@contextlib.contextmanager
def _few_files() -> Iterator[None]:
    """What is started meanwhile may open as many files as varnishd on the image."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def _with_sleepers(office: Office) -> dict[str, Any]:
    """The server of the office, and three at addresses where nobody is: called, they never come."""
    config = office.box.default_config()
    (web,) = config["server"]
    del web["share"]  # as a box has it
    sleepers = [
        {
            "id": f"sleeper{n}",
            "address": f"192.0.2.{200 + n}",
            "mac": f"02:00:5e:10:02:{n:02x}",
            "hosts": [host],
            "wake": [{"driver": "etherwake"}],
            "policy": web["policy"],
        }
        for n, host in enumerate(SLEEPERS)
    ]
    return {**config, "server": [web, *sleepers]}


@contextlib.contextmanager
def _attacker(office: Office) -> Iterator[Namespace]:
    """A machine more on the switch, which has a whole /24 and a whole /64."""
    name = f"{office.name}-attacker"
    address, address_v6, mac = ATTACKER
    ip("netns", "add", name)
    machine = Namespace(name, office.logs)
    try:
        _batch(
            office.switch,
            f"link add attacker type veth peer name eth0 netns {name}",
            "link set attacker master br0 up",
        )
        _batch(
            machine,
            "link set lo up",
            f"link set eth0 address {mac} up",
            f"addr add {address}/24 brd + dev eth0",
            f"addr add {address_v6}/64 dev eth0 nodad",
            f"route add local {NETWORK}.0/24 dev lo",
            f"route add local {NETWORK_V6}::/64 dev lo",
        )
        _batch(
            office.box,
            f"route add {NETWORK}.0/24 via {address}",
            f"route add {NETWORK_V6}::/64 via {address_v6}",
        )
        yield machine
    finally:
        machine.end()
        ip("netns", "del", name)


def _batch(namespace: Namespace, *commands: str) -> None:
    ip("-n", namespace.name, "-batch", "-", stdin="\n".join(commands) + "\n")


def start(machine: Namespace, module: str, *words: str) -> subprocess.Popen[str]:
    """Start one of the siege's programs there, to be ended by `end`."""
    argv = [sys.executable, "-m", module, *words]
    return machine.popen(argv, log=module.rpartition(".")[2], stdout=subprocess.PIPE)


def start_attack(machine: Namespace, module: str, *words: str) -> subprocess.Popen[str]:
    """Start one of the attackers, and wait until it begins."""
    attacker = start(machine, module, *words)
    assert attacker.stdout
    attacker.stdout.readline()
    return attacker


def end(program: subprocess.Popen[str], timeout_s: float = 90.0) -> str:
    """Tell it to stop, and return what it said."""
    program.send_signal(signal.SIGTERM)
    said, _ = program.communicate(timeout=timeout_s)
    if program.returncode != 0:
        raise OfficeError(f"{program.args!r} ended with {program.returncode}")
    return said


class FairVisitor:
    """The fair visitor, while it is entered; afterwards `visits` has all."""

    def __init__(self, place: Place, program: str = "tests.siege.fair") -> None:
        """It does not ask yet."""
        self.visits: list[Visit] = []
        self._place = place
        self._module = program

    def __enter__(self) -> Self:
        self._program = start(self._place.office.client, self._module)
        self._said: list[str] = []
        # Read all the time: a full pipe would stop it.
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._program.send_signal(signal.SIGTERM)
        self._program.wait(timeout=90)
        self._reader.join()
        self.visits = [Visit(**json.loads(line)) for line in self._said]

    def _read(self) -> None:
        assert self._program.stdout
        self._said.extend(self._program.stdout)


def pss_mb(pid: int) -> float:
    """Memory of a process, its share of what it shares with others included."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    return 0.0


@dataclasses.dataclass
class Memory:
    """The most that the box's programs had while it was entered, in MB, together and each."""

    office: Office
    most: dict[str, float] = dataclasses.field(default_factory=dict)

    EVERY_S = 0.25

    def __enter__(self) -> Self:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def now(self) -> dict[str, float]:
        """Return each program's memory, and the sum."""
        box = self.office.box
        assert box.varnish
        assert box.controller
        each = {"manager": pss_mb(box.varnish.pid), "controller": pss_mb(box.controller.pid)}
        with contextlib.suppress(OfficeError):
            each["worker"] = pss_mb(box.child())
        return {"all": sum(each.values()), **each}

    def _look(self) -> None:
        while not self._stop.wait(self.EVERY_S):
            for name, mb in self.now().items():
                self.most[name] = round(max(self.most.get(name, 0.0), mb), 1)
