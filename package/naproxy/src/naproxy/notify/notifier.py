"""Looks at the box every few seconds, and has told what is worth telling."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import shutil
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import date, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from naproxy.api.calls import ApiError, Handlers
from naproxy.config import places
from naproxy.config.document import Config
from naproxy.core import files
from naproxy.core.hours import Calendar, span, zone
from naproxy.core.interfaces import UI_PORT
from naproxy.core.names import in_url
from naproxy.core.processes import Printed, printed
from naproxy.core.reason import Reason, reason_of
from naproxy.core.schema import plain
from naproxy.history.days import start_s, step
from naproxy.notify import figures, sender
from naproxy.notify.events import Condition, Notice, Watch, aftermath, conditions
from naproxy.notify.letter import letter, report
from naproxy.notify.outbox import Letter, Outbox

EVERY_S: Final = 10.0
UPDATES_S: Final = 300.0
"""To ask how updates are is to run a program."""
MORNING_H: Final = 8
"""When the day's figures are looked at, by the office's clock."""
WEEK_S: Final = 7 * 86400.0
LEAST_DELAYED: Final = 5
"""Fewer delays than this are too few to say that a promise was not kept."""
_SEND_S: Final = 60.0
_FIGURES_S: Final = 300.0
_MOST_BYTES: Final = 1 << 16
_LOG: Final = logging.getLogger(__name__)

Run = Callable[[Sequence[str], float, Mapping[str, str], int], Awaitable[Printed]]


class Notifier:
    """`look` and `update` tell what the control API tells, `current` is the configuration."""

    def __init__(
        self,
        data_dir: Path,
        current: Callable[[], Config],
        look: Callable[[], Mapping[str, Any]],
        update: Callable[[], Awaitable[Mapping[str, Any]]],
        fit: Callable[[str], Mapping[str, float]],
        *,
        run: Run = printed,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Continue where the last run ended. `fit`: the measurements of a commissioning."""
        self._data_dir = data_dir
        self._file = data_dir / "notify.json"
        self._current = current
        self._look = look
        self._update = update
        self._fit = fit
        self._run = run
        self._now = now
        self._task: asyncio.Task[None] | None = None
        kept = self._read()
        self._watch = Watch(kept.get("watch"))
        self._outbox = Outbox(kept.get("letters"))
        self._day = str(kept.get("day", ""))
        self._unkept: list[Condition] = []
        self._updates: Mapping[str, Any] = {}
        self._updates_s = 0.0
        self._written = ""

    def _read(self) -> dict[str, Any]:
        try:
            kept = json.loads(self._file.read_bytes())
        except (OSError, ValueError):
            return {}
        return kept if isinstance(kept, dict) else {}

    def handlers(self) -> Handlers:
        """Return who answers which route."""
        return {"notify": self.told, "notify.test": self._test}

    def begin(self) -> None:
        """Look from now on."""
        self._task = asyncio.get_running_loop().create_task(self._go_on())

    def stop(self) -> None:
        """Look no more."""
        if self._task:
            self._task.cancel()

    def told(self) -> dict[str, Any]:
        """Return the channels and the sent notices."""
        notify = self._current().notify
        ways = {"channels": list(notify.channels), "in_clear": list(notify.in_clear)}
        return {**ways, "told": self._outbox.told()}

    async def _go_on(self) -> None:
        while True:
            try:
                await self.step()
            except Exception:
                _LOG.exception("notifications")
            await asyncio.sleep(EVERY_S)

    async def step(self) -> None:
        """Look once, and send what is due."""
        now_s, config = self._now(), self._current()
        channels = config.notify.channels
        if channels:
            await self._look_at_figures(now_s, config)
        free = shutil.disk_usage(self._data_dir).free
        if now_s >= self._updates_s:
            self._updates_s = now_s + UPDATES_S
            self._updates = await self._update()
        status = self._look()
        found = [*conditions(status, now_s, free, self._updates), *self._unkept]
        for notice in self._watch.look(now_s, found, aftermath(status)):
            self._tell(notice, now_s, config)
        if not self._quiet(now_s, config):
            for each, channel in list(self._outbox.due(now_s, channels)):
                await self._send(each, channel, config)
        self._keep()

    def _tell(self, notice: Notice, now_s: float, config: Config, picture: str = "") -> None:
        if notice.event not in config.notify.events or not config.notify.channels:
            return
        made = self._letter(notice, now_s, config)
        self._outbox.put({**made, "picture": picture}, config.notify.channels)

    @staticmethod
    def _letter(notice: Notice, now_s: float, config: Config) -> dict[str, Any]:
        host = socket.gethostname()
        return letter(
            notice,
            now_s,
            office=config.office.name or host,
            language=config.office.language,
            where=zone(config.office.time_zone),
            page=_pages(places.own_address(config), host),
        )

    @staticmethod
    def _quiet(now_s: float, config: Config) -> bool:
        spans = [span(text) for text in config.notify.quiet]
        return Calendar(spans, (), zone(config.office.time_zone)).now(now_s) is not None

    async def _send(self, each: Letter, channel: str, config: Config) -> None:
        problem = await self._try(each, channel, config)
        if problem is None:
            self._outbox.sent(each, channel, self._now())
        else:
            _LOG.warning("notification by %s: %s", channel, problem)
            self._outbox.failed(each, channel, self._now(), problem)

    async def _try(self, each: Letter, channel: str, config: Config) -> Reason | None:
        # Its secrets, too: `plain` would leave them out.
        job = {"channel": channel, "settings": asdict(config.notify), "letter": each}
        argv = (sys.executable, "-m", sender.__name__)
        done = await self._run(argv, _SEND_S, {sender.JOB: json.dumps(job)}, _MOST_BYTES)
        if done.code != 0:
            return Reason("notify.not_sent", why=done.why)
        said = json.loads(done.output)["problem"]
        return reason_of(said) if said else None

    async def _test(self) -> dict[str, Any]:
        config = self._current()
        if not config.notify.channels:
            raise ApiError(HTTPStatus.CONFLICT, Reason("notify.no_channel"))
        made = self._letter(Notice("test", Reason("notify.test")), self._now(), config)
        results = []
        for channel in config.notify.channels:
            problem = await self._try(made, channel, config)
            results.append({"channel": channel, "problem": problem.plain() if problem else None})
        return {"results": results}

    # Figures, once a day

    async def _look_at_figures(self, now_s: float, config: Config) -> None:
        where = zone(config.office.time_zone)
        local = datetime.fromtimestamp(now_s, where)
        today = local.date()
        if local.hour < MORNING_H or self._day == today.isoformat():
            return
        first = not self._day
        self._day = today.isoformat()
        if "promise" in config.notify.events:
            week = {"what": "promise", "from_s": now_s - WEEK_S, "to_s": now_s}
            found = await self._figures(week, config, now_s)
            self._unkept = list(_unkept(found or [], config))
        if today.day == 1 and not first and "report" in config.notify.events:
            await self._report(today, now_s, config)

    async def _report(self, today: date, now_s: float, config: Config) -> None:
        where = zone(config.office.time_zone)
        begun = step(today, "month", -1)
        month = {"from_s": start_s(begun, where), "to_s": start_s(today, where)}
        found = await self._figures({"what": "report", **month}, config, now_s)
        if not found or not found["known_s"]:
            return
        value = found["money"]
        money = "" if value is None else f"{round(value, 2) + 0.0:.2f} {config.office.currency}"
        notice = report(found, f"{begun:%Y-%m}", money)
        self._tell(notice, now_s, config, found["picture"])

    async def _figures(self, wanted: Mapping[str, Any], config: Config, now_s: float) -> Any:
        meters = {meter.of: meter.id for meter in reversed(config.meter)}
        servers = [
            {
                "id": server.id,
                "power": plain(server.power),
                "fit": dict(self._fit(server.id)),
                "meter": meters.get(server.id),
                "box_meter": meters.get("box"),
            }
            for server in config.server
        ]
        job = {
            **wanted,
            "data_dir": str(self._data_dir),
            "servers": servers,
            "proxy_w": config.box.proxy_w,
            "time_zone": config.office.time_zone,
            "office": plain(config.office),
            "tariff": plain(config.tariff),
            "now_s": now_s,
        }
        argv = (sys.executable, "-m", figures.__name__)
        done = await self._run(argv, _FIGURES_S, {figures.JOB: json.dumps(job)}, _MOST_BYTES)
        if done.code != 0 or not servers:
            _LOG.warning("notifications: figures: %s", done.why if done.code else "no server")
            return None
        return json.loads(done.output)

    def _keep(self) -> None:
        """Write what changed: a card wears with each write."""
        kept = {"watch": self._watch.kept(), "letters": self._outbox.kept(), "day": self._day}
        text = json.dumps(kept)
        if text != self._written:
            with contextlib.suppress(OSError):
                files.write(self._file, text, 0o600)
                self._written = text


def _pages(address: str, host: str) -> str:
    """Return the links to the box: by its address, and by the name that not all machines know."""
    hosts = [in_url(address)] if address else []
    hosts.append(f"{host.partition('.')[0]}.local")
    return ", ".join(f"https://{each}:{UI_PORT}" for each in hosts)


def _unkept(found: Sequence[Mapping[str, Any]], config: Config) -> list[Condition]:
    promises = {server.id: server.promise for server in config.server}
    unkept = []
    for each in found:
        promise = promises.get(each["server"])
        if promise is None or each["delayed"] < LEAST_DELAYED:
            continue
        if each["delayed"] > promise.fraction * each["requests"]:
            reason = Reason(
                "notify.promise",
                server=each["server"],
                delayed=each["delayed"],
                number=each["requests"],
                delta_s=promise.delta_s,
                percent=round(100 * promise.fraction, 3),
            )
            unkept.append(Condition(f"promise:{each['server']}", "promise", reason))
    return unkept
