"""The box's hardware: QEMU, its console, its power cord."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tests.guest.power import Qmp
from tests.image_vm.board import FIRMWARE, Board, Hardware
from tests.image_vm.console import Console
from tests.patience import wait_for
from tests.simulator.office.namespace import Namespace, OfficeError
from tests.simulator.office.tap import TAP

T = TypeVar("T")

_START_S = 30.0


class Machine:
    """One machine in a network namespace whose cable leads to a tap; off until `switch_on`."""

    def __init__(
        self, board: Board, namespace: Namespace, directory: Path, logs: Path, mac: str
    ) -> None:
        self.board = board
        self.loads: list[str | Path] = []
        """QEMU's arguments for what firmware would take from the disk."""
        self.on_since_s = 0.0
        """CLOCK_MONOTONIC when QEMU was started."""
        self._namespace = namespace
        self._directory = directory
        self._logs = logs
        self._mac = mac
        self._starts = 0
        self._qemu: subprocess.Popen[str] | None = None
        self._qmp: Qmp | None = None
        self._console: Console | None = None
        self._one_at_a_time = threading.Lock()

    @property
    def console(self) -> Console:
        """The console since it was switched on."""
        assert self._console, "off"
        return self._console

    @property
    def running(self) -> bool:
        """Whether QEMU runs."""
        return self._qemu is not None and self._qemu.poll() is None

    def switch_on(
        self, disk: Path, *extra: str | Path, other: tuple[str, Hardware] | None = None
    ) -> Console:
        """Start it from this disk (qcow2); `extra` goes to QEMU. Its console is copied to a file.

        `other` is firmware and hardware in place of its own. QEMU waits for the console's reader,
        so that nothing of it is lost.
        """
        assert not self.running, "on already"
        self._starts += 1
        for name in ("console", "qmp", "usb-meter"):
            self._socket(name).unlink(missing_ok=True)
        self.on_since_s = time.monotonic()
        firmware, hardware = other or (self.board.firmware, self.board.hardware)
        argv = [
            *(*self._argv(disk, hardware.drive), *FIRMWARE[firmware], *self.loads),
            *(*hardware.argv(self._mac), "-serial", "chardev:console", *extra),
        ]
        self._qemu = self._namespace.popen(argv, log="qemu")
        self._console = self._connect(
            lambda: Console(self._socket("console"), self.console_log(), halted=self._restart)
        )
        self._console.start()
        self._qmp = self._connect(lambda: Qmp(self._socket("qmp")))
        return self._console

    def cut_power(self) -> None:
        """Kill QEMU; what it has not written is lost."""
        if self._qemu:
            self._qemu.kill()
        self._wait(30.0)

    def wait_off(self, timeout_s: float) -> None:
        """Wait until it has switched itself off, or restarted after `stay_off`."""
        self._wait(timeout_s)

    def stay_off(self) -> None:
        """Let the next restart be an end instead."""
        self._command("set-action", reboot="shutdown")

    def new_layer(self, file: Path) -> None:
        """Let all writes from now on go to a new file on top of the disk's."""
        self._command(
            "blockdev-snapshot-sync",
            **{"device": "disk", "snapshot-file": str(file)},
            format="qcow2",
        )

    def screenshot(self, file: Path) -> None:
        """Keep what its screen shows, as PNG."""
        self._command("screendump", filename=str(file), format="png")

    def plug_in_serial(self) -> socket.socket:
        """Plug a serial port into its USB; what is sent is what the device says. Unplug: close."""
        found = socket.socket(socket.AF_UNIX)
        found.connect(str(self._socket("usb-meter")))
        return found

    def console_log(self) -> Path:
        """Where the console of this start is copied to."""
        return self._logs / f"console-{self._starts:02}.log"

    def _restart(self) -> None:
        """Do what the box wanted: the board's watchdog, without its driver, cannot (board.py)."""
        self._command("system_reset")

    def _command(self, name: str, **arguments: str) -> None:
        assert self._qmp, "off"
        with self._one_at_a_time:  # the console's thread may have one, too
            self._qmp(name, **arguments)

    def _connect(self, to: Callable[[], T]) -> T:
        """Connect to one of QEMU's sockets as soon as it is there."""

        def connected() -> T | None:
            if self._qemu and self._qemu.poll() is not None:
                raise OfficeError(f"QEMU ended: {(self._logs / 'qemu.log').read_text()}")
            with contextlib.suppress(FileNotFoundError, ConnectionRefusedError):
                return to()
            return None

        found = wait_for(connected, "QEMU", _START_S)
        assert found
        return found

    def _wait(self, timeout_s: float) -> None:
        if self._qemu:
            try:
                self._qemu.wait(timeout_s)
            except subprocess.TimeoutExpired:
                raise OfficeError(f"the machine is still on after {timeout_s:g} s") from None
        if self._console:
            self._console.join(10.0)
            self._console.close()
        if self._qmp:
            self._qmp.close()
        self._qemu = self._qmp = None

    def _socket(self, name: str) -> Path:
        return self._directory / f"{name}.sock"

    def _argv(self, disk: Path, interface: str) -> list[str | Path]:
        board = self.board
        return [
            *(board.program, "-nodefaults", "-display", "none"),
            *("-accel", "tcg,thread=multi", *board.processor),
            *("-drive", f"file={disk},if={interface},id=disk,format=qcow2"),
            *("-netdev", f"tap,id=wire,ifname={TAP},script=no,downscript=no"),
            *("-action", "watchdog=reset"),
            *("-chardev", f"socket,id=console,path={self._socket('console')},server=on,wait=on"),
            *("-chardev", f"socket,id=meter,path={self._socket('usb-meter')},server=on,wait=off"),
            *("-qmp", f"unix:{self._socket('qmp')},server=on,wait=off"),
        ]
