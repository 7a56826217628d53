"""The control API's part for the first run: /v1/setup, /v1/scan, /v1/look, /v1/meter-search,
/v1/typical-servers, and /v1/servers/ID/key, host-key, doctor, facts-script.

What takes a while is a job: POST begins it (202), GET tells how far it is and what came of
it, DELETE calls it off. A job that runs, or began a moment ago, is not begun again (429).
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from naproxy.api.calls import Answer, ApiError, Call, only
from naproxy.config.document import Config, Server
from naproxy.core.processes import Printed, printed, words
from naproxy.core.reason import Reason
from naproxy.doctor.server import FactsError, parse
from naproxy.history.write.journal import Journal
from naproxy.setup import access, meters, scan, typical
from naproxy.setup.jobs import BusyError, JobError, Jobs, Progress, Work

STEPS: Final = ("welcome", "office", "server", "names", "sleep", "meter", "proof", "done")
SCAN_PAUSE_S: Final = 10.0
LOOK_PAUSE_S: Final = 1.0
_DOCTOR_S: Final = 90.0
_DOCTOR_BYTES: Final = 1 << 18
_FACTS_BYTES: Final = 65536
_KEY: Final = "setup"
_TOP: Final = ("setup", "scan", "look", "meter-search", "typical-servers")
_OF_SERVER: Final = ("key", "host-key", "doctor", "facts-script")


def ours(call: Call) -> bool:
    """Whether a request is for here."""
    match call.path:
        case ("v1", what) if what in _TOP:
            return True
        case ("v1", "servers", _, what) if what in _OF_SERVER:
            return True
    return False


class Setup:
    """The first run, and its single steps later."""

    def __init__(
        self,
        config: Callable[[], Config],
        file: Path,
        journal: Journal,
        wire: scan.Effects | None = None,
    ) -> None:
        """`config` is the one in force, `file` where it is."""
        self._config = config
        self._file = file
        self._journal = journal
        self._wire = wire or scan.Wire()
        self._jobs = Jobs()

    def stop(self) -> None:
        """End what is under way."""
        self._jobs.stop()

    async def answer(self, call: Call) -> Answer:
        """Answer one request; ApiError for those that cannot be."""
        if call.path[1] == "servers":
            return await self._of_server(call, call.path[2], call.path[3])
        match call.method, call.path[1]:
            case "PUT", "setup":
                return HTTPStatus.OK, self._set_state(call.json())
            case "GET", ("setup" | "typical-servers") as what:
                return HTTPStatus.OK, self.state() if what == "setup" else typical.table()
            case ("GET" | "DELETE") as method, ("scan" | "look" | "meter-search") as name:
                return self._job(method, name)
            case "POST", ("scan" | "look" | "meter-search") as name:
                return self._begin(name, call.json())
        raise _not_used(call)

    # Where the guide is

    def state(self) -> dict[str, Any]:
        """Return whether the box is set up, and where the guide was left."""
        saved = self._journal.saved(_KEY)
        servers = [server.id for server in self._config().server]
        server = saved.get("server")
        return {
            # Who wrote the configuration by hand needs no guide; without a server all do.
            "done": bool(saved.get("done", True)) and bool(servers),
            "step": saved.get("step") if saved.get("step") in STEPS else STEPS[0],
            "server": server if server in servers else next(iter(servers), None),
        }

    def _set_state(self, body: dict[str, Any]) -> dict[str, Any]:
        only(body, "done", "step", "server")
        if "done" in body and not isinstance(body["done"], bool):
            raise ApiError(HTTPStatus.BAD_REQUEST, Reason("config.boolean"), "done")
        if "step" in body and body["step"] not in STEPS:
            wrong = Reason("config.one_of", names=STEPS)
            raise ApiError(HTTPStatus.BAD_REQUEST, wrong, "step")
        if body.get("server") is not None:
            self._server(str(body["server"]))
        if body.get("done") and not self._config().server:
            raise ApiError(HTTPStatus.CONFLICT, Reason("setup.no_server_yet"), "done")
        self._journal.save(_KEY, {**self.state(), **body})
        return self.state()

    # Jobs

    def _start(self, name: str, work: Work, pause_s: float) -> Answer:
        try:
            return HTTPStatus.ACCEPTED, self._jobs.start(name, work, pause_s)
        except BusyError as error:
            raise ApiError(HTTPStatus.TOO_MANY_REQUESTS, error.reason) from None

    def _job(self, method: str, name: str) -> Answer:
        told = self._jobs.cancel if method == "DELETE" else self._jobs.status
        return HTTPStatus.OK, told(name)

    def _begin(self, name: str, body: dict[str, Any]) -> Answer:
        if name == "look":
            return self._look(body)
        only(body)
        interface = self._config().box.interface
        sweep = partial(scan.scan, self._wire, interface)
        return self._start(name, sweep if name == "scan" else self._meters, SCAN_PAUSE_S)

    def _look(self, body: dict[str, Any]) -> Answer:
        only(body, "address", "port")
        text, port = body.get("address"), body.get("port", 80)
        if not isinstance(text, str) or not 0 < len(text.strip()) <= 253:
            raise ApiError(HTTPStatus.BAD_REQUEST, Reason("config.host_or_address"), "address")
        if isinstance(port, bool) or not isinstance(port, int) or not 1 <= port <= 65535:
            wrong = Reason("config.value_between", low=1, high=65535)
            raise ApiError(HTTPStatus.BAD_REQUEST, wrong, "port")
        work = partial(scan.look, self._wire, text.strip(), port)
        return self._start("look", work, LOOK_PAUSE_S)

    async def _meters(self, progress: Progress) -> dict[str, Any]:
        result = self._jobs.status("scan")["result"]
        configured = self._config().meter
        names = ("device", "host", "hwmon_dir")
        taken = [str(getattr(m, name)) for m in configured for name in names if hasattr(m, name)]
        return await meters.search(result["hosts"] if result else [], taken, progress)

    # One server

    def _server(self, name: str) -> Server:
        for server in self._config().server:
            if server.id == name:
                return server
        raise ApiError(HTTPStatus.NOT_FOUND, Reason("config.no_server", name=name[:40]), "server")

    async def _of_server(self, call: Call, name: str, what: str) -> Answer:
        server = self._server(name)
        job = f"{what}.{name}"
        try:
            match call.method, what:
                case "POST", "key":
                    only(call.json())
                    return HTTPStatus.OK, await access.key(server, self._file.parent)
                case "POST", "host-key":
                    only(call.json())
                    return self._start(job, partial(access.host_key, server), LOOK_PAUSE_S)
                case "PUT", "host-key":
                    return await self._pin(server, call.json())
                case "POST", "doctor":
                    return self._start(job, self._doctor(server, call.json()), LOOK_PAUSE_S)
                case "GET", "facts-script":
                    done = await self._run_doctor(name, "--script")
                    return HTTPStatus.OK, {"script": done.output.decode()}
                case ("GET" | "DELETE") as method, ("host-key" | "doctor"):
                    return self._job(method, job)
        except JobError as error:
            raise ApiError(HTTPStatus.CONFLICT, error.reason) from None
        raise _not_used(call)

    async def _pin(self, server: Server, body: dict[str, Any]) -> Answer:
        only(body, "fingerprint", "replace")
        fingerprint, replace = body.get("fingerprint"), body.get("replace", False)
        if not isinstance(fingerprint, str):
            raise ApiError(HTTPStatus.BAD_REQUEST, Reason("setup.fingerprint"), "fingerprint")
        if not isinstance(replace, bool):
            raise ApiError(HTTPStatus.BAD_REQUEST, Reason("config.boolean"), "replace")
        folder = self._file.parent
        return HTTPStatus.OK, await access.pin(server, fingerprint, folder, replace=replace)

    def _doctor(self, server: Server, body: dict[str, Any]) -> Work:
        only(body, "facts")
        facts = body.get("facts", "")
        if not isinstance(facts, str) or len(facts) > _FACTS_BYTES:
            wrong = Reason("config.characters_most", high=_FACTS_BYTES)
            raise ApiError(HTTPStatus.BAD_REQUEST, wrong, "facts")
        return partial(self._examine, server.id, facts)

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
        return found

    async def _run_doctor(self, name: str, *more: str) -> Printed:
        """Run `naproxy doctor`: a process of its own, for ssh and ip may take their time."""
        argv = [sys.executable, "-m", "naproxy.cli", "doctor", name]
        argv += ["--config", str(self._file), *more]
        done = await printed(argv, _DOCTOR_S, {}, _DOCTOR_BYTES)
        if done.code not in (0, 1):
            if said := words(done.complaint):
                raise JobError("setup.doctor_failed", said=said)
            raise JobError("setup.doctor_late")
        return done


def _not_used(call: Call) -> ApiError:
    return ApiError(HTTPStatus.METHOD_NOT_ALLOWED, Reason("setup.not_used", method=call.method))
