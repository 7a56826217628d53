"""The office with a whole server: a shop, a file server, a cloud, a calendar, a nightly backup."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.e2e.clock import Clock
from tests.fixed import WATCHED
from tests.recipes import nightly
from tests.recipes.clients import Calendar, Cloud
from tests.recipes.samba import Samba
from tests.recipes.wordpress import Shop
from tests.simulator.office import Office, Settings
from tests.simulator.office.forced import forced
from tests.simulator.office.namespace import ROOT

QUICK = Settings(sleep_s=0.2, wake_s=0.2)
CONFIG: dict[str, Any] = {
    "server": {
        "sleep": {"timeout_s": 5.0},
        "ready": {"asleep_interval_s": 0.5},
    }
}
"""As the fault campaign has it: a server that is watched closely."""

# mariadb-dump is one of the programs that the agent looks for.
_BACKUP = r"""mkdir -p night-$1.new &&
mariadb-dump --no-defaults --socket='{shop}/mariadb.sock' -u root wordpress \
	>night-$1.new/shop.sql &&
tar -C '{share}' -cf night-$1.new/files.tar . && mkdir night-$1 && mv night-$1.new/* night-$1
"""


class Place:
    """What runs in the office."""

    def __init__(self, office: Office, clock: Clock):
        """Start all; the server must be awake."""
        self.office = office
        self.clock = clock
        self._clock_file = office.directory / "clock"
        self.offset_s = 0
        self.shop = Shop(office)
        self.samba = Samba(office)
        self.cloud = Cloud(office)
        self.calendar = Calendar(office)
        self.backups = office.server.directory / "backups"
        self.backups.mkdir()
        backup = _BACKUP.format(shop=self.shop.directory, share=self.samba.share)
        run = (sys.executable, "-m", "tests.recipes.nightly", "run", self._clock_file)
        office.server.popen_inside([*run, self.backups, backup], log="nightly")

    @property
    def now_s(self) -> float:
        """Box and server have this time."""
        return nightly.now_s(self._clock_file)

    def step(self, by_s: float) -> None:
        """Let time pass: box and server have a later one."""
        self.offset_s += round(by_s)
        self.clock.step(self.offset_s)
        # It looks at its clock anew.
        self.office.box.reconfigure(**CONFIG)

    def forget_appointments(self) -> None:
        """Let the box not wait any more for what was due: it does so for five minutes.

        Those pass by its continuous clock, which cannot step.
        """
        awake = {"awake": {"ignore_timers": ["*"]}}
        self.office.box.reconfigure(server={**CONFIG["server"], **awake})
        self.office.box.reconfigure(**CONFIG)

    def asleep(self) -> None:
        """Put the server to sleep."""
        self.office.box.sleep(60)
        assert self.office.server.board.state == "off"


@contextlib.contextmanager
def _with_agent(office: Office, clock: Path) -> Iterator[None]:
    """Have the server use the command that the box gives out, and its jobs the office's clock."""
    with forced(office.server):
        command = office.server.directory / "naproxy-sleep"
        text = command.read_text()
        nights = f"'{sys.executable}' -m tests.recipes.nightly"
        tell = f"PYTHONPATH='{ROOT}' exec {nights} tell '{clock}'"
        asks = (
            'case "$SSH_ORIGINAL_COMMAND" in *appointments)\n'
            'SSH_ORIGINAL_COMMAND="${SSH_ORIGINAL_COMMAND%appointments}check appointments"\n'
            f'said=$({{\n{text}\n}}) || {{ echo "$said"; exit 1; }}\n{tell} ;;\nesac\n'
        )
        first, _, rest = text.partition("\n")
        command.write_text(f"{first}\n{asks}{rest}")
        yield


@contextlib.contextmanager
def place(logs: Path) -> Iterator[Place]:
    """Make the office, and take it down again."""
    with Office(keep=logs, board=QUICK) as office:
        clock = Clock(office.directory)
        office.box.fixed = WATCHED
        office.box.start(**CONFIG)
        office.box.stop()
        office.box.start_controller(clock.environment())
        office.box.start_varnish(clock.environment())
        office.box.await_state("awake")
        at = Place(office, clock)
        with _with_agent(office, office.directory / "clock"):
            yield at
