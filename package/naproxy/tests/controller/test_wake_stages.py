"""The stages of a wake, from a real port, real pings and a real link."""

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from free_port import free_port
from naproxy.controller.ping import Pinger
from naproxy.controller.probing import Prober
from naproxy.controller.wake_stages import WakeStages, has_link
from naproxy.core.reason import Reason
from naproxy.drivers import Target
from naproxy.drivers.ready import http
from naproxy.server.machine_io import Observed, Probe
from naproxy.server.seeing import Pinged, Sign

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
ROOT = Path(__file__).parents[4]
UNSEEN = {"interface": "nope0", "power_w": lambda: None}

IN_A_NAMESPACE = """
import subprocess
from naproxy.controller.wake_stages import has_link
from tests.patience import wait_for
def ip(*words): subprocess.run(["ip", *words], check=True)
ip("link", "add", "v0", "type", "veth", "peer", "name", "v1")
ip("link", "set", "v0", "up")
for other, seen in (("down", False), ("up", True), ("down", False)):
    ip("link", "set", "v1", other)
    # The kernel tells of a carrier a moment later.
    wait_for(lambda: has_link("v0") is seen, f"the link when the other end is {other}")
"""


@needs_root
def test_the_link_of_a_direct_cable_follows_the_other_end() -> None:
    argv = ["unshare", "-n", sys.executable, "-c", IN_A_NAMESPACE]
    subprocess.run(argv, check=True, cwd=ROOT)


@pytest.mark.parametrize("interface", ["nope0", "a name that is longer than any", ""])
def test_the_link_of_an_interface_that_is_not_there_cannot_be_told(interface: str) -> None:
    assert has_link(interface) is None


class Wake:
    """A server's port on this machine, probed and pinged as a runner does."""

    def __init__(self, port: int, stages: WakeStages) -> None:
        self.stages = stages
        self.ready = asyncio.Event()
        driver = http.Driver(
            http.Settings(), Target("web", "127.0.0.1", port, "02:00:00:00:00:01", "lo")
        )
        self.prober = Prober(
            driver, 1.0, self.seen, lambda _: None, connected=self.stages.connected
        )
        self.pinger = Pinger("127.0.0.1", self.stages.pinged)

    def seen(self, seen: Observed) -> None:
        self.stages.probed(seen)
        if seen.sign is Sign.READY:
            self.ready.set()

    async def up(self) -> list[str]:
        self.stages.begin(time.monotonic(), 43.3)
        self.pinger.every(0.01)
        self.prober.set(Probe(0.01))
        async with asyncio.timeout(60):
            await self.ready.wait()
        self.pinger.stop()
        self.prober.stop()
        return [stage.name for stage in self.stages.up()]


async def test_port_and_answer_of_a_real_server_are_stages_of_their_own() -> None:
    port, held = free_port(), asyncio.Event()

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await held.wait()
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await writer.drain()
        writer.close()

    stages = WakeStages(**UNSEEN)
    wake = Wake(port, stages)
    up = asyncio.ensure_future(wake.up())
    await asyncio.sleep(0)
    server = await asyncio.start_server(answer, "127.0.0.1", port)
    held.set()
    assert await up == ["network", "port", "answer"]
    server.close()


async def test_a_ping_and_a_probe_from_before_the_call_do_not_count() -> None:
    stages = WakeStages(**UNSEEN)
    called_s = time.monotonic()
    stages.begin(called_s, 43.3)
    stages.pinged(Pinged(True, called_s - 0.1))
    stages.pinged(Pinged(False, called_s + 0.1))
    stages.probed(Observed(Sign.REFUSING, Reason("ready.refused"), called_s - 0.1))
    assert [stage.name for stage in stages.up()] == ["answer"]


async def test_nothing_is_seen_while_no_wake_is_under_way() -> None:
    stages = WakeStages(**UNSEEN)
    stages.pinged(Pinged(True, time.monotonic()))
    stages.connected()
    assert stages.up() == ()


async def test_the_meter_is_read_while_a_wake_is_under_way_and_not_after() -> None:
    read: list[float] = []
    watts = iter([1.6, 1.7, 20.0])
    risen = asyncio.Event()

    def power_w() -> float:
        read.append(next(watts, 43.0))
        if read[-1] == 43.0:
            risen.set()
        return read[-1]

    stages = WakeStages("nope0", power_w)
    stages.begin(time.monotonic(), 43.3)
    async with asyncio.timeout(60):
        await risen.wait()
    assert [stage.name for stage in stages.up()] == ["power", "answer"]
    before = len(read)
    await asyncio.sleep(0)
    assert (stages.under_way, len(read)) == (False, before)
