import asyncio
import gc
import os
import shutil
import socket
from dataclasses import replace
from pathlib import Path

import pytest
from naproxy import drivers
from naproxy.drivers.wake import etherwake

# Other runs send packets on the same loopback wire.
MAC = "02:" + os.urandom(5).hex(":")
ETHERTYPE_WOL = 0x0842
MAGIC = b"\xff" * 6 + bytes.fromhex(MAC.replace(":", "")) * 16

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="raw packets need root"),
    pytest.mark.skipif(not Path("/usr/sbin/etherwake").exists(), reason="etherwake not installed"),
]


def children() -> set[str]:
    """Process ids of those that were started here and have not been waited for."""
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def sent(driver: etherwake.Driver) -> list[str]:
    """Send once and wait until etherwake has ended; return what failed."""

    async def play() -> list[str]:
        failed: list[str] = []
        # Other tests' servers may be children of this process, too.
        before = children()
        driver.send(lambda reason: failed.append(str(reason)))
        async with asyncio.timeout(20):
            while children() - before:
                await asyncio.sleep(0.001)
        return failed

    return asyncio.run(play())


def target(interface: str = "lo") -> drivers.Target:
    return drivers.Target("web", "127.0.0.1", 80, MAC, interface)


@pytest.mark.parametrize("to_all", [True, False])
def test_the_magic_packet_is_on_the_wire(to_all: bool) -> None:
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHERTYPE_WOL)) as wire:
        wire.bind(("lo", 0))
        wire.settimeout(20)
        assert sent(etherwake.Driver(replace(etherwake.Settings(), to_all=to_all), target())) == []
        while MAGIC not in (frame := wire.recv(2000)):
            pass
    assert frame[:6] == (b"\xff" * 6 if to_all else bytes.fromhex(MAC.replace(":", "")))


def test_an_interface_that_is_not_there_is_said_in_etherwakes_words() -> None:
    [words] = sent(etherwake.Driver(etherwake.Settings(), target("nope0")))
    assert words.startswith("etherwake: ")
    assert "nope0" in words
    own = replace(etherwake.Settings(), interface="nope1")
    assert "nope1" in sent(etherwake.Driver(own, target("lo")))[0], "it goes before the box's"


def test_a_missing_etherwake_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    assert sent(etherwake.Driver(etherwake.Settings(), target())) == ["etherwake is not installed"]


def test_nothing_is_left_open() -> None:
    driver = etherwake.Driver(etherwake.Settings(), target())
    gc.collect()  # what other tests left is none of ours
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        sent(driver)
    assert len(list(Path("/proc/self/fd").iterdir())) <= before
