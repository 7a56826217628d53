"""The faults: each strikes in one phase of a cycle, and is over when the cycle is."""

import contextlib
import os
import random
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.e2e.clients import ask
from tests.e2e.clock import Clock
from tests.faults.watch import shown
from tests.patience import wait_for
from tests.simulator.office import Office
from tests.simulator.office.box import RefusedError
from tests.simulator.office.namespace import OfficeError
from tests.simulator.office.server import ADDRESS, OTHER_ADDRESS

AWAKE, FALLING, ASLEEP, WAKING = "awake", "falling", "asleep", "waking"
DAY_S = 86400
DISK_BYTES = 16 << 20


@dataclass
class Scene:
    """The office with what faults need beside it."""

    office: Office
    clock: Clock
    address: str = ADDRESS
    threads: list[threading.Thread] = field(default_factory=list)

    def start_controller(self) -> None:
        """Start it again, as the box's init would."""
        self.office.box.start_controller(self.clock.environment())

    def sleep(self, timeout_s: float = 40.0) -> None:
        """Ask until the server is shown asleep; the controller may be away meanwhile."""

        def asleep() -> bool:
            state = shown(self.office)
            if state == "awake":
                with contextlib.suppress(RefusedError, OSError):
                    self.office.box.api("POST", "/v1/servers/web/sleep", {})
            return state == "asleep"

        wait_for(asleep, "the server to sleep", timeout_s)

    def await_awake(self, timeout_s: float = 60.0) -> None:
        """Wait until the server is shown awake."""
        wait_for(lambda: shown(self.office) == "awake", "the state awake", timeout_s)


class Fault:
    """No fault at all."""

    phases: tuple[str, ...] = (AWAKE,)
    cuts = False
    """Connections that are open end: varnishd's child is killed."""

    def strike(self, scene: Scene, dice: random.Random) -> None:
        """Begin."""

    def mend(self, scene: Scene) -> None:
        """End, whether it has begun or not."""


class LostPackets(Fault):
    """The next one to six magic packets do not reach the card."""

    def strike(self, scene: Scene, dice: random.Random) -> None:
        scene.office.server.board.configure(ignore_packets=dice.randint(1, 6))


class LateWake(Fault):
    """Waking takes one to five seconds instead of 0.2."""

    def strike(self, scene: Scene, dice: random.Random) -> None:
        scene.office.server.board.configure(wake_s=dice.uniform(1, 5))


class RefusedSleep(Fault):
    """The server says no, once; its words must be shown while it goes on serving."""

    WORDS = "a backup is running"

    def strike(self, scene: Scene, dice: random.Random) -> None:
        box = scene.office.box
        scene.office.server.board.configure(refuse=self.WORDS)

        def refused() -> bool:
            # While requests are at the server it is not asked.
            with contextlib.suppress(RefusedError):
                box.api("POST", "/v1/servers/web/sleep", {})
            return self.WORDS in str(box.status()["inhibitors"])

        wait_for(refused, "the refusal's words")
        scene.await_awake()
        self.mend(scene)

    def mend(self, scene: Scene) -> None:
        scene.office.server.board.configure(refuse="")


class KilledController(Fault):
    """kill -9; it is started again within four seconds."""

    phases = (AWAKE, FALLING, ASLEEP, WAKING)

    def strike(self, scene: Scene, dice: random.Random) -> None:
        scene.office.box.kill_controller()
        wait_s = dice.uniform(0, 4)

        def again() -> None:
            time.sleep(wait_s)
            scene.start_controller()

        thread = threading.Thread(target=again)
        scene.threads.append(thread)
        thread.start()

    def mend(self, scene: Scene) -> None:
        while scene.threads:
            scene.threads.pop().join()


class KilledChild(Fault):
    """kill -9 of varnishd's child; its manager starts another, with an empty cache."""

    phases = (AWAKE, FALLING, ASLEEP, WAKING)
    cuts = True

    def strike(self, scene: Scene, dice: random.Random) -> None:
        with contextlib.suppress(OfficeError):  # the last one's successor is not there yet
            scene.office.box.kill_child()

    def mend(self, scene: Scene) -> None:
        """Wait for the new one: whom its sockets refuse until then is not the next cycle's."""
        client = scene.office.client
        wait_for(lambda: ask(client, "/.naproxy/status", timeout_s=2).status, "varnishd's child")


class ClockStep(Fault):
    """The box's wall clock steps by up to ten days, and back when the cycle ends."""

    phases = (AWAKE, FALLING, ASLEEP, WAKING)

    def strike(self, scene: Scene, dice: random.Random) -> None:
        scene.clock.step(dice.choice((-1, 1)) * dice.randint(60, 10 * DAY_S))

    def mend(self, scene: Scene) -> None:
        scene.clock.step(0)


class FullDisk(Fault):
    """Nothing can be written where the history is; sometimes the controller starts like that."""

    phases = (AWAKE, FALLING, ASLEEP)

    def strike(self, scene: Scene, dice: random.Random) -> None:
        with (scene.office.box.data_dir / "filler").open("wb", buffering=0) as file:
            with contextlib.suppress(OSError):
                while True:
                    file.write(bytes(1 << 16))
            with contextlib.suppress(OSError):
                while True:
                    file.write(b"\0")
        if dice.random() < 0.5:
            scene.office.box.kill_controller()
            scene.start_controller()

    def mend(self, scene: Scene) -> None:
        (scene.office.box.data_dir / "filler").unlink(missing_ok=True)


class AddressChange(Fault):
    """The server moves to its other address, and the configuration says so."""

    phases = (AWAKE, ASLEEP)

    def strike(self, scene: Scene, dice: random.Random) -> None:
        office, old = scene.office, scene.address
        scene.address = OTHER_ADDRESS if old == ADDRESS else ADDRESS
        office.server.add_address(scene.address)
        office.box.reconfigure(server={"address": scene.address})
        time.sleep(0.05)  # who is on the way to the old address has got there by then
        wait_for(lambda: not office.box.page().server[0].fetching_now, "requests to end")
        office.server.drop_address(old)


class WokenByItself(Fault):
    """Somebody presses the server's button while it sleeps."""

    phases = (ASLEEP,)

    def strike(self, scene: Scene, dice: random.Random) -> None:
        with contextlib.suppress(OfficeError):  # it may be waking already
            scene.office.server.board.power_on()


FAULTS: dict[str, Fault] = {
    "lost_packets": LostPackets(),
    "late_wake": LateWake(),
    "refused_sleep": RefusedSleep(),
    "killed_controller": KilledController(),
    "killed_child": KilledChild(),
    "clock_step": ClockStep(),
    "full_disk": FullDisk(),
    "address_change": AddressChange(),
    "woken_by_itself": WokenByItself(),
}


@contextlib.contextmanager
def small_disk(directory: Path) -> Iterator[None]:
    """Mount a disk of its own there, so that it can be full."""
    directory.mkdir(parents=True, exist_ok=True)
    for each in (directory, directory.parent):
        each.chmod(0o755)
    what: list[Any] = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES},mode=755", "tmpfs"]
    subprocess.run([*what, directory], check=True)
    try:
        yield
    finally:
        os.sync()
        subprocess.run(["umount", "--lazy", directory], check=True)
