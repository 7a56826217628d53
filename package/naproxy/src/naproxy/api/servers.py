"""The control API's part for one server: to wake it, to put it to sleep, to prove it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from naproxy.api import configuration, powers
from naproxy.api.calls import ApiError, Handlers, no_server
from naproxy.config.edit import Change
from naproxy.config.in_force import InForce
from naproxy.controller.deciding import MOST_AWAKE_S
from naproxy.controller.runner import Runner
from naproxy.controller.supervise import Supervisor
from naproxy.core.reason import Reason, together
from naproxy.core.request import WakeRequest
from naproxy.core.state import State
from naproxy.server.commissioning import Plan
from naproxy.server.fit import measured


class Servers:
    """Answers for the servers that there are."""

    def __init__(self, runners: Mapping[str, Runner], in_force: InForce) -> None:
        """`runners` are those of now, whenever they are asked."""
        self._runners = runners
        self._in_force = in_force

    def handlers(self) -> Handlers:
        """Return who answers which route."""
        return {
            "server.wake": self._wake,
            "server.sleep": self._sleep,
            "server.mode": self._mode,
            "server.arm": self._arm,
            "server.live": self._live,
            "server.leave": self._leave,
            "server.adopt": self._adopt,
            "server.commission": self._commission,
            "server.commissioned": self._commissioned,
            "server.cancel": self._cancel,
            "server.look": self._look,
            "server.looked": self._looked,
            "server.power": self._power,
            "server.use_power": self._use_power,
        }

    def status(self) -> list[dict[str, Any]]:
        """Return the status of each."""
        return [runner.status() for runner in self._runners.values()]

    def known(self, server: str) -> Runner:
        """Return a server's runner; ApiError if there is none."""
        if server not in self._runners:
            raise no_server(server)
        return self._runners[server]

    def _wake(self, server: str) -> dict[str, Any]:
        runner = self.known(server)
        runner.wake(WakeRequest("command", Reason("server.by_hand")))
        return runner.status()

    def _sleep(self, server: str) -> dict[str, Any]:
        runner = self.known(server)
        _refuse(runner.supervisor.inhibitors() if runner.supervisor.running else ())
        _refuse(runner.sleep(Reason("server.by_hand"), by_hand=True))
        return runner.status()

    def _mode(self, server: str, mode: str, until_s: float | None = None) -> dict[str, Any]:
        runner = self.known(server)
        if until_s is not None:
            now_s = time.time()
            if mode == "auto":
                raise ApiError(HTTPStatus.BAD_REQUEST, Reason("api.until_awake"), "until_s")
            if not now_s < until_s < now_s + MOST_AWAKE_S:
                raise ApiError(HTTPStatus.BAD_REQUEST, Reason("api.until"), "until_s")
        runner.set_mode(awake=mode == "awake", until_s=until_s)
        runner.save()
        return runner.status()

    def _arm(self, server: str) -> dict[str, Any]:
        runner = self.known(server)
        if why_not := runner.supervisor.arm():
            _refuse((why_not,))
        return runner.status()

    def _live(self, server: str) -> dict[str, Any]:
        runner = self.known(server)
        runner.confirm_live()
        return runner.status()

    async def _leave(self, server: str) -> dict[str, Any]:
        self.known(server)
        changes = [Change("set", f"server.{server}.sleep", {"driver": "itself"})]
        await configuration.change(self._in_force, changes, self._in_force.version)
        return self.known(server).status()

    async def _adopt(self, server: str, address: str, mac: str) -> dict[str, Any]:
        moved = self.known(server).executor.moved
        if moved is None or (moved.address, moved.mac) != (address, mac.lower()):
            _refuse((Reason("api.not_moved"),))
        there = {"address": address, "mac": mac.lower()}
        changes = [Change("set", f"server.{server}.{key}", value) for key, value in there.items()]
        await configuration.change(self._in_force, changes, self._in_force.version)
        return self.known(server).status()

    async def _commission(self, server: str, **plan: Any) -> dict[str, Any]:
        await self.known(server).supervisor.sighting.now()
        runner = self.known(server)  # it may have gone meanwhile
        _refuse(runner.commission(Plan(**plan)))
        return _report(runner.supervisor)

    async def _look(self, server: str) -> dict[str, Any]:
        runner = self.known(server)
        if runner.state() is not State.AWAKE:
            _refuse((Reason("server.not_awake"),))
        await runner.supervisor.sighting.now()
        await runner.executor.ask_ports()
        return self._looked(server)

    def _looked(self, server: str) -> dict[str, Any]:
        return self.known(server).supervisor.sighting.told()

    def _commissioned(self, server: str) -> dict[str, Any]:
        report = _report(self.known(server).supervisor)
        if not report:
            raise ApiError(HTTPStatus.NOT_FOUND, Reason("power.never_commissioned"))
        return report

    def _cancel(self, server: str) -> dict[str, Any]:
        supervisor = self.known(server).supervisor
        if not supervisor.running:
            _refuse((Reason("api.not_commissioned"),))
        supervisor.cancel()
        return _report(supervisor)

    def measured(self, server: str) -> dict[str, float]:
        """Return the powers (W, W, J) that its commissioning measured; empty: none for sure."""
        runner = self._runners.get(server)
        return measured(runner.supervisor.report().get("fit")) or {} if runner else {}

    def _power(self, server: str) -> dict[str, Any]:
        runner = self.known(server)
        return powers.told(self._in_force, runner.server, runner.supervisor.report())

    async def _use_power(self, server: str, *, replace: bool = False) -> dict[str, Any]:
        runner = self.known(server)
        report = runner.supervisor.report()
        return await powers.use(self._in_force, runner.server, report, replace=replace)


def _report(supervisor: Supervisor) -> dict[str, Any]:
    """Return progress or the last result, with where the seconds of the wakes went; or nothing."""
    report = supervisor.report()
    return report and report | {"wake": supervisor.wake_stages()}


def _refuse(inhibitors: Any) -> None:
    """Raise ApiError for these reasons, if there are any."""
    if inhibitors:
        raise ApiError(HTTPStatus.CONFLICT, together(*inhibitors))
