"""How fast a sleeping server is called, and how fast those who wait are answered.

Real cycles in the virtual office: the server sleeps, a program's request arrives, the magic packet
crosses the wire, the server wakes, the held request is answered. All times but one are those of the
kernel's capture on the box's own interface; when the server runs again is said by its mainboard.

Then servers that are switched off and take up to three minutes to start: programs, uploads and
people ask all at once, and none of them may get an error instead of an answer.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial

from tests.bench.result import goal, output_path, summary, write
from tests.e2e.clients import PERSON, Answer, ask, at_once, visitor
from tests.patience import wait_for
from tests.simulator.office import Office, Settings
from tests.simulator.office.box import ADDRESS, HOST
from tests.simulator.office.office import CLIENT_ADDRESS
from tests.simulator.office.wire import Frame, to_realtime

CYCLES = 120
BOOTS_S = (0.2, 5.0, 20.0, 75.0, 180.0)
PROGRAMS, UPLOADS, PEOPLE = 10, 4, 4
UPLOAD_BYTES = 1 << 20
QUICK = Settings(sleep_s=0.1, wake_s=0.3)
TRAFFIC = (
    f"(tcp and (port 80 or port 443) and host {CLIENT_ADDRESS}) or udp port 9 or ether proto 0x0842"
)
ETHERWAKE, IPV4, TCP, UDP = 0x0842, 0x0800, 6, 17


@dataclass(frozen=True, slots=True)
class Cycle:
    """What one wake took, in ms; `etherwake_ms` is the controller's own packet."""

    first_packet_ms: float
    etherwake_ms: float
    response_ms: float


def ethertype(frame: Frame) -> int:
    """Read the type field of an Ethernet frame."""
    return int.from_bytes(frame.data[12:14], "big")


def carries_data(frame: Frame, source_port: int | None, target_port: int | None) -> bool:
    """Whether this is a TCP segment over IPv4 with a payload, from or to this port."""
    ip = frame.data[14:]
    if ethertype(frame) != IPV4 or ip[9] != TCP:
        return False
    header = (ip[0] & 15) * 4
    tcp = ip[header : int.from_bytes(ip[2:4], "big")]
    if source_port is not None and int.from_bytes(tcp[0:2], "big") != source_port:
        return False
    if target_port is not None and int.from_bytes(tcp[2:4], "big") != target_port:
        return False
    return len(tcp) > (tcp[12] >> 4) * 4


def is_magic(frame: Frame) -> bool:
    """Whether this is a magic packet, by UDP or etherwake's."""
    return ethertype(frame) == ETHERWAKE or (ethertype(frame) == IPV4 and frame.data[23] == UDP)


Client = Callable[[socket.socket, str], float]
"""Asks for a path on a connection, reads the whole answer; when it was ready to ask."""


def in_clear(client: socket.socket, path: str) -> float:
    """Ask by HTTP."""
    begun_s = time.time()
    client.sendall(
        f"GET {path} HTTP/1.1\r\nHost: {HOST}\r\n"
        "User-Agent: curl/8\r\nConnection: close\r\n\r\n".encode()
    )
    answer = b""
    while part := client.recv(65536):
        answer += part
    if b"x-naproxy: held" not in answer.lower():
        raise SystemExit(f"not held: {answer[:200]!r}")
    return begun_s


def one_cycle(office: Office, number: int, port: int = 80, ask: Client = in_clear) -> Cycle:
    """Put the server to sleep, ask for something, and read the times off the wire."""
    office.box.sleep()
    with office.capture(office.box, TRAFFIC) as wire:
        with office.client.connect(ADDRESS, port, timeout_s=30) as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            begun_s = ask(client, f"/app/count?bench={number}")
        awake = [t for t in office.server.board.report()["transitions"] if t["state"] == "on"][-1]
        ready_s = to_realtime(awake["t_s"])
        answered = wait_for(
            lambda: [f for f in wire.frames() if carries_data(f, port, None) and f.t_s > ready_s],
            "the answer's frames",
        )
        frames = wire.frames()
    office.box.await_state("awake")
    asked_s = next(f.t_s for f in frames if carries_data(f, None, port) and f.t_s >= begun_s)
    packets = [f for f in frames if is_magic(f) and f.t_s >= asked_s]
    etherwake_s = next(f.t_s for f in packets if ethertype(f) == ETHERWAKE)
    return Cycle(
        first_packet_ms=(packets[0].t_s - asked_s) * 1000,
        etherwake_ms=(etherwake_s - asked_s) * 1000,
        response_ms=(answered[0].t_s - ready_s) * 1000,
    )


@dataclass(frozen=True, slots=True)
class Boot:
    """What became of those who asked for a server that takes `wake_s` to start.

    `lost` got no answer, or one that is not the site's; `refused` were told to come again, of which
    a person's waiting page is no case; `twice` reached the server more than once.
    """

    wake_s: float
    asked: int
    lost: int
    refused: int
    twice: int
    longest_s: float


def _person(office: Office, number: int) -> Answer:
    """Load a page as a browser does: see the waiting page, and come back when it says so."""
    path = f"/app/count?person={number}"
    answer = ask(office.client, path, headers=PERSON, source=visitor(number))
    while answer.headers.get("x-naproxy") == "waiting_page":
        time.sleep(min(5.0, float(answer.headers["retry-after"])))
        answer = ask(office.client, path, headers=PERSON, source=visitor(number))
    return answer


def cold_boot(wake_s: float) -> Boot:
    """Wake a server that was never woken before, so that the box knows nothing of its times."""
    off = {"sleep": {"state": "off"}}
    with Office(board=Settings(sleep_s=0.2, wake_s=wake_s)) as office:
        box, client = office.box.start(server=off), office.client
        box.await_state("awake")
        box.sleep()
        program = partial(ask, client, timeout_s=wake_s + 120)
        upload = partial(program, "/app/echo", method="POST", body=os.urandom(UPLOAD_BYTES))
        calls = [
            *(partial(program, f"/app/count?n={n}") for n in range(PROGRAMS)),
            *[upload] * UPLOADS,
            *(partial(_person, office, n) for n in range(PEOPLE)),
        ]
        with at_once(calls) as under_way:
            pass
        answers = [each.result() for each in under_way]
        refused = [each for each in answers if each.headers.get("x-naproxy") in ("capped", "limit")]
        good = [each for each in answers if each.status == 200]
        received = office.server.received()
        twice = sum(received[each.request_id] > 1 for each in answers)
        lost = len(answers) - len(good) - len(refused)
        lost += sum(received[each.request_id] == 0 for each in good)
    took_s = max(each.took_s for each in answers)
    return Boot(wake_s, len(answers), lost, len(refused), twice, round(took_s, 1))


@contextmanager
def busy(cores: int) -> Iterator[None]:
    """Keep so many cores busy."""
    spin = [sys.executable, "-c", "while True: pass"]
    burners = [subprocess.Popen(spin) for _ in range(cores)]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


def main() -> None:
    """Measure, and write what was measured."""
    output = output_path()
    with Office(board=QUICK) as office:
        office.box.optimised = True
        office.box.start()
        office.box.await_state("awake")
        idle = [one_cycle(office, n) for n in range(CYCLES)]
        with busy(os.cpu_count() or 1):
            loaded = [one_cycle(office, CYCLES + n) for n in range(CYCLES)]
    figures = {
        f"{name}_{condition}": summary([getattr(cycle, name) for cycle in cycles])
        for condition, cycles in (("idle", idle), ("busy", loaded))
        for name in Cycle.__dataclass_fields__
    }
    boots = [cold_boot(wake_s) for wake_s in BOOTS_S]
    write(
        output,
        [
            goal("request to magic packet, idle, p50 in ms",
                 figures["first_packet_ms_idle"]["p50"], 1, "<="),
            goal("request to magic packet, idle, p99 in ms",
                 figures["first_packet_ms_idle"]["p99"], 5, "<="),
            goal("server ready to first held response, idle, p99 in ms",
                 figures["response_ms_idle"]["p99"], 100, "<="),
            *(goal(f"requests lost, refused or twice, {boot.wake_s:g} s to start",
                   boot.lost + boot.refused + boot.twice, 0, "<=") for boot in boots),
        ],
        {"cores": os.cpu_count(), "cycles": CYCLES, **figures, "boots": list(map(asdict, boots))},
    )  # fmt: skip


if __name__ == "__main__":
    main()
