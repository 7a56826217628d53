"""Network, time, name, restart, reset of a machine that is Naproxy's own.

Wishes are files in `--system-dir`; a helper program makes them true. docs/box.md says what
an image must provide. Elsewhere nothing of this is touched.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from naproxy.api.calls import ApiError
from naproxy.box import forms
from naproxy.box.effects import Machine
from naproxy.config.installation import Installation
from naproxy.core import files
from naproxy.core.processes import why
from naproxy.core.reason import Reason

_LOG: Final = logging.getLogger(__name__)
TRIAL_S: Final = 120.0
"""New network settings go back by themselves unless somebody confirms that they work."""
SERVICES: Final = ("varnish", "edge", "webui", "lighttpd")
_HELPER_S: Final = 60.0
_NETWORK: Final = "network.conf"
_TRIAL: Final = "network.try"
_TIME: Final = "time.conf"
_NAME: Final = "name.conf"

NOT_OURS: Final = Reason("box.not_ours")


class Own:
    """Operations on the machine; each is refused where the machine is not ours."""

    def __init__(
        self,
        here: Installation,
        does: Machine,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`here` names the machine's owner and the program that changes it."""
        self._here = here
        self._does = does
        self._now = now
        self._trial: asyncio.TimerHandle | None = None
        self._until_s: float | None = None
        self._work: set[asyncio.Task[None]] = set()

    @property
    def ours(self) -> bool:
        """Is the whole machine Naproxy's?"""
        return self._here.platform == "naproxy"

    def settings(self) -> dict[str, Any]:
        """Return what it was told: network, time servers; and until when a trial runs."""
        network = _read(self._file(_NETWORK)) or {"method": "dhcp"}
        vlan = network.get("vlan", "")
        return {
            "method": network.get("method", "dhcp"),
            "address": network.get("address", ""),
            "gateway": network.get("gateway", ""),
            "ipv6": network.get("ipv6") or "auto",
            "address6": network.get("address6", ""),
            "gateway6": network.get("gateway6", ""),
            "vlan": int(vlan) if vlan.isdecimal() else None,
            "dns": network.get("dns", "").split(),
            "ntp": _read(self._file(_TIME)).get("ntp", "").split(),
            "trial_until_s": self._until_s,
        }

    async def network(self, wanted: forms.Network) -> None:
        """Try new settings: they go back in two minutes unless `keep` is called.

        Settings that cannot be applied go back at once to the last kept ones.
        """
        self._need()
        _write(self._file(_TRIAL), wanted.lines())
        self._end_trial()
        try:
            await self._apply("network", self._file(_TRIAL))
        except ApiError:
            await self._back_quietly()
            raise
        self._end_trial()  # of somebody who tried at the same time
        loop = asyncio.get_running_loop()
        self._trial = loop.call_later(TRIAL_S, self._begin_back)
        self._until_s = self._now() + TRIAL_S

    def keep(self) -> None:
        """Keep what is being tried."""
        self._need()
        if self._trial is None:
            raise ApiError(HTTPStatus.CONFLICT, Reason("box.no_trial"))
        files.write(self._file(_NETWORK), self._file(_TRIAL).read_bytes())
        self._end_trial()
        self._file(_TRIAL).unlink()

    async def back(self) -> None:
        """Go back to the network settings before the trial."""
        self._need()
        self._end_trial()
        if not self._file(_NETWORK).exists():
            _write(self._file(_NETWORK), forms.Network().lines())
        await self._apply("network", self._file(_NETWORK))
        self._file(_TRIAL).unlink(missing_ok=True)

    def begin(self) -> None:
        """On start: a trial that was cut off is over."""
        if self.ours and self._file(_TRIAL).exists():
            self._begin_back()

    def stop(self) -> None:
        """On the end: forget the clock, not the trial."""
        self._end_trial()

    async def time(self, zone: str, servers: Sequence[str]) -> None:
        """Set the time zone and the time servers."""
        self._need()
        _write(self._file(_TIME), [("time_zone", zone), ("ntp", " ".join(servers))])
        await self._apply("time", self._file(_TIME))

    async def name(self, name: str) -> None:
        """Name the box."""
        self._need()
        _write(self._file(_NAME), [("name", name)])
        await self._apply("name", self._file(_NAME))

    async def restart(self, service: str) -> None:
        """Restart one of the box's programs, other than the controller."""
        self._need()
        if service not in SERVICES:
            raise forms.wrong("service", "config.one_of", names=("naproxy", *SERVICES))
        await self._helper("restart", service)

    async def reboot(self) -> None:
        """Restart the machine."""
        self._need()
        await self._helper("reboot")

    async def reset(self, confirm: object) -> None:
        """Forget everything; the box's name must have been typed."""
        self._need()
        if confirm != self._does.host_name():
            raise forms.wrong("confirm", "box.confirm")
        await self._helper("reset")

    def _need(self) -> None:
        if not self.ours:
            raise ApiError(HTTPStatus.CONFLICT, NOT_OURS)

    def _file(self, name: str) -> Path:
        return Path(self._here.system_dir) / name

    async def _apply(self, what: str, file: Path) -> None:
        await self._helper("apply", what, str(file))

    async def _helper(self, *arguments: str) -> None:
        helper = self._here.helper
        try:
            done = await self._does.run((helper, *arguments), _HELPER_S)
        except OSError as error:
            cannot = Reason("driver.cannot_run", program=helper, why=why(error))
            raise ApiError(HTTPStatus.BAD_GATEWAY, cannot) from None
        if done.code != 0:
            program = " ".join((Path(helper).name, *arguments[:2]))
            failed = Reason("driver.program", program=program, words=done.why)
            raise ApiError(HTTPStatus.BAD_GATEWAY, failed)

    def _begin_back(self) -> None:
        _LOG.warning("network: nobody confirmed the new settings; the old ones are used again")
        task = asyncio.get_running_loop().create_task(self._back_quietly())
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def _back_quietly(self) -> None:
        try:
            await self.back()
        except (ApiError, OSError) as error:
            _LOG.error("network: %s", error)

    def _end_trial(self) -> None:
        if self._trial is not None:
            self._trial.cancel()
        self._trial = self._until_s = None


def _write(path: Path, pairs: Sequence[tuple[str, str]]) -> None:
    """Write what a shell can read line by line: `key=value`, no quotes; values were checked."""
    files.write(path, "".join(f"{key}={value}\n" for key, value in pairs))


def _read(path: Path) -> dict[str, str]:
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    return {key: value for key, _, value in (line.partition("=") for line in lines)}
