"""The guest's mainboard and network card: what QEMU leaves out between S3 and the wire.

QEMU's cards do not wake a sleeping guest. So while it sleeps, this listens on the raw
wire in the card's stead, and turns a correct magic packet into QEMU's `system_wakeup`. A
sleeping machine's card takes no other frame: the wire to the guest is cut meanwhile, lest
QEMU keep frames and deliver them on waking.
"""

import contextlib
import json
import os
import selectors
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.patience import wait_for
from tests.simulator.office import magic
from tests.simulator.office.namespace import Namespace, OfficeError, ip

SUSPEND, WAKEUP = "SUSPEND", "WAKEUP"
_ALL_PROTOCOLS = 3
_ACCEPTED = (socket.PACKET_BROADCAST, socket.PACKET_MULTICAST)


@dataclass(frozen=True, slots=True)
class Event:
    """What QEMU reported; `t_s` is CLOCK_MONOTONIC as it arrived here."""

    name: str
    t_s: float


class Qmp:
    """QEMU's control socket (QEMU Machine Protocol); one command at a time."""

    def __init__(self, path: Path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(30)
        self.socket.connect(str(path))
        self._lines = b""
        self._events: list[str] = []
        self._message()  # the greeting
        self("qmp_capabilities")

    def __call__(self, command: str, **arguments: Any) -> Any:
        """Give a command and return what it returns."""
        order = {"execute": command, "arguments": arguments}
        self.socket.sendall(json.dumps(order).encode() + b"\n")
        while True:
            message = self._message()
            if "event" in message:
                self._events.append(message["event"])
            elif "error" in message:
                raise OfficeError(f"QEMU: {command}: {message['error']['desc']}")
            else:
                return message["return"]

    def close(self) -> None:
        """Hang up."""
        self.socket.close()

    def events(self) -> Iterator[str]:
        """Give those that came with answers, and those that wait on the socket."""
        while self._events or b"\n" in self._lines or self._readable():
            if self._events:
                yield self._events.pop(0)
            elif "event" in (message := self._message()):
                yield message["event"]

    def _readable(self) -> bool:
        with selectors.DefaultSelector() as selector:
            selector.register(self.socket, selectors.EVENT_READ)
            return bool(selector.select(0))

    def _message(self) -> dict[str, Any]:
        while b"\n" not in self._lines:
            if not (more := self.socket.recv(65536)):
                raise EOFError("QEMU has ended")
            self._lines += more
        line, _, self._lines = self._lines.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message


class Power(threading.Thread):
    """Follows the guest's sleep and wakes it. `wire` is the card's side of the office's cable."""

    def __init__(self, namespace: Namespace, mac: str, qmp: Path, wire: str, tap: str):
        super().__init__(daemon=True, name="guest-power")
        self.events: list[Event] = []
        self.heard = 0
        """Frames that arrived while it slept, for this card or for all."""
        self.woken = 0
        """How often a magic packet woke it."""
        self._namespace = namespace
        self._mac = magic.address(mac)
        self._wire = wire
        self._tap = tap
        self._qmp = Qmp(qmp)
        self._card: socket.socket | None = None
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._qmp.socket, selectors.EVENT_READ)

    @property
    def asleep(self) -> bool:
        """Whether the guest is in S3, as QEMU last said."""
        return bool(self.events) and self.events[-1].name == SUSPEND

    def count(self, name: str) -> int:
        """How often QEMU has reported this."""
        return sum(event.name == name for event in self.events)

    def wait(self, name: str, count: int, timeout_s: float = 600.0) -> float:
        """Wait for the `count`th report of this, and return its time."""
        wait_for(lambda: self.count(name) >= count, f"QEMU's {name} number {count}", timeout_s)
        return [event.t_s for event in self.events if event.name == name][count - 1]

    def run(self) -> None:
        """Follow the guest until QEMU ends."""
        with contextlib.suppress(EOFError, ConnectionError):
            while True:
                if self._card:
                    self._listen(self._card)
                # Also those that came while a command was answered.
                for name in self._qmp.events():
                    self._take(name)
                self._selector.select()

    def _take(self, event: str) -> None:
        if event == SUSPEND:
            ip("-n", self._namespace.name, "link", "set", self._tap, "down")
            with self._namespace.entered():
                self._card = socket.socket(
                    socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_PROTOCOLS)
                )
            self._card.bind((self._wire, _ALL_PROTOCOLS))
            self._card.setblocking(False)
            self._selector.register(self._card, selectors.EVENT_READ)
        elif event == WAKEUP:
            if self._card:
                self._selector.unregister(self._card)
                self._card.close()
                self._card = None
            ip("-n", self._namespace.name, "link", "set", self._tap, "up")
        else:
            return
        # Whoever waits for it finds the card armed, or the wire whole.
        self.events.append(Event(event, time.monotonic()))

    def _listen(self, card: socket.socket) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                frame, (_, _, kind, _, _) = card.recvfrom(65535)
                if kind == socket.PACKET_OUTGOING:
                    continue
                if frame[:6] != self._mac and kind not in _ACCEPTED:
                    continue
                if magic.wakes(frame, self._mac):
                    # A second packet may come before QEMU reports what the first one did.
                    with contextlib.suppress(OfficeError):
                        self._qmp("system_wakeup")
                        self.woken += 1
                    return
                self.heard += 1


def accelerator() -> str:
    """Return kvm where the processor itself virtualises, else tcg; GUEST_ACCEL overrides.

    A kvm module alone is no proof: where KVM is itself paravirtual (kvm_pvm), an ordinary
    kernel does not get far.
    """
    hardware = any(Path("/sys/module", name).exists() for name in ("kvm_intel", "kvm_amd"))
    usable = hardware and os.access("/dev/kvm", os.R_OK | os.W_OK)
    return os.environ.get("GUEST_ACCEL") or ("kvm" if usable else "tcg")
