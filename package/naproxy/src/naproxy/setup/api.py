"""The control API's part for the first run: /v1/setup, /v1/scan, /v1/look, /v1/meter-search,
/v1/pico, /v1/typical-servers, and /v1/servers/ID/key, host-key, doctor, site, facts-script.

Long work is a job: POST starts it (202), GET returns its progress and result, DELETE cancels it. A
job that is running, or started a moment ago, is not started again (429).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from naproxy.api.calls import ApiError, Handler, Handlers, no_server
from naproxy.api.client import DEFAULT_SOCKET
from naproxy.api.jobs import JobError, Jobs, Progress, Work
from naproxy.api.table import STEPS
from naproxy.config import places
from naproxy.config.document import Config, Server
from naproxy.core.processes import Printed, printed, why, words
from naproxy.core.reason import Reason, WrongError
from naproxy.doctor.server import FactsError, parse
from naproxy.history.write.journal import Journal
from naproxy.server.services import Listener, Listening, UnreadableError
from naproxy.server.services import parse as parse_ports
from naproxy.setup import access, calibrating, meters, scan, typical
from naproxy.setup.pico import Picos

SCAN_PAUSE_S: Final = 10.0
LOOK_PAUSE_S: Final = 1.0
_DOCTOR_S: Final = 90.0
_DOCTOR_BYTES: Final = 1 << 18
_SITE_S: Final = 60.0
"""Longer than a look at a website takes."""
_KEY: Final = "setup"
Ports = Callable[[], dict[str, tuple[str, str | None]]]
Met = Callable[[str, Listening | None, tuple[Listener, ...] | None], None]


class Setup:
    """The first run, and its single steps later."""

    def __init__(
        self,
        config: Callable[[], Config],
        file: Path,
        journal: Journal,
        wire: scan.Wire | None = None,
        *,
        socket: str = DEFAULT_SOCKET,
        met: Met = lambda _server, _told, _met: None,
        picos: Picos | None = None,
        ports: Ports = dict,
    ) -> None:
        """`config` is the one in force, `file` where it is, `socket` the controller's own.

        `met` hears at which ports a server listens, if somebody brought that, and which answer.
        `ports` are those of the meters: the meter's id, its firmware's version.
        """
        self._config = config
        self._file = file
        self._journal = journal
        self._wire = wire or scan.Wire()
        self._socket = socket
        self._met = met
        self._picos = picos or Picos(file.parent, lambda _: nullcontext())
        self._ports = ports
        self._jobs = Jobs()

    def stop(self) -> None:
        """End what is under way."""
        self._jobs.stop()

    def handlers(self) -> Handlers:
        """Return who answers which route."""
        return {
            "setup": self.state,
            "setup.go": self._set_state,
            "typical": typical.table,
            "pico": lambda: self._picos.told(self._ports()),
            "pico.micropython": self._micropython,
            **self._job("pico.install", self._pico_install),
            **self._job("pico.calibrate", self._pico_calibrate),
            **self._job("scan", self._scan),
            **self._job("look", self._look),
            **self._job("meter_search", self._meter_search),
            **self._job("server.host_key", self._host_key),
            **self._job("server.doctor", self._doctor),
            **self._job("server.site", self._site),
            "server.key": self._key,
            "server.pin": self._pin,
            "server.facts_script": self._facts_script,
            "certificate.key": self._certificate_key,
        }

    def _job(self, what: str, begin: Handler) -> Handlers:
        """Return who answers the routes of a job: to begin it, to look at it, to call it off."""

        def name(server: str | None = None) -> str:
            return f"{what}.{self._server(server).id}" if server else what

        def start(**asked: Any) -> dict[str, Any]:
            return self._jobs.start(name(asked.get("server")), *begin(**asked))

        return {
            f"{what}.begin": start,
            what: lambda **of: self._jobs.status(name(**of)),
            f"{what}.end": lambda **of: self._jobs.cancel(name(**of)),
        }

    # Where the guide is

    def state(self) -> dict[str, Any]:
        """Return whether the box is set up, and where the guide was left."""
        saved = self._journal.saved(_KEY)
        servers = [server.id for server in self._config().server]
        server = saved.get("server")
        return {
            # A configuration written by hand needs no guide, unless it has no server.
            "done": bool(saved.get("done", True)) and bool(servers),
            "step": saved.get("step") if saved.get("step") in STEPS else STEPS[0],
            "server": server if server in servers else next(iter(servers), None),
        }

    def _set_state(self, **state: Any) -> dict[str, Any]:
        if state.get("server") is not None:
            self._server(state["server"])
        if state.get("done") and not self._config().server:
            raise ApiError(HTTPStatus.CONFLICT, Reason("setup.no_server_yet"), "done")
        self._journal.save(_KEY, {**self.state(), **state})
        return self.state()

    # Jobs: the work, and the time before it may be repeated

    def _scan(self) -> tuple[Work, float]:
        return partial(scan.scan, self._wire, places.interface_to_all(self._config())), SCAN_PAUSE_S

    def _look(self, address: str, port: int = 80) -> tuple[Work, float]:
        return partial(scan.look, self._wire, address.strip(), port), LOOK_PAUSE_S

    def _meter_search(self) -> tuple[Work, float]:
        return self._meters, SCAN_PAUSE_S

    def _host_key(self, server: str) -> tuple[Work, float]:
        return partial(access.host_key, self._server(server)), LOOK_PAUSE_S

    def _doctor(self, server: str, facts: str = "") -> tuple[Work, float]:
        return partial(self._examine, self._server(server).id, facts), LOOK_PAUSE_S

    def _site(self, server: str) -> tuple[Work, float]:
        return partial(self._look_at_site, self._server(server).id), LOOK_PAUSE_S

    async def _meters(self, progress: Progress) -> dict[str, Any]:
        result = self._jobs.status("scan")["result"]
        configured = self._config().meter
        names = ("device", "host")
        taken = [str(getattr(m, name)) for m in configured for name in names if hasattr(m, name)]
        return await meters.search(result["hosts"] if result else [], taken, progress)

    # Picos

    async def _micropython(self, file: str) -> dict[str, Any]:
        try:
            return await asyncio.to_thread(self._picos.keep_micropython, Path(file))
        except WrongError as error:
            raise ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, error.reason, "file") from None
        except OSError as error:
            cannot = Reason("driver.unreadable", file=file, why=why(error))
            raise ApiError(HTTPStatus.CONFLICT, cannot, "file") from None

    def _pico_install(self, place: str, *, replace: bool = False) -> tuple[Work, float]:
        return partial(self._picos.install, place, replace=replace), LOOK_PAUSE_S

    def _pico_calibrate(self, meter: str, load_w: float | None = None) -> tuple[Work, float]:
        port = next((port for port, (name, _) in self._ports().items() if name == meter), None)
        if port is None:
            unknown = Reason("pico.no_meter", name=meter[:40])
            raise ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, unknown, "meter")
        length_s = calibrating.ZERO_S if load_w is None else calibrating.GAIN_S
        return partial(self._picos.calibrate, port, load_w, length_s=length_s), LOOK_PAUSE_S

    # One server

    def _server(self, name: str) -> Server:
        for server in self._config().server:
            if server.id == name:
                return server
        raise no_server(name)

    async def _key(self, server: str) -> dict[str, Any]:
        return await access.key(self._server(server), self._file.parent)

    async def _pin(self, server: str, fingerprint: str, *, replace: bool = False) -> dict[str, Any]:
        found = self._server(server)
        return await access.pin(found, fingerprint, self._file.parent, replace=replace)

    async def _certificate_key(self, certificate: str, folder: str) -> dict[str, Any]:
        found = [each for each in self._config().certificate if each.id == certificate]
        if not found:
            raise ApiError(HTTPStatus.NOT_FOUND, Reason("https.unknown", name=certificate[:40]))
        if found[0].source != "server":
            raise ApiError(HTTPStatus.CONFLICT, Reason("setup.not_of_server"))
        server = self._server(found[0].server)
        return await access.certificate_key(found[0], server, folder, self._file.parent)

    async def _facts_script(self, server: str) -> dict[str, Any]:
        done = await self._run_doctor(self._server(server).id, "--script")
        return {"script": done.output.decode()}

    async def _examine(self, name: str, facts: str, progress: Progress) -> dict[str, Any]:
        progress.part = "doctor"
        try:
            if facts:
                parse(facts.encode())
        except FactsError as error:
            raise JobError("setup.facts", said=error.reason) from None
        with tempfile.NamedTemporaryFile("w", prefix="naproxy-facts-") as file:
            file.write(facts)
            file.flush()
            more = ("--facts", file.name) if facts else ()
            done = await self._run_doctor(name, "--json", *more)
        found: dict[str, Any] = json.loads(done.output)
        self._hear(name, found.pop("listens"), found.pop("answers"))
        return found

    async def _look_at_site(self, name: str, progress: Progress) -> dict[str, Any]:
        progress.part = "site"
        done = await self._command("site", name, "--json", limit_s=_SITE_S)
        try:
            said = json.loads(done.output)
        except ValueError:
            # Killed because it took too long to parse its input, or ended by itself.
            raise JobError("setup.site_late") from None
        if said["problem"]:
            raise JobError(said["problem"]["code"], **said["problem"]["params"])
        found: dict[str, Any] = said["found"]
        return found

    def _hear(self, name: str, listens: str | None, answers: str | None) -> None:
        """Report the ports; the doctor reports the ones that cannot be read."""
        with contextlib.suppress(UnreadableError, ApiError):
            told = None if listens is None else parse_ports(listens)
            met = None if answers is None else parse_ports(answers).listeners
            self._met(self._server(name).id, told, met)

    async def _run_doctor(self, name: str, *more: str) -> Printed:
        """Run `naproxy doctor`: ssh and ip may take their time."""
        done = await self._command("doctor", name, *more, limit_s=_DOCTOR_S)
        if done.code not in (0, 1):
            if said := words(done.complaint):
                raise JobError("setup.doctor_failed", said=said)
            raise JobError("setup.doctor_late")
        return done

    async def _command(self, command: str, name: str, *more: str, limit_s: float) -> Printed:
        """Run one of our own commands about a server, as a process of its own."""
        argv = [sys.executable, "-m", "naproxy.cli", command, name]
        argv += ["--config", str(self._file), "--socket", self._socket, *more]
        return await printed(argv, limit_s, {}, _DOCTOR_BYTES)
