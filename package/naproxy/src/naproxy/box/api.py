"""The control API's part below /v1/box: the box's own affairs (docs/box.md)."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import shutil
import sys
import time
from collections.abc import Sequence
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Protocol

from naproxy.api.calls import ApiError, Handlers
from naproxy.api.table import PART_BYTES
from naproxy.box import LEAVE_FREE_BYTES, MOST_BYTES, clock, forms, logs, seen
from naproxy.box.effects import Machine
from naproxy.box.machine import SERVICES, Own
from naproxy.box.secrets import values as secret_values
from naproxy.config import places
from naproxy.config.document import Config
from naproxy.config.installation import Installation
from naproxy.core import files, office_time
from naproxy.core.processes import why, words
from naproxy.core.reason import Reason, reason_of
from naproxy.edge.store import secrets as edge_secrets

_LOG: Final = logging.getLogger(__name__)
SYSTEM_LOG: Final = Path("/var/log/messages")
_LINES: Final = 200
_WORK_S: Final = 110.0
_VARNISH_S: Final = 10.0
_OF_PASSWORD: Final = ("backup.needs_password", "backup.wrong_password")
_OUT: Final = {"backup": "backup.tar.gz", "diagnostics": "diagnostics.tar.gz"}
_UPLOAD: Final = "upload.tar.gz"
_REQUEST: Final = "request.json"


class Host(Protocol):
    """The controller's functions that the operations need; the controller lies above this room."""

    file: Path
    here: Installation

    def current(self) -> Config:
        """Return the configuration in force."""

    def told(self) -> dict[str, Any]:
        """Return state and settings as JSON types, without secrets."""

    def save(self) -> None:
        """Write what was learned."""

    def restart(self) -> None:
        """Restart as soon as the answer is sent."""

    def backup_fetched(self, *, complete: bool) -> None:
        """Remember that somebody has a backup as of now; `complete`: with passwords and keys."""

    def clock_changed(self) -> None:
        """Take note that the box has another time zone now."""


class Operations:
    """Answers what is below /v1/box."""

    def __init__(self, host: Host, ring: logs.Ring, does: Machine | None = None) -> None:
        """`ring` has the controller's own last words."""
        self._host = host
        self._ring = ring
        self._does = does or Machine()
        self.own = Own(host.here, self._does)
        self._busy = asyncio.Lock()
        self._complete = False
        """Whether the backup that was made last has passwords and keys."""

    def handlers(self) -> Handlers:
        """Return who answers which route."""
        return {
            "box": self._state,
            "box.network": self._network,
            "box.network.keep": self._keep,
            "box.network.back": self._back,
            "box.time": self._time,
            "box.name": self._name,
            "box.restart": self._restart,
            "box.reboot": self._reboot,
            "box.reset": self._reset,
            "box.empty": self._empty,
            "box.logs": self._logs,
            "box.backup": self._backup,
            "box.backup.part": partial(self._part, _OUT["backup"]),
            "box.diagnostics": self._diagnostics,
            "box.diagnostics.part": partial(self._part, _OUT["diagnostics"]),
            "box.restore.part": self._take_part,
            "box.restore.check": self._check,
            "box.restore": self._restore,
        }

    def begin(self) -> None:
        """On start: end what a restart cut off, and forget what nobody fetched."""
        self.own.begin()
        try:
            for name in (*_OUT.values(), _UPLOAD, _REQUEST):
                self._path(name).unlink(missing_ok=True)
        except OSError as error:  # as on a disk that takes no writes any more
            _LOG.warning("what nobody fetched is not deleted: %s", error)

    # The machine

    async def _state(self) -> dict[str, Any]:
        return {
            "platform": self._host.here.platform,
            "name": self._does.host_name(),
            "time_zone": clock.zone_name(),
            "clock": {"set": clock.is_set(), "synchronised": clock.synchronised()},
            "t_s": time.time(),
            "network": await seen.network(
                self._does, places.interface_to_all(self._host.current())
            ),
            "settings": self.own.settings() if self.own.ours else None,
            "services": ["naproxy", *(SERVICES if self.own.ours else ())],
        }

    async def _network(self, **wanted: Any) -> dict[str, Any]:
        await self.own.network(forms.network(**wanted))
        return await self._state()

    async def _keep(self) -> dict[str, Any]:
        self.own.keep()
        return await self._state()

    async def _back(self) -> dict[str, Any]:
        await self.own.back()
        return await self._state()

    async def _time(self, time_zone: str, ntp: Sequence[str] = ()) -> dict[str, Any]:
        forms.clock(time_zone, ntp)
        await self.own.time(time_zone, ntp)
        self._host.clock_changed()
        return await self._state()

    async def _name(self, name: str) -> dict[str, Any]:
        forms.host_name(name)
        await self.own.name(name)
        return await self._state()

    async def _restart(self, service: str) -> dict[str, Any]:
        if service == "naproxy":
            self._host.restart()
        else:
            await self.own.restart(service)
        return {}

    async def _reboot(self) -> dict[str, Any]:
        await self.own.reboot()
        return {}

    async def _reset(self, confirm: str) -> dict[str, Any]:
        await self.own.reset(confirm)
        return {}

    async def _empty(self) -> dict[str, Any]:
        """Ban all that is in Varnish's cache."""
        name = self._host.here.varnish_name
        argv = ("varnishadm", "-t", "5", *(("-n", name) if name else ()))
        try:
            done = await self._does.run((*argv, "ban", "obj.status", "!=", "0"), _VARNISH_S)
        except OSError as error:
            cannot = Reason("driver.cannot_run", program=argv[0], why=why(error))
            raise ApiError(HTTPStatus.BAD_GATEWAY, cannot) from None
        if done.code != 0:
            said = words(done.complaint or done.output) or Reason("driver.too_late")
            raise ApiError(HTTPStatus.BAD_GATEWAY, Reason("box.varnish", said=said))
        return {}

    # Logs

    async def _logs(
        self, source: str = "naproxy", contains: str = "", limit: int = _LINES
    ) -> dict[str, Any]:
        lines = self._ring.lines() if source == "naproxy" else await self._system_log()
        return {"lines": logs.chosen(lines, contains, limit), "of": len(lines)}

    async def _system_log(self) -> list[str]:
        if self.own.ours:
            try:
                return logs.by_office_clock(logs.tail(SYSTEM_LOG), time.time())
            except OSError as error:
                said = Reason("driver.unreadable", file=str(SYSTEM_LOG), why=why(error))
                raise ApiError(HTTPStatus.BAD_GATEWAY, said) from None
        argv = ("journalctl", "--no-pager", "--quiet", "-o", "short-unix", "-n", "2000")
        try:
            done = await self._does.run(argv, _VARNISH_S)
        except OSError:
            done = None
        if done is None or done.code != 0:
            raise ApiError(HTTPStatus.BAD_GATEWAY, Reason("box.no_system_log"), "source")
        lines = done.output.decode(errors="replace").splitlines()
        return logs.by_office_clock(lines, time.time())

    # Backup, restore, diagnostics

    async def _backup(
        self,
        *,
        history: bool = False,
        secrets: bool = False,
        users: Sequence[Any] = (),
        password: str = "",
    ) -> dict[str, Any]:
        wanted = {
            "history": history,
            "secrets": secrets,
            "users": json.dumps(users),
            "name": self._does.host_name(),
            "made_s": time.time(),
            "edge_dir": self._host.here.edge_dir,
        }
        self._host.save()
        file = Path(self._host.here.data_dir) / "history.db"
        # A copy that is whole, and the backup made of it.
        copies = 3 if password else 2
        self._need_room(copies * file.stat().st_size if history else 0)
        out = str(self._path(_OUT["backup"]))
        asked = {"do": "backup", "out": out, "wanted": wanted, "password": password}
        done = await self._work(asked)
        self._complete = secrets
        return {**done, "name": self._called("backup") + (".enc" if password else "")}

    async def _diagnostics(self) -> dict[str, Any]:
        from naproxy.box import diagnostics  # noqa: PLC0415 - and tarfile, which few ever need

        hidden = secret_values(self._host.current())
        hidden += edge_secrets(Path(self._host.here.edge_dir))
        texts = await diagnostics.gather(
            self._does, self._host.told(), self._ring.lines(), Path(self._host.here.data_dir)
        )
        data = await asyncio.to_thread(diagnostics.packed, texts, hidden)
        files.write(self._path(_OUT["diagnostics"]), data, 0o600)
        return {"bytes": len(data), "name": self._called("diagnostics")}

    async def _check(self, password: str = "") -> dict[str, Any]:
        upload = self._upload()
        try:
            return await self._work({"do": "check", "source": str(upload), "password": password})
        except ApiError as error:
            if error.body["where"] == "password":
                raise  # the file is kept: somebody types the password once more
            if error.status == HTTPStatus.UNPROCESSABLE_ENTITY:
                upload.unlink(missing_ok=True)
            raise

    async def _restore(self, *, history: bool = False, secrets: bool = False) -> dict[str, Any]:
        source = str(self._upload())
        asked = {"do": "restore", "source": source, "history": history, "secrets": secrets}
        done = await self._work(asked)
        self._path(_UPLOAD).unlink(missing_ok=True)
        self._host.restart()
        return done

    def _path(self, name: str) -> Path:
        folder = Path(self._host.here.data_dir) / "box"
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder / name

    def _upload(self) -> Path:
        path = self._path(_UPLOAD)
        if not path.exists():
            raise ApiError(HTTPStatus.CONFLICT, Reason("backup.not_sent"), "file")
        return path

    def _called(self, what: str) -> str:
        day = office_time.local(time.time()).date().isoformat()
        return f"naproxy-{what}-{self._does.host_name()}-{day}.tar.gz"

    async def _work(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Have it done in a process of its own, one at a time."""
        if self._busy.locked():
            raise ApiError(HTTPStatus.CONFLICT, Reason("backup.busy"))
        async with self._busy:
            host = self._host
            asked = {"file": str(host.file), "data_dir": host.here.data_dir, **asked}
            request = self._path(_REQUEST)
            # Not an argument: every user who may list processes would see the digests in it.
            files.write(request, json.dumps(asked), 0o600)
            argv = (sys.executable, "-m", "naproxy.box.work", str(request))
            done = await self._does.run(argv, _WORK_S)
        try:
            answer: dict[str, Any] = json.loads(done.output)
        except ValueError:
            said = words(done.complaint) or Reason("driver.too_late")
            failed = Reason("backup.failed", detail=said)
            raise ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, failed) from None
        if done.code != 0:
            why = reason_of(answer)
            where = "password" if why.code in _OF_PASSWORD else "file"
            raise ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, why, where)
        return answer

    def _need_room(self, size: int) -> None:
        free = shutil.disk_usage(self._path("")).free
        if free < size + LEAVE_FREE_BYTES:
            missing = -(-(size + LEAVE_FREE_BYTES - free) >> 20)
            raise ApiError(HTTPStatus.INSUFFICIENT_STORAGE, Reason("backup.no_room", mb=missing))

    def _part(self, name: str, offset: int = 0) -> dict[str, Any]:
        try:
            with self._path(name).open("rb") as file:
                file.seek(offset)
                data = file.read(PART_BYTES)
        except FileNotFoundError:
            raise ApiError(HTTPStatus.NOT_FOUND, Reason("backup.not_made")) from None
        size = self._path(name).stat().st_size
        if offset + len(data) >= size:
            self._path(name).unlink()
            if name == _OUT["backup"]:
                self._host.backup_fetched(complete=self._complete)
        return {"data": base64.b64encode(data).decode(), "bytes": size}

    def _take_part(self, offset: int, body: bytes) -> dict[str, Any]:
        path = self._path(_UPLOAD)
        size = path.stat().st_size if offset and path.exists() else 0
        if offset != size:
            raise ApiError(HTTPStatus.CONFLICT, Reason("backup.goes_on", at=size), "offset")
        if offset + len(body) > MOST_BYTES:
            path.unlink(missing_ok=True)
            large = Reason("backup.large", mb=MOST_BYTES >> 20)
            raise ApiError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, large, "file")
        self._need_room(len(body))
        with path.open("ab" if offset else "wb") as file:
            path.chmod(0o600)
            file.write(body)
        return {"bytes": offset + len(body)}
