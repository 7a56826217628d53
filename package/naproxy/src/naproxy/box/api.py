"""The control API's part below /v1/box: what the box does for itself (docs/box.md)."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import shutil
import sys
import time
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Protocol

from naproxy.api.calls import Answer, ApiError, Call, only
from naproxy.box import LEAVE_FREE_BYTES, MOST_BYTES, clock, effects, forms, logs, secrets, seen
from naproxy.box.effects import Effects
from naproxy.box.machine import SERVICES, Own
from naproxy.config.document import Config
from naproxy.config.installation import Installation
from naproxy.core import files
from naproxy.core.processes import words
from naproxy.core.reason import Reason, reason_of

_LOG: Final = logging.getLogger(__name__)
PART_BYTES: Final = 1 << 19
SYSTEM_LOG: Final = Path("/var/log/messages")
_WORK_S: Final = 110.0
_VARNISH_S: Final = 10.0
_OUT: Final = {"backup": "backup.tar.gz", "diagnostics": "diagnostics.tar.gz"}
_UPLOAD: Final = "upload.tar.gz"
_REQUEST: Final = "request.json"


class Host(Protocol):
    """What the operations need of the controller."""

    file: Path
    here: Installation

    def current(self) -> Config:
        """Return the configuration in force."""

    def told(self) -> dict[str, Any]:
        """Return state and settings as JSON types, without secrets."""

    def save(self) -> None:
        """Write what was learned."""

    def restart(self) -> None:
        """Begin anew, as soon as the answer is out."""


class Operations:
    """Answers what is below /v1/box."""

    def __init__(self, host: Host, ring: logs.Ring, does: Effects | None = None) -> None:
        """`ring` has the controller's own last words."""
        self._host = host
        self._ring = ring
        self._does = does or effects.Machine()
        self.own = Own(host.here, self._does)
        self._busy = asyncio.Lock()

    async def answer(self, call: Call) -> Answer:
        """Answer one request; ApiError for those that cannot be."""
        match call.method, call.path[2:]:
            case "GET", ():
                return HTTPStatus.OK, await self._state()
            case "GET", ("logs",):
                return HTTPStatus.OK, await self._logs(call)
            case "GET", (("backup" | "diagnostics") as what, "part"):
                return HTTPStatus.OK, self._part(_OUT[what], call)
            case "PUT", ("restore", "part"):
                return HTTPStatus.OK, self._take_part(call)
            case method, path if (method, path) in _DO:
                body = call.json()
                return await _DO[method, path](self, body)
        raise ApiError(HTTPStatus.NOT_FOUND, "there is nothing here")

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
            "network": await seen.network(self._does, self._host.current().box.interface),
            "wishes": self.own.wishes() if self.own.ours else None,
            "services": ["naproxy", *(SERVICES if self.own.ours else ())],
        }

    async def _network(self, body: dict[str, Any]) -> Answer:
        await self.own.network(forms.network(body))
        return HTTPStatus.ACCEPTED, await self._state()

    async def _keep(self, body: dict[str, Any]) -> Answer:
        only(body)
        self.own.keep()
        return HTTPStatus.OK, await self._state()

    async def _back(self, body: dict[str, Any]) -> Answer:
        only(body)
        await self.own.back()
        return HTTPStatus.OK, await self._state()

    async def _time(self, body: dict[str, Any]) -> Answer:
        await self.own.time(*forms.clock(body))
        return HTTPStatus.OK, await self._state()

    async def _name(self, body: dict[str, Any]) -> Answer:
        await self.own.name(forms.host_name(body))
        return HTTPStatus.OK, await self._state()

    async def _restart(self, body: dict[str, Any]) -> Answer:
        only(body, "service")
        if body.get("service") == "naproxy":
            self._host.restart()
        else:
            await self.own.restart(str(body.get("service")))
        return HTTPStatus.ACCEPTED, {}

    async def _reboot(self, body: dict[str, Any]) -> Answer:
        only(body)
        await self.own.reboot()
        return HTTPStatus.ACCEPTED, {}

    async def _reset(self, body: dict[str, Any]) -> Answer:
        only(body, "confirm")
        await self.own.reset(body.get("confirm"))
        return HTTPStatus.ACCEPTED, {}

    async def _empty(self, body: dict[str, Any]) -> Answer:
        """Ban all that is in Varnish's cache."""
        only(body)
        name = self._host.here.varnish_name
        argv = ("varnishadm", "-t", "5", *(("-n", name) if name else ()))
        try:
            done = await self._does.run((*argv, "ban", "obj.status", "!=", "0"), _VARNISH_S)
        except OSError as error:
            raise ApiError(HTTPStatus.BAD_GATEWAY, f"varnishadm: {error.strerror}") from None
        if done.code != 0:
            said = words(done.complaint or done.output) or "it did not end in time"
            raise ApiError(HTTPStatus.BAD_GATEWAY, Reason("box.varnish", said=said))
        return HTTPStatus.OK, {}

    # Logs

    async def _logs(self, call: Call) -> dict[str, Any]:
        source = call.query.get("source", "naproxy")
        limit = int(call.number("limit", 200))
        if source == "naproxy":
            lines = self._ring.lines()
        elif source == "system":
            lines = await self._system_log()
        else:
            raise ApiError(HTTPStatus.BAD_REQUEST, "must be naproxy or system", "source")
        contains = call.query.get("contains", "")[:200]
        return {"lines": logs.chosen(lines, contains, limit), "of": len(lines)}

    async def _system_log(self) -> list[str]:
        if self.own.ours:
            try:
                return logs.tail(SYSTEM_LOG)
            except OSError as error:
                raise ApiError(HTTPStatus.BAD_GATEWAY, f"{SYSTEM_LOG}: {error.strerror}") from None
        argv = ("journalctl", "--no-pager", "--quiet", "-o", "short-iso", "-n", "2000")
        try:
            done = await self._does.run(argv, _VARNISH_S)
        except OSError:
            done = None
        if done is None or done.code != 0:
            raise ApiError(HTTPStatus.BAD_GATEWAY, Reason("box.no_system_log"), "source")
        return done.output.decode(errors="replace").splitlines()

    # Backup, restore, diagnostics

    async def _backup(self, body: dict[str, Any]) -> Answer:
        only(body, "history", "secrets", "users")
        wanted = {
            "history": _flag(body, "history"),
            "secrets": _flag(body, "secrets"),
            "users": json.dumps(body.get("users", [])),
            "name": self._does.host_name(),
            "made_s": time.time(),
        }
        self._host.save()
        history = Path(self._host.here.data_dir) / "history.db"
        # A copy that is whole, and the backup made of it.
        self._need_room(2 * history.stat().st_size if wanted["history"] else 0)
        out = str(self._path(_OUT["backup"]))
        done = await self._work({"do": "backup", "out": out, "wanted": wanted})
        return HTTPStatus.OK, {**done, "name": self._called("backup")}

    async def _diagnostics(self, body: dict[str, Any]) -> Answer:
        from naproxy.box import diagnostics  # noqa: PLC0415 - and tarfile, which few ever need

        only(body)
        hidden = secrets.values(self._host.current())
        texts = await diagnostics.gather(
            self._does, self._host.told(), self._ring.lines(), Path(self._host.here.data_dir)
        )
        data = await asyncio.to_thread(diagnostics.packed, texts, hidden)
        files.write(self._path(_OUT["diagnostics"]), data, 0o600)
        return HTTPStatus.OK, {"bytes": len(data), "name": self._called("diagnostics")}

    async def _check(self, body: dict[str, Any]) -> Answer:
        only(body)
        upload = self._upload()
        try:
            return HTTPStatus.OK, await self._work({"do": "check", "source": str(upload)})
        except ApiError as error:
            if error.status == HTTPStatus.UNPROCESSABLE_ENTITY:
                upload.unlink()
            raise

    async def _restore(self, body: dict[str, Any]) -> Answer:
        only(body, "history", "secrets")
        asked = {
            "do": "restore",
            "source": str(self._upload()),
            "history": _flag(body, "history"),
            "secrets": _flag(body, "secrets"),
        }
        done = await self._work(asked)
        self._path(_UPLOAD).unlink(missing_ok=True)
        self._host.restart()
        return HTTPStatus.ACCEPTED, done

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
        return f"naproxy-{what}-{self._does.host_name()}-{time.strftime('%Y-%m-%d')}.tar.gz"

    async def _work(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Have it done in a process of its own, one at a time."""
        if self._busy.locked():
            raise ApiError(HTTPStatus.CONFLICT, Reason("backup.busy"))
        async with self._busy:
            host = self._host
            asked = {"file": str(host.file), "data_dir": host.here.data_dir, **asked}
            request = self._path(_REQUEST)
            # Not an argument: who may see the processes must not see the digests in it.
            files.write(request, json.dumps(asked), 0o600)
            argv = (sys.executable, "-m", "naproxy.box.work", str(request))
            done = await self._does.run(argv, _WORK_S)
        try:
            answer: dict[str, Any] = json.loads(done.output)
        except ValueError:
            said = words(done.complaint) or "it took too long"
            raise ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, said) from None
        if done.code != 0:
            raise ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, reason_of(answer), "file")
        return answer

    def _need_room(self, size: int) -> None:
        free = shutil.disk_usage(self._path("")).free
        if free < size + LEAVE_FREE_BYTES:
            missing = -(-(size + LEAVE_FREE_BYTES - free) >> 20)
            raise ApiError(HTTPStatus.INSUFFICIENT_STORAGE, Reason("backup.no_room", mb=missing))

    def _part(self, name: str, call: Call) -> dict[str, Any]:
        offset = int(call.number("offset", 0))
        try:
            with self._path(name).open("rb") as file:
                file.seek(offset)
                data = file.read(PART_BYTES)
        except FileNotFoundError:
            raise ApiError(HTTPStatus.NOT_FOUND, "it was not made yet") from None
        size = self._path(name).stat().st_size
        if offset + len(data) >= size:
            self._path(name).unlink()
        return {"data": base64.b64encode(data).decode(), "bytes": size}

    def _take_part(self, call: Call) -> dict[str, Any]:
        offset, path = int(call.number("offset", 0)), self._path(_UPLOAD)
        size = path.stat().st_size if offset and path.exists() else 0
        if offset != size:
            raise ApiError(HTTPStatus.CONFLICT, f"must go on at {size}", "offset")
        if offset + len(call.body) > MOST_BYTES:
            path.unlink(missing_ok=True)
            words = f"is larger than {MOST_BYTES >> 20} MiB"
            raise ApiError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, words, "file")
        self._need_room(len(call.body))
        with path.open("ab" if offset else "wb") as file:
            path.chmod(0o600)
            file.write(call.body)
        return {"bytes": offset + len(call.body)}


def _flag(body: dict[str, Any], name: str) -> bool:
    value = body.get(name, False)
    if not isinstance(value, bool):
        raise ApiError(HTTPStatus.BAD_REQUEST, "must be true or false", name)
    return value


_DO: Final = {
    ("PUT", ("network",)): Operations._network,
    ("POST", ("network", "keep")): Operations._keep,
    ("POST", ("network", "back")): Operations._back,
    ("PUT", ("time",)): Operations._time,
    ("PUT", ("name",)): Operations._name,
    ("POST", ("restart",)): Operations._restart,
    ("POST", ("reboot",)): Operations._reboot,
    ("POST", ("reset",)): Operations._reset,
    ("POST", ("cache", "empty")): Operations._empty,
    ("POST", ("backup",)): Operations._backup,
    ("POST", ("diagnostics",)): Operations._diagnostics,
    ("POST", ("restore", "check")): Operations._check,
    ("POST", ("restore",)): Operations._restore,
}
