"""One box's life: it is set up once, and then goes through everything with the same data."""

from __future__ import annotations

import copy
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.image_vm import setup
from tests.image_vm.board import Hardware
from tests.image_vm.disks import firmwares_part, layer, with_argument
from tests.image_vm.place import Place
from tests.image_vm.ui import Ui
from tests.simulator.office.box import ADDRESS
from tests.simulator.office.namespace import OfficeError

BOOT_S: Final = 600.0
"""Patience with a start; an emulated processor is slow, and others may use the machine, too."""
HEALTH_S: Final = 420.0
"""The health check itself gives up after 300 s."""
WORK_S: Final = 600.0
OFF_S: Final = 120.0
STARTED: Final = r"Naproxy: system ([AB])\r?\n"
CLAIM: Final = r"Claim code: ([0-9A-Z]{4}-[0-9A-Z]{4}-[0-9A-Z]{4})\b"


@dataclass(frozen=True, slots=True)
class Update:
    """When the steps of an update were done: seconds after the check was asked for."""

    checked_s: float
    written_s: float
    serves_s: float
    confirmed_s: float


class Life:
    """The machine with its disk, and who talks with it."""

    def __init__(self, place: Place, image: Path, directory: Path, card_bytes: int) -> None:
        self.place = place
        self.ui = Ui(place.client, ADDRESS)
        self.directory = directory
        self.checks = 0
        """How often settings and history were found whole."""
        self._first: tuple[int, str, str] | None = None
        self._layers = 0
        self._over = threading.Event()
        # QEMU wants an SD card's size to be a power of two.
        size_bytes = 1 << (card_bytes - 1).bit_length()
        board = place.machine.board
        if board.argument:
            image = with_argument(image, board.argument, directory / "card.img")
        self.disk = layer(image, self._next(), form="raw", size_bytes=size_bytes)
        if board.device_tree:
            place.machine.loads = firmwares_part(image, board.device_tree, directory)

    # The plug

    def switch_on(self, other: tuple[str, Hardware] | None = None) -> float:
        """Start it, and wait until it serves; return the seconds that took.

        `other` is another machine, by firmware and hardware, with this disk in it.
        """
        self.place.machine.switch_on(self.disk, other=other)
        return self.place.first_page(BOOT_S) - self.place.machine.on_since_s

    def switch_off(self) -> None:
        """Have it shut down as for a restart, and stay off."""
        self._wait(self.ui.answers, "the web interface", BOOT_S)
        self.place.machine.stay_off()
        self.ui.call("POST", "/api/box/reboot", {})
        self.place.machine.wait_off(OFF_S)

    def add_layer(self, on: Path, form: str = "qcow2") -> None:
        """Let all writes from now on go to a new file; the machine is off."""
        self.disk = layer(on, self._next(), form=form)

    def add_layer_running(self) -> None:
        """Do so while it runs."""
        self.disk = self._next()
        self.place.machine.new_layer(self.disk)

    def _next(self) -> Path:
        self._layers += 1
        return self.directory / f"disk-{self._layers:02}.qcow2"

    # What it says

    def update(self) -> dict[str, Any]:
        """Return the slots and how far an update is."""
        told: dict[str, Any] = self.ui.call("GET", "/api/update")
        if told["problem"]:
            raise OfficeError(f"/api/update: {told['problem']}")
        return told

    def in_order(self) -> bool:
        """Whether what runs is confirmed, and the boot loader knows it: it starts next, too."""
        told = self.update()
        booted = [slot for slot in told["slots"] if slot["booted"]]
        return bool(told["confirmed"] and booted and booted[0]["good"] and booted[0]["boots_next"])

    def slot(self) -> str:
        """Return which of A and B runs, as the kernel was told."""
        found = re.findall(STARTED, self.place.machine.console.text)
        if not found:
            raise OfficeError("no rauc.slot on the kernel's command line")
        return str(found[-1])

    def settled(self, timeout_s: float = HEALTH_S) -> None:
        """Wait until it serves and what runs is confirmed; settings and history are whole."""
        self.place.first_page(timeout_s)
        self._wait(self.ui.answers, "the web interface", timeout_s)
        self._wait(self.in_order, "what runs to be confirmed", timeout_s)
        if self._first is None:
            self._first = setup.oldest(self.ui)
        setup.kept(self.ui, self._first)
        self.checks += 1

    # Updates

    def offer(self, bundle: Path) -> dict[str, Any]:
        """Upload a bundle and have it looked at; return the job."""
        return self._look_at(self.ui.upload(bundle))

    def write(self) -> None:
        """Have what was looked at written; OfficeError with RAUC's words if that failed."""
        self.ui.call("POST", "/api/update/install", {"older": True})
        job = self._job("writing")
        if job["phase"] != "written":
            raise OfficeError(f"not written: {job['error']}")

    def restart(self) -> int:
        """Ask for the restart; return the console's mark before it."""
        mark = self.place.machine.console.mark()
        self.ui.call("POST", "/api/update/restart", {})
        return mark

    def install(self, bundle: Path) -> int:
        """Offer, write, restart; return the console's mark before the restart."""
        job = self.offer(bundle)
        if job["phase"] != "ready":
            raise OfficeError(f"refused: {job['error']}")
        self.write()
        return self.restart()

    def starts(self, slot: str, since: int, timeout_s: float) -> int:
        """Wait until this slot's kernel is started; return where that was said."""
        pattern = STARTED.replace("[AB]", slot)
        return self.place.machine.console.expect(pattern, timeout_s, since=since).end()

    def go_through(self, bundle: Path) -> Update:
        """Update with a bundle that is good, to the end; the upload does not count."""
        upload = self.ui.upload(bundle)
        was, mark = self.slot(), self.place.machine.console.mark()
        began_s = time.monotonic()
        if (job := self._look_at(upload))["phase"] != "ready":
            raise OfficeError(f"refused: {job['error']}")
        checked_s = time.monotonic() - began_s
        self.write()
        written_s = time.monotonic() - began_s
        self.restart()
        self.starts("B" if was == "A" else "A", mark, BOOT_S)
        serves_s = self.place.first_page(BOOT_S) - began_s
        self.settled()
        return Update(checked_s, written_s, serves_s, time.monotonic() - began_s)

    def cut_in(self, bundle: Path, after_s: float) -> str:
        """Begin an update and cut the power so long after; return how far it was."""
        upload = self.ui.upload(bundle)
        self.add_layer_running()
        steps = ["check"]
        errors: list[Exception] = []
        # Asks on until the cut, and must ask nothing of the box that is started after it.
        asking = copy.copy(self)
        asking._over = threading.Event()

        def go() -> None:
            try:
                asking._all_steps(upload, steps)
            except Exception as error:
                errors.append(error)

        thread = threading.Thread(target=go, daemon=True, name="update")
        thread.start()
        thread.join(after_s)
        if errors:
            raise OfficeError(f"the update failed before the cut: {errors[0]}") from errors[0]
        asking._over.set()
        self.place.machine.cut_power()
        return steps[-1]

    def _all_steps(self, upload: str, steps: list[str]) -> None:
        self._look_at(upload)
        steps.append("write")
        self.write()
        steps.append("restart")
        self.starts("[AB]", self.restart(), BOOT_S)
        steps.append("first start")
        self.settled()
        steps.append("confirmed")

    def _look_at(self, upload: str) -> dict[str, Any]:
        self.ui.call("POST", "/api/update/check", {"upload": upload})
        job = self._job("checking")
        # The box has a copy of its own, and takes few uploads at a time.
        self.ui.call("DELETE", f"/api/uploads/{upload}")
        return job

    def _job(self, phase: str) -> dict[str, Any]:
        def ended() -> dict[str, Any] | None:
            job: dict[str, Any] = self.update()["job"]
            return None if job["phase"] == phase else job

        found: dict[str, Any] = self._wait(ended, f"{phase} to end", WORK_S)
        return found

    def _wait(self, seen: Callable[[], Any], what: str, timeout_s: float) -> Any:
        return setup.wait(seen, what, timeout_s, self._over.is_set)
