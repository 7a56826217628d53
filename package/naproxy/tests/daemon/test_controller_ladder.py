"""The ladder in a controller process: packets on the wire that do not help, then what does."""

import socket
import threading
from collections.abc import Callable, Iterator

import pytest
from box import MAC, QUICK, Box
from naproxy.core.state import State


class Ear:
    """Wakes the server by a magic packet to a UDP port."""

    def __init__(self) -> None:
        self.box: Box | None = None
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while data := self._socket.recv(2000):
            if data.startswith(b"\xff" * 6 + bytes.fromhex(MAC.replace(":", ""))) and self.box:
                self.box.server.power.unlink(missing_ok=True)

    def close(self) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
            end.sendto(b"", ("127.0.0.1", self.port))


@pytest.fixture
def ear() -> Iterator[Ear]:
    made = Ear()
    yield made
    made.close()


def udp(ear: Ear) -> str:
    return (
        '[[server.wake]]\ndriver = "udp"\naddress = "127.0.0.1"\n'
        f"ports = [{ear.port}]\nspacing_s = 0.2\n"
    )


def cycle(box: Box) -> int:
    """One sleep and one wake; returns how many packets on the wire were in vain."""
    box.sleep()
    before = box.server.packets
    box.ask_for_wake()
    box.wait(State.AWAKE)
    return box.server.packets - before


def test_after_three_packets_the_next_rung_wakes_it(make: Callable[..., Box], ear: Ear) -> None:
    box = ear.box = make()
    box.fixed = {**QUICK, "naproxy.drivers.wake.RungSettings": {"attempts": 3}}
    box.server.deaf = True
    box.file.write_text(box.file.read_text() + udp(ear))
    box.start().wait(State.AWAKE)
    assert "in vain" not in box.naproxy("status").stdout
    assert cycle(box) == 3
    assert "etherwake did not wake it; the box now tries udp: It is not up yet" in box.log()
    assert box.status()["rungs"] == [
        {"name": "udp", "works": True},
        {"name": "etherwake", "works": False},
    ]
    assert "woken by udp; in vain of late: etherwake" in box.naproxy("status").stdout


def test_a_rung_that_fails_is_passed_over_and_said(make: Callable[..., Box], ear: Ear) -> None:
    box = ear.box = make()
    box.fixed = {**QUICK, "naproxy.drivers.wake.RungSettings": {"attempts": 3}}
    broken = '[[server.wake]]\ndriver = "gpio"\nchip = "gpiochip99"\nline = 1\n'
    text = box.file.read_text().replace("[[server.wake]]\nspacing_s = 0.2\n", broken)
    box.file.write_text(text + udp(ear))
    box.start().wait(State.AWAKE)
    cycle(box)
    assert "gpio did not wake it; the box now tries udp: gpioset" in box.log()
