"""One update at a time: looked at, then written when somebody wants it, then begun by a restart."""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import asdict, dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Literal

from naproxy import __version__
from naproxy.api.calls import ApiError
from naproxy.core.files import write
from naproxy.core.reason import Reason, own_words
from naproxy.update import versions
from naproxy.update.effects import CopyError, Machine
from naproxy.update.rauc import Bundle, Rauc, RaucError, Slots
from naproxy.update.versions import Order

_LOG: Final = logging.getLogger(__name__)
_BUNDLE, _CONFIRMED = "bundle.raucb", "confirmed.json"

Phase = Literal["none", "checking", "ready", "refused", "writing", "written", "failed"]
_PACKAGE: Final = Path("/var/lib/dpkg/info/naproxy.list")
"""There where Debian's package is installed."""
_BY_PACKAGES: Final = "sudo apt install ./naproxy_*.deb ./naproxy-meter_*.deb ./naproxy-webui_*.deb"
BUSY: Final = ("checking", "writing")


@dataclass(slots=True)
class Job:
    """How far it is."""

    phase: Phase = "none"
    percent: int = 0
    step: str = ""
    """RAUC's current step, in its own words."""
    bundle: Bundle | None = None
    order: Order = "unknown"
    """The bundle's version compared with the running one."""
    error: Reason | None = None
    why: str = ""
    """The kind of error: signature, format, board, file, space or rauc."""

    def json(self) -> dict[str, Any]:
        """Return it as JSON: the error's reason, and in English."""
        error = self.error and self.error.plain()
        return {**asdict(self), "error": str(self.error or ""), "error_reason": error}


class Updates:
    """The operations of the API, the command and the web interface."""

    def __init__(self, conf: str, folder: Path, does: Machine) -> None:
        """`folder` is ours: the bundle is kept there from the check until it is written."""
        self.job = Job()
        self._conf = conf
        self._folder = folder
        self._does = does
        self._rauc = Rauc(conf, does)
        self._task: asyncio.Task[None] | None = None
        self._seen: Slots | None = None
        # Left by a controller that ended in between; its purpose is not known any more.
        self._delete()

    # Telling

    async def status(self) -> dict[str, Any]:
        """Return everything; where RAUC does not answer, why."""
        told: dict[str, Any] = {
            "supported": Path(self._conf).is_file(),
            **_problem(None),
            "board": "",
            "version": __version__,
            "command": "",
            "slots": [],
            "confirmed": None,
            "job": self.job.json(),
        }
        if not told["supported"]:
            told["command"] = _BY_PACKAGES if _PACKAGE.is_file() else ""
            return told | _problem(self._not_by_images())
        try:
            slots = await self._look_at_slots()
        except RaucError as error:
            return told | _problem(error.reason)
        booted = slots.booted()
        return {
            **told,
            "board": slots.board,
            "version": self._running(slots),
            "slots": [asdict(slot) for slot in slots.slots],
            "confirmed": booted is not None and self._is_confirmed(booted.name, booted.installed),
        }

    async def _look_at_slots(self) -> Slots:
        """Return the slots; while RAUC is at work, as they were before."""
        if self._seen is None or self.job.phase not in BUSY:
            self._seen = await self._rauc.slots()
        return self._seen

    @staticmethod
    def _running(slots: Slots) -> str:
        booted = slots.booted()
        return (booted.version if booted else "") or __version__

    # Looking at a bundle

    async def check(self, file: Path) -> None:
        """Begin to look at a bundle; it is copied first. ApiError if something is under way."""
        self._need_idle()
        slots = await self._slots()
        self._need_idle()  # somebody else may have begun meanwhile
        self.job = Job("checking")
        self._begin(self._look(file, slots))

    async def _look(self, file: Path, slots: Slots) -> None:
        job, kept = self.job, self._folder / _BUNDLE

        def progress(percent: int) -> None:
            job.percent = percent

        try:
            await asyncio.to_thread(self._does.copy, file, kept, progress)
        except CopyError as error:
            self._refuse(error.reason, "file")
            return
        except OSError as error:
            self._refuse(own_words(error.strerror or str(error)), "file")
            return
        try:
            bundle = await self._rauc.info(kept)
        except RaucError as error:
            self._refuse(error.reason, error.why)
            return
        job.bundle = bundle
        job.order = versions.order(bundle.version, self._running(slots))
        if bundle.board != slots.board:
            wrong = Reason("update.other_board", made_for=bundle.board, board=slots.board)
            self._refuse(wrong, "board")
            return
        job.phase = "ready"

    def _refuse(self, error: Reason, why: str) -> None:
        self.job.phase, self.job.error, self.job.why = "refused", error, why
        self._delete()
        _LOG.warning("update: refused: %s", error)

    def _delete(self) -> None:
        file = self._folder / _BUNDLE
        try:
            file.unlink(missing_ok=True)
        except OSError as error:  # as on a disk that takes no writes any more
            _LOG.warning("%s: not deleted: %s", file, error.strerror)

    # Writing

    async def install(self, *, older: bool) -> None:
        """Begin to write what was looked at; `older`: also if it is not a newer version."""
        self._need_idle()
        if self.job.phase != "ready" or not self.job.bundle:
            raise ApiError(HTTPStatus.CONFLICT, Reason("update.none_ready"))
        if self.job.order in ("older", "unknown") and not older:
            wrong = Reason("update.not_newer", version=self.job.bundle.version)
            raise ApiError(HTTPStatus.CONFLICT, wrong, "older")
        self.job.phase, self.job.percent = "writing", 0
        _LOG.info("update: writing %s", self.job.bundle.version)
        self._begin(self._write())

    async def _write(self) -> None:
        job = self.job

        def progress(percent: int, step: str) -> None:
            job.percent, job.step = percent, step

        try:
            await self._rauc.install(self._folder / _BUNDLE, progress)
        except RaucError as error:
            job.phase, job.error, job.why = "failed", error.reason, error.why
            _LOG.error("update: not written: %s", error)
        else:
            job.phase, job.percent = "written", 100
            _LOG.info("update: written; it runs after a restart of the box")
        finally:
            self._delete()

    def forget(self) -> None:
        """Forget what was looked at."""
        self._need_idle()
        self.job = Job()
        self._delete()

    # Slots

    async def activate(self, which: Literal["other", "booted"]) -> None:
        """Have the other slot run after a restart, or the one that runs now after all."""
        self._need_idle()
        slots = await self._slots()
        self._need_idle()
        other = slots.other()
        if which == "other" and (other is None or not other.good):
            raise ApiError(HTTPStatus.CONFLICT, Reason("update.no_way_back"))
        try:
            await self._rauc.activate(which)
        except RaucError as error:
            raise ApiError(HTTPStatus.BAD_GATEWAY, error.reason) from None
        _LOG.info("update: after a restart the %s slot runs", which)

    async def confirm(self) -> None:
        """Confirm the running system: it stays."""
        slots = await self._slots()
        booted = slots.booted()
        if booted is None:
            raise ApiError(HTTPStatus.BAD_GATEWAY, Reason("update.no_slot"))
        try:
            await self._rauc.mark_good()
        except RaucError as error:
            raise ApiError(HTTPStatus.BAD_GATEWAY, error.reason) from None
        said = {"slot": booted.name, "installed": booted.installed}
        try:
            write(self._folder / _CONFIRMED, json.dumps(said))
        except OSError as error:
            wrong = Reason("update.not_kept", said=str(error.strerror))
            raise ApiError(HTTPStatus.INSUFFICIENT_STORAGE, wrong) from None

    def _is_confirmed(self, slot: str, installed: str) -> bool:
        return confirmed_last(self._folder) == (slot, installed)

    async def _slots(self) -> Slots:
        if not Path(self._conf).is_file():
            raise ApiError(HTTPStatus.CONFLICT, self._not_by_images())
        try:
            return await self._rauc.slots()
        except RaucError as error:
            raise ApiError(HTTPStatus.BAD_GATEWAY, error.reason) from None

    def _not_by_images(self) -> Reason:
        return Reason("update.not_by_images", file=self._conf)

    def _need_idle(self) -> None:
        if self.job.phase in BUSY:
            raise ApiError(HTTPStatus.CONFLICT, Reason("update.busy"))

    def _begin(self, work: Any) -> None:
        async def quietly() -> None:
            try:
                await work
            except Exception as error:
                self.job.phase, self.job.error = "failed", own_words(repr(error))
                self.job.why = "rauc"
                _LOG.error("update: %r", error)

        self._task = asyncio.ensure_future(quietly())


def _problem(reason: Reason | None) -> dict[str, Any]:
    if reason is None:
        return {"problem": None, "problem_reason": None}
    return {"problem": str(reason), "problem_reason": reason.plain()}


def confirmed_last(folder: Path) -> tuple[str, str] | None:
    """Return which slot was confirmed last, and when it was installed; None if none was."""
    try:
        said = json.loads((folder / _CONFIRMED).read_text())
        return str(said["slot"]), str(said["installed"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
