"""The virtual mainboard: power, as far as a web server and its network can tell.

A process of its own beside the server, never frozen with it. It listens on the
raw wire, below the firewall, as the network card of a sleeping machine does.
Asleep means: every process of the server is frozen and no frame gets in or
out, so connections hang and nothing is reset. It obeys JSON lines on a unix
socket, `{"do": "suspend"}` and so on, and answers each with one.
"""

import contextlib
import ctypes
import dataclasses
import json
import selectors
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.simulator.office import magic
from tests.simulator.office.freezer import Freezer
from tests.simulator.office.namespace import OfficeError

ON, SUSPENDING, OFF, RESUMING, HUNG = "on", "suspending", "off", "resuming", "hung"

_KEPT = 1000
"""Magic packets and transitions remembered, the newest."""


@dataclasses.dataclass(slots=True)
class Settings:
    """What the machine takes and how it misbehaves; times from the thesis, table 4.2."""

    sleep_s: float = 3.9
    """From the command until it has fallen silent."""
    wake_s: float = 0.15
    """From the magic packet until it runs again."""
    ignore_packets: int = 0
    """So many good magic packets are lost on it yet; counts down."""
    never_wake: bool = False
    """Magic packets do nothing."""
    refuse: str = ""
    """Words with which it refuses to sleep; empty: it obeys."""
    hang: bool = False
    """On waking the link comes up and the kernel answers, but no process runs."""
    hold_command: bool = False
    """The sleep command returns only after the next wake, as `echo mem > state` does."""
    secureon: str = ""
    """SecureOn password in hex, 4 or 6 bytes, that must follow the magic sequence."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            default = field.default
            kinds = (int, float) if isinstance(default, float) else (type(default),)
            if type(value) not in kinds:
                raise ValueError(f"{field.name}: {value!r} is not a {kinds[-1].__name__}")
        if len(bytes.fromhex(self.secureon)) not in (0, 4, 6):
            raise ValueError("secureon: not 4 or 6 bytes of hex")
        if self.sleep_s < 0 or self.wake_s < 0:
            raise ValueError("sleep_s and wake_s are not negative")


class _Card:
    """The network card: sees every frame on the interface, also those that are dropped."""

    _ATTACH, _DETACH = 26, 27  # SO_ATTACH_FILTER, SO_DETACH_FILTER
    # classic BPF: everything but TCP over IPv4 or IPv6
    _NO_TCP = (
        (0x28, 0, 0, 12),  # ldh [12]
        (0x15, 0, 2, 0x0800),  # IPv4?
        (0x30, 0, 0, 23),  # ldb [23]
        (0x15, 3, 4, 6),  # TCP?
        (0x15, 0, 3, 0x86DD),  # IPv6?
        (0x30, 0, 0, 20),  # ldb [20]
        (0x15, 0, 1, 6),  # TCP?
        (0x06, 0, 0, 0),  # drop
        (0x06, 0, 0, 0xFFFF),  # accept
    )

    def __init__(self, interface: str):
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self.socket.bind((interface, 3))
        self.socket.setblocking(False)
        self.mac: bytes = self.socket.getsockname()[4]

    def listen_to_tcp(self, listen: bool) -> None:
        """Leave TCP out while the machine is on: it is busy then and wakes nobody."""
        if listen:
            with contextlib.suppress(FileNotFoundError):
                self.socket.setsockopt(socket.SOL_SOCKET, self._DETACH, 0)
            return
        code = b"".join(struct.pack("=HBBI", *line) for line in self._NO_TCP)
        memory = ctypes.create_string_buffer(code, len(code))
        program = struct.pack("@HP", len(self._NO_TCP), ctypes.addressof(memory))
        self.socket.setsockopt(socket.SOL_SOCKET, self._ATTACH, program)

    def frames(self) -> list[tuple[bytes, int]]:
        """Return what has arrived and this card would accept: (frame, type)."""
        arrived = []
        with contextlib.suppress(BlockingIOError):
            while True:
                frame, (_, ethertype, kind, _, _) = self.socket.recvfrom(65535)
                if kind in (socket.PACKET_HOST, socket.PACKET_BROADCAST, socket.PACKET_MULTICAST):
                    arrived.append((frame, ethertype))
        return arrived


class _Silence:
    """Freezes the server's processes and cuts its wire, without taking the link down."""

    def __init__(self, interface: str, freezer: Freezer):
        self._freezer = freezer
        self._cut = "".join(
            f'add chain netdev asleep {hook} {{ type filter hook {hook} device "{interface}"'
            " priority 0; policy drop; }\n"
            for hook in ("ingress", "egress")
        )

    def begin(self) -> None:
        self._freezer.freeze()
        self._nft(f"add table netdev asleep\n{self._cut}")

    def link(self) -> None:
        self._nft("delete table netdev asleep")

    def processes(self) -> None:
        self._freezer.thaw()

    @staticmethod
    def _nft(script: str) -> None:
        subprocess.run(["nft", "-f", "-"], input=script, text=True, check=True)


class Board:
    """The machine's power: one state, its timers, and what the card hears."""

    def __init__(self, interface: str, freezer: Freezer, settings: Settings):
        self.settings = settings
        self.card = _Card(interface)
        self.state = ON
        self.held: list[socket.socket] = []
        self._silence = _Silence(interface, freezer)
        self._due_s: float | None = None
        self._counts = {"magic": 0, "acted": 0, "wrong": 0}
        self._packets: list[dict[str, Any]] = []
        self._transitions: list[dict[str, Any]] = []
        self._enter(ON)

    def wait_s(self) -> float | None:
        """Seconds until the next timer, or None."""
        return None if self._due_s is None else max(0.0, self._due_s - time.monotonic())

    def tick(self) -> None:
        """Do what is due."""
        if self._due_s is None or time.monotonic() < self._due_s:
            return
        self._due_s = None
        if self.state == SUSPENDING:
            self.card.listen_to_tcp(True)
            self._silence.begin()
            self._enter(OFF)
        elif self.state == RESUMING:
            # Devices come back before processes do, as in Linux's own resume.
            self._silence.link()
            if self.settings.hang:
                self._enter(HUNG)
            else:
                self._run()

    def hear(self) -> None:
        """Look at what arrived on the wire."""
        password = bytes.fromhex(self.settings.secureon)
        for frame, ethertype in self.card.frames():
            if magic.wakes(frame, self.card.mac, password):
                self._magic(frame, ethertype)
            elif magic.looks_like_one(frame):
                self._counts["wrong"] += 1

    def suspend(self) -> str:
        """Begin to fall asleep; returns words if that is refused."""
        if self.settings.refuse:
            return self.settings.refuse
        if self.state != ON:
            return f"the machine is {self.state}"
        self._enter(SUSPENDING, self.settings.sleep_s)
        return ""

    def power_on(self) -> str:
        """Wake without a packet: the button, a timer, or the end of a hang."""
        if self.state == HUNG:
            self._run()
        elif self.state == OFF:
            self._resume()
        else:
            return f"the machine is {self.state}"
        return ""

    def configure(self, changes: dict[str, Any]) -> None:
        """Replace settings by name; ValueError or TypeError says what is wrong."""
        self.settings = dataclasses.replace(self.settings, **changes)

    def report(self) -> dict[str, Any]:
        """State, counts and times; times are CLOCK_MONOTONIC."""
        return {
            "state": self.state,
            "counts": self._counts,
            "packets": self._packets,
            "transitions": self._transitions,
            "settings": dataclasses.asdict(self.settings),
        }

    def _magic(self, frame: bytes, ethertype: int) -> None:
        self._counts["magic"] += 1
        effect = self._effect()
        self._packets.append(
            {
                "t_s": time.monotonic(),
                "ethertype": ethertype,
                "source": frame[6:12].hex(":"),
                "effect": effect,
            }
        )
        del self._packets[:-_KEPT]
        if effect == "wake":
            self._counts["acted"] += 1
            self._resume()

    def _effect(self) -> str:
        # A card is armed only once the machine sleeps: sooner is too soon.
        if self.state != OFF:
            return f"none, {self.state}"
        if self.settings.never_wake:
            return "none, never wakes"
        if self.settings.ignore_packets > 0:
            self.settings.ignore_packets -= 1
            return "none, ignored"
        return "wake"

    def _resume(self) -> None:
        self._enter(RESUMING, self.settings.wake_s)

    def _run(self) -> None:
        # First, or what runs again might answer before the time that it says.
        self._enter(ON)
        self._silence.processes()
        self.card.listen_to_tcp(False)
        for caller in self.held:
            _answer(caller, {"ok": True})
            caller.close()
        self.held.clear()

    def _enter(self, state: str, for_s: float | None = None) -> None:
        now_s = time.monotonic()
        self.state = state
        self._due_s = None if for_s is None else now_s + for_s
        self._transitions.append({"state": state, "t_s": now_s})
        del self._transitions[:-_KEPT]


def _answer(caller: socket.socket, what: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):
        caller.sendall(json.dumps(what).encode() + b"\n")


def _obey(board: Board, caller: socket.socket) -> None:
    """Take one command from a caller, who then hangs up."""
    caller.settimeout(5.0)
    keep = False
    try:
        order = json.loads(caller.makefile("rb").readline())
        match order.pop("do", None):
            case "report":
                _answer(caller, board.report())
            case "configure":
                board.configure(order)
                _answer(caller, {"ok": True})
            case "power_on":
                words = board.power_on()
                _answer(caller, {"error": words} if words else {"ok": True})
            case "suspend":
                words = board.suspend()
                keep = not words and board.settings.hold_command
                if keep:
                    board.held.append(caller)
                else:
                    _answer(caller, {"error": words} if words else {"ok": True})
            case unknown:
                _answer(caller, {"error": f"no such command: {unknown}"})
    except (ValueError, TypeError, AttributeError, OSError) as error:
        _answer(caller, {"error": str(error)})
    finally:
        if not keep:
            caller.close()


def serve(board: Board, control: Path) -> None:
    """Be the mainboard until killed."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(control))
    listener.listen(16)
    # Only an armed card looks into TCP.
    board.card.listen_to_tcp(False)
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    selector.register(board.card.socket, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select(board.wait_s()):
            if key.fileobj is listener:
                _obey(board, listener.accept()[0])
            else:
                board.hear()
        board.tick()


class Mainboard:
    """The other end of the control socket: what tests and the sleep command use."""

    def __init__(self, control: Path):
        self.control = control

    def __call__(self, do: str, timeout_s: float = 10.0, **more: Any) -> dict[str, Any]:
        """Send one command; a refusal is an OfficeError with its words."""
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(timeout_s)
            line.connect(str(self.control))
            line.sendall(json.dumps({"do": do, **more}).encode() + b"\n")
            answer: dict[str, Any] = json.loads(line.makefile("rb").readline())
        if "error" in answer:
            raise OfficeError(answer["error"])
        return answer

    def answers(self) -> bool:
        """Whether the board is there."""
        with contextlib.suppress(OSError):
            return bool(self.report())
        return False

    def report(self) -> dict[str, Any]:
        """State, counts of packets, packets and transitions with times (s, monotonic)."""
        return self("report")

    def configure(self, **settings: Any) -> None:
        """Change some of Settings, by name."""
        self("configure", **settings)

    def reset(self, settings: Settings) -> None:
        """Replace all settings, those that count down too."""
        self.configure(**dataclasses.asdict(settings))

    def suspend(self) -> None:
        """Order it to sleep, as the sleep command does."""
        self("suspend")

    def power_on(self) -> None:
        """Wake it by hand."""
        self("power_on")

    @property
    def state(self) -> str:
        """on, suspending, off, resuming or hung."""
        return str(self.report()["state"])


def main() -> None:
    """`... mainboard INTERFACE CGROUP CONTROL SETTINGS`, in the server's namespace."""
    interface, cgroup, control, settings = sys.argv[1:]
    board = Board(interface, Freezer(Path(cgroup)), Settings(**json.loads(settings)))
    serve(board, Path(control))


if __name__ == "__main__":
    main()
