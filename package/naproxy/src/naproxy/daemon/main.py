"""The controller: one loop that sees requests, decides, wakes, puts to sleep and answers.

The heartbeat comes from the same loop, so a loop that hangs shows in the page, and Varnish
fails awake.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import faulthandler
import fcntl
import gc
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from naproxy import __version__
from naproxy.api import configuration, measures
from naproxy.api.cached import Cached
from naproxy.api.calls import ApiError, Handlers, joined
from naproxy.api.certificates import Certificates
from naproxy.api.checklist import BACKUP, Checklist
from naproxy.api.command import add_config_option, installation_options, installed
from naproxy.api.servers import Servers
from naproxy.box import logs, restore
from naproxy.box.api import Operations
from naproxy.box.fill import Fill
from naproxy.config import places
from naproxy.config.document import Config, Server
from naproxy.config.in_force import InForce, complain, warn
from naproxy.config.installation import Installation
from naproxy.config.worked import PROVED_S, Chosen, Worked
from naproxy.controller import slots
from naproxy.controller.context import ASSUMED_PRICE, BoxContext
from naproxy.controller.front_door import FrontDoor
from naproxy.controller.intensity import Intensity
from naproxy.controller.learning import Learner
from naproxy.controller.meters import Meters
from naproxy.controller.needing import Company
from naproxy.controller.runner import Runner
from naproxy.controller.sharing import Spent
from naproxy.controller.varnish import Varnish
from naproxy.core import files, log, office_time
from naproxy.core.names import ascii_site
from naproxy.core.rates import rates
from naproxy.core.reason import Reason
from naproxy.core.request import Refusal, WakeRequest
from naproxy.core.schema import ConfigError, plain
from naproxy.core.state import State
from naproxy.daemon import control
from naproxy.daemon.timers import Timers
from naproxy.edge.keeper import Keeper
from naproxy.history.write.journal import Journal
from naproxy.history.write.reckoned import Reckoned
from naproxy.history.write.writer import History
from naproxy.notify.notifier import Notifier
from naproxy.setup.agents import Agents
from naproxy.setup.api import Setup
from naproxy.setup.pico import Picos
from naproxy.shm import page
from naproxy.shm.datagram import WakeSocket
from naproxy.shm.events import Event, Events
from naproxy.shm.page import Page
from naproxy.shm.stored import Stored, Stores
from naproxy.update import api as updating
from naproxy.update import effects as update
from naproxy.update.updates import Updates

SAVE_S: Final = 1800.0
PRUNE_S: Final = 86400.0
HUNG_S: Final = 120.0
"""A loop that has not turned for so long will not turn again. A slow disk takes less."""
_ANSWER_OUT_S: Final = 0.5
_HEARTBEAT_S: Final = 0.25
_REWIRE_S: Final = 30.0
"""Between signs of life to Varnish, which goes on alone after 3 s without one."""
_LOG: Final = logging.getLogger(__name__)
_LAST_WORDS: Final = logs.Ring()
_TABLES: Final = ("transitions", "wakes", "decisions")
_DEFAULT_ROWS: Final = 100
_LOG_ROWS: Final = 200


class AlreadyRunningError(RuntimeError):
    """Another controller uses the same directory."""


class Controller:
    """The box."""

    def __init__(
        self,
        file: Path,
        chosen: Chosen,
        here: Installation,
        alive: Callable[[], None] = lambda: None,
    ) -> None:
        """Map the page and open the journal; `run` does the rest. `alive` is told of each beat."""
        self.configuration = InForce(file, chosen, self._take)
        self._alive = alive
        self.file = file
        self.here = here
        self.runners: dict[str, Runner] = {}
        self._started_s = time.time()
        self._stopping = asyncio.Event()
        self.begin_anew = False
        self._first_drain = True
        self._timers = Timers()
        self._run_dir = Path(here.run_dir)
        self._run_dir.mkdir(mode=0o755, parents=True, exist_ok=True)
        data_dir = Path(here.data_dir)
        data_dir.mkdir(mode=0o755, parents=True, exist_ok=True)
        self._lock = _lock(self._run_dir / "controller.lock")
        self._wakes = WakeSocket(self._run_dir / "wake.sock", here.group, self._asked)
        self._page = Page(self._run_dir, here.group)
        self._events = Events(self._run_dir, here.group)
        self._stores = Stores(self._run_dir, here.group)
        self._journal = Journal(data_dir, group=here.control_group)
        self._journal.close_forgotten()
        restore.finish(data_dir, self._journal.save)
        epoch_s = time.time() - time.monotonic()
        self._meters = Meters(epoch_s, self._state_of)
        power_w = self._meters.power_w
        self._varnish = Varnish(self._run_dir / "box.sock")
        self._shared = BoxContext(
            self._page,
            self._journal,
            epoch_s,
            power_w,
            self._meters.quick_w,
            price_per_kwh=self._price_per_kwh,
            company=Company(lambda: self.runners),
            varnish=self._varnish,
            served=lambda: self._keeper.served,
        )
        self._spent = Spent(self._page)
        self._history = History(self._journal, epoch_s)
        self._reckoned = Reckoned(self._journal)
        self._meters.sinks.append(self._history.add_second)
        self._intensity = Intensity(self._history.carbon)
        self._learner = Learner(self._page)
        self.setup = Setup(
            self.current,
            file,
            self._journal,
            socket=str(self._run_dir / "control.sock"),
            met=lambda server, told, met: self.runners[server].met(told, met),
            picos=Picos(data_dir, self._meters.lent),
            ports=self._meters.ports,
        )
        self._agents = Agents(self.configuration)
        self.operations = Operations(self, _LAST_WORDS)
        self._fill = Fill(here.varnish_name, self._journal)
        self.updates = Updates(here.rauc_conf, data_dir / "update", update.Machine())
        self._servers = Servers(self.runners, self.configuration)
        self._keeper = Keeper(
            here,
            self._journal,
            show=partial(slots.write_challenges, self._page),
            awake=self._is_awake,
            served=self._sighted,
        )
        self._certificates = Certificates(self._keeper, self.configuration)
        self._notifier = Notifier(
            data_dir, self.current, self._told_status, self.updates.status, self._servers.measured
        )
        self._front_door = FrontDoor(self.current, on=bool(here.group))
        self._checklist = Checklist(self._journal, self.current, self._told_status)
        self._slots: dict[str, int] = {}
        self._wires: dict[str, str] = {}

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT."""
        loop = asyncio.get_running_loop()
        self._alive()
        self.configuration.begin()
        self._take(self.current())
        self._page.heartbeat(page.monotonic_us())
        self._wakes.open()
        socket_path = self._run_dir / "control.sock"
        handlers, here = self.handlers(), self.here
        api = await control.serve(
            handlers, socket_path, here.control_group, webui_user=here.webui_user
        )
        readers_path = self._run_dir / "status.sock"
        readers = await control.serve(handlers, readers_path, here.read_group, reader=True)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopping.set)
        loop.add_signal_handler(signal.SIGHUP, self.configuration.reload_quietly)
        self._beat()
        self._save()
        self._prune()
        self._timers.again(_REWIRE_S, self._rewire)
        self._tick_later()
        self.operations.begin()
        self._fill.begin()
        self._keeper.begin()
        self._notifier.begin()
        self._front_door.begin()
        # What is here now stays: collections need not look at it again.
        gc.collect()
        gc.freeze()
        names = ", ".join(self.runners) or "no server yet"
        _LOG.info("naproxy %s: looks after %s", __version__, names)
        try:
            await self._stopping.wait()
            self.configuration.proved()
        finally:
            self._wakes.close()
            api.close()
            readers.close()
            self._stop()

    def _stop(self) -> None:
        """Leave: every server counts as available from this moment, not when it shows."""
        # The loop turns on until the last thread has ended, and a beat would take that back.
        self._timers.stop()
        self._page.heartbeat(0)
        self.setup.stop()
        self.operations.own.stop()
        self._fill.stop()
        self._certificates.stop()
        self._keeper.stop()
        self._notifier.stop()
        self._front_door.stop()
        self._intensity.stop()
        self._meters.stop()
        self._shared.verifier.stop()
        for runner in self.runners.values():
            runner.stop(why=Reason("server.stopped"))
        self._history.flush()
        self._journal.close()
        _LOG.info("naproxy: stopped; requests go to the servers")

    def restart(self) -> None:
        """Begin anew, as soon as what is being answered is out."""
        self.begin_anew = True
        asyncio.get_running_loop().call_later(_ANSWER_OUT_S, self._stopping.set)

    # The loop's own work. The next time is set first: what fails must not be the last time.

    def _beat(self) -> None:
        self._timers.again(_HEARTBEAT_S, self._beat)
        self._page.heartbeat(page.monotonic_us())
        self._alive()
        self._drain()

    def _drain(self) -> None:
        heard: dict[int, list[Event]] = {}
        events = list(self._events.read())
        for event in events:
            heard.setdefault(event.server, []).append(event)
        self._learner.heard(events)
        stored: dict[int, list[Stored]] = {}
        for record in self._stores.read():
            stored.setdefault(record.server, []).append(record)
        for name, index in self._slots.items():
            runner = self.runners[name]
            for record in stored.get(index, ()):
                runner.stored(record)
            delta_ms = 1000 * runner.server.promise.delta_s
            if passed := list(runner.executor.sharing.through.events(delta_ms)):
                heard.setdefault(index, []).extend(passed)
            for event in heard.get(index, ()):
                self._history.request(name, event)
            if index in heard:
                self.runners[name].heard(heard[index], fresh=not self._first_drain)
            self.runners[name].account()
        self._first_drain = False
        self._learner.let_in(self._let_in())
        shares = {
            index: self.runners[name].executor.sharing.shares for name, index in self._slots.items()
        }
        self._spent.tell(shares)

    def _let_in(self) -> dict[int, int]:
        """Return the networks whose search engines may wake servers, and which."""
        networks: dict[int, int] = {}
        for name, index in self._slots.items():
            for network in self.runners[name].engines.let_in():
                networks[network] = networks.get(network, 0) | 1 << index
        return networks

    def _save(self) -> None:
        self._timers.again(SAVE_S, self._save)
        self.save()

    def save(self) -> None:
        """Write what was learned."""
        for runner in self.runners.values():
            runner.save()
        self._keep_reckoned(self.current())

    def _tick(self) -> None:
        try:
            self._history.tick()
            if self._history.sync_due:
                # The disk may take long; the loop must not wait for it.
                asyncio.get_running_loop().run_in_executor(None, self._history.sync)
        finally:
            self._tick_later()  # how long until then, the tick decides

    def _tick_later(self) -> None:
        self._timers.again(self._history.next_s, self._tick)

    def _rewire(self) -> None:
        """Find out by which interface the servers are: the box's network may come late, or move."""
        self._timers.again(_REWIRE_S, self._rewire)
        now = self.current()
        if any(self._wires.get(s.id) != places.interface_of(s, now) for s in now.server):
            self._take(now)

    def _prune(self) -> None:
        self._timers.again(PRUNE_S, self._prune)
        if self._history.clock.trusted:
            self._journal.prune(self.current().box.keep_days)

    def _asked(self, server: str, asked: WakeRequest | Refusal) -> None:
        runner = self.runners[server]
        if isinstance(asked, Refusal):
            runner.refused(asked)
        else:
            runner.wake(asked)

    # Configuration

    def _proved(self) -> None:
        """What it ran with for so long, without a change, has worked."""
        self.configuration.proved()

    def _take(self, new: Config) -> None:
        """Live by a new configuration: servers come, change and go."""
        if self.runners:
            # What rules did is counted by their numbers, which are others from here on.
            self._drain()
        office_time.follow(new.office.time_zone)
        for name in set(self.runners) - {s.id for s in new.server}:
            self.runners.pop(name).stop(why=Reason("server.no_longer_configured"))
        self._shared.company.configure(new.server)
        self._slots = slots.assign(self._page, new.server)
        slots.write_names(self._page, new.server, self._slots)
        default = next(
            (s.id for s in new.server if s.default), new.server[0].id if new.server else ""
        )
        fresh = []
        for server in new.server:
            interface = self._wires[server.id] = places.interface_of(server, new)
            index = self._slots[server.id]
            if server.id in self.runners:
                self.runners[server.id].configure(server, interface)
            else:
                self.runners[server.id] = Runner(self._shared, index, server, interface)
                self._page.set_state(index, State.UNKNOWN, page.monotonic_us())
                fresh.append(server.id)
            slots.write_server(
                self._page,
                index,
                server,
                interface,
                default=server.id == default,
                wake_expect_s=self.runners[server.id].machine.wake.value_s,
                hold_s=self.runners[server.id].executor.hold_s,
            )
            self._redirect(server)
        slots.write_services(self._page, new.server, self._slots)
        slots.write_box(self._page, new, self._slots)
        self._history.rules(new.rule)
        self._learner.serve(ascii_site(host) for server in new.server for host in server.hosts)
        self._meters.use(new.meter, new.server)
        self._keeper.take(new)
        self._intensity.configure(new.office)
        self._history.watch(server.id for server in new.server)
        self._remember(new)
        self._keep_reckoned(new)
        for name in fresh:
            self.runners[name].start()
        self._timers.again(PROVED_S, self._proved)

    def _keep_reckoned(self, config: Config) -> None:
        """Keep what savings are reckoned with: those of a server outlive its configuration."""
        meters = {meter.of: meter.id for meter in reversed(config.meter)}
        servers = {
            server.id: {
                "meter": meters.get(server.id),
                "power": plain(server.power),
                "fit": self._servers.measured(server.id),
                "proxy_w": config.box.proxy_w,
                "about": {
                    "fraction": server.promise.fraction,
                    "delta_s": server.promise.delta_s,
                    "policy": server.policy.name,
                    "wake_s": server.wake_expect_s,
                    "sleep_s": float(getattr(server.sleep, "expect_s", 4.0)),
                },
            }
            for server in config.server
        }
        self._reckoned.keep(servers, box_meter=meters.get("box"), now_s=time.time())

    def backup_fetched(self, *, complete: bool) -> None:
        """Remember that somebody has a backup as of now; `complete`: with passwords and keys."""
        self._journal.save(BACKUP, {"fetched_s": time.time(), "complete": complete})

    def clock_changed(self) -> None:
        """Go by the box's time zone anew, if the office has none of its own."""
        if not self.current().office.time_zone:
            self._take(self.current())

    def _price_per_kwh(self) -> float:
        """Return the mean price of these 24 hours, or what is assumed where none is set."""
        now_s, config = time.time(), self.current()
        prices = rates(plain(config), office_time.where()).price
        return prices.per_kwh(now_s - 43200, now_s + 43200) or ASSUMED_PRICE

    def _remember(self, new: Config) -> None:
        """Keep the page's configuration: on our image Varnish starts with it, and before us."""
        file, known = Path(self.here.data_dir) / "page", self._page.configuration()
        try:
            if not file.exists() or file.read_bytes() != known:
                files.write(file, known, 0o600)
        except OSError as error:
            _LOG.warning("%s: not kept for the next start: %s", file, error.strerror)

    def _state_of(self, server: str) -> State | None:
        return self.runners[server].machine.state if server in self.runners else None

    def current(self) -> Config:
        """Return the configuration in force."""
        return self.configuration.current()

    # Telling

    def told(self) -> dict[str, Any]:
        """Return state and settings as JSON types, without secrets."""
        return {"status": self._told_status(), "settings": self.configuration.told()}

    def handlers(self) -> Handlers:
        """Return who answers which route of the control API."""
        return joined(
            {
                "status": self._told_status,
                "health": lambda: {"ok": True},
                "metrics": lambda: {"text": measures.prometheus(self._told_status())},
                "meters": self.meters,
                "cache": self._told_cache,
                "co2.look": self._look_at_co2,
                **{name: partial(self._rows, name) for name in _TABLES},
                "log": self._log,
            },
            configuration.handlers(self.configuration),
            self._servers.handlers(),
            self.setup.handlers(),
            self._agents.handlers(),
            self.operations.handlers(),
            updating.handlers(self.updates),
            self._certificates.handlers(),
            self._notifier.handlers(),
            self._checklist.handlers(),
            Cached(self._varnish, lambda: self.runners).handlers(),
        )

    def _sighted(self) -> None:
        """Judge anew whether visitors come past the box: it serves other names by HTTPS."""
        for runner in self.runners.values():
            self._redirect(runner.server)
            runner.sighted()

    def _redirect(self, server: Server) -> None:
        """Send visitors on to HTTPS, or no more: it is served, or not."""
        slots.write_redirect(self._page, self._slots[server.id], server, self._keeper.served)

    def _is_awake(self, server: str) -> bool:
        runner = self.runners.get(server)
        return runner is not None and runner.state() == State.AWAKE

    def _told_status(self) -> dict[str, Any]:
        return {"box": self.status(), "servers": self._servers.status(), **self._said_by_meters()}

    async def _look_at_co2(self) -> dict[str, Any]:
        if self._intensity.status() is None:
            raise ApiError(HTTPStatus.CONFLICT, Reason("co2.none"))
        await self._intensity.look()
        return {"co2": self._intensity.status()}

    def _told_cache(self) -> dict[str, Any]:
        warming = [{"server": name, **each.warmer.status()} for name, each in self.runners.items()]
        pages = [{"server": name, **each.pages.status()} for name, each in self.runners.items()]
        return {**self._fill.told(), "warming": warming, "pages": pages}

    def status(self) -> dict[str, Any]:
        """Return what holds for the whole box."""
        refused = self.configuration.refused
        return {
            "version": __version__,
            "started_s": self._started_s,
            "time_zone": self.current().office.time_zone,
            "heartbeat_s": self._page.layout.heartbeat_us / 1e6,
            "events_lost": self._events.lost,
            "bad_datagrams": self._wakes.bad,
            "history_error": self._journal.error,
            "settings_refused": refused.reason(self.file).plain() if refused else None,
            "energy_j": self._history.energy_j(),
            "co2": self._intensity.status(),
            "edge": self._keeper.status(),
            "front_door": self._front_door.status(),
        }

    def _said_by_meters(self) -> dict[str, Any]:
        return {"meters": self._meters.status(), "house_s": self._meters.house_s()}

    def meters(self, since_s: float | None = None) -> dict[str, Any]:
        """Return what the meters say, and their seconds after `since_s`, without it none yet."""
        seconds = self._meters.seconds(time.time() if since_s is None else since_s)
        return {**self._said_by_meters(), "seconds": seconds}

    def _rows(
        self,
        table: str,
        server: str | None = None,
        since_s: float = 0.0,
        limit: int = _DEFAULT_ROWS,
    ) -> dict[str, Any]:
        if server is not None:
            self._servers.known(server)
        return {table: self._journal.rows(table, server, since_s, limit)}

    def _log(self, since_s: float = 0.0) -> dict[str, Any]:
        rows = {name: self._journal.rows(name, None, since_s, _LOG_ROWS) for name in _TABLES}
        system = [{"t_s": t_s, "line": line} for t_s, line in _LAST_WORDS.since(since_s, _LOG_ROWS)]
        return {**rows, "system": system}


def _lock(path: Path) -> int:
    """Take the lock that only one controller can have; it goes with the process."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise AlreadyRunningError(f"another controller uses {path.parent}") from None
    return lock


def _before_others() -> None:
    """Run before programs of normal priority; etherwake inherits it."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except OSError as error:
        _LOG.warning("--realtime: not permitted: %s", error.strerror)


def _alive() -> None:
    """Have the kernel end us if this is not said again in time: then we are started anew."""
    signal.setitimer(signal.ITIMER_REAL, HUNG_S)


async def _main(file: Path, chosen: Chosen, here: Installation) -> bool:
    """Return whether it wants to begin anew."""
    controller = Controller(file, chosen, here, _alive)
    try:
        await controller.run()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return controller.begin_anew


def add_parser(subparsers: Any) -> None:
    """Declare `naproxy controller`."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "controller",
        help="look after the servers (runs in the foreground)",
        description="Look after the configured servers, in the foreground. SIGTERM ends it, SIGHUP"
        " makes it read the configuration again.",
        parents=[installation_options()],
    )
    add_config_option(parser)


def run(args: argparse.Namespace) -> int:
    """Run the controller until it is told to stop."""
    log.to_standard_error(_LAST_WORDS)
    faulthandler.register(signal.SIGALRM, chain=True)  # it says where it hung, then ends
    worked = Worked(args.config)
    try:
        chosen = worked.choose()
        here = installed(args, chosen.found)
        if restore.take(args.config, Path(here.data_dir), Path(here.edge_dir)):
            chosen = worked.choose()
    except (ConfigError, OSError) as error:
        complain(str(args.config), error)
        return 2
    if chosen.refused:
        _LOG.error("%s", chosen.refused.reason(args.config))
    warn(args.config, chosen.found)
    if here.realtime:
        _before_others()
    begin_anew = False
    try:
        with contextlib.suppress(KeyboardInterrupt):
            begin_anew = asyncio.run(_main(args.config, chosen, here))
    except (AlreadyRunningError, OSError) as error:
        _LOG.error("naproxy controller: %s", error)
        return 1
    if begin_anew:
        again = ("-m", "naproxy.cli", *sys.argv[1:])
        os.execv(sys.executable, (sys.executable, *again))  # noqa: S606 - ourselves, no shell
    return 0
