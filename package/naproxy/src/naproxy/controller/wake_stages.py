"""Sees where the seconds of a server's wakes go: `server/stages.py` with a clock and readings.

Looks every 100 ms, and only while a wake is under way.
"""

from __future__ import annotations

import asyncio
import fcntl
import socket
import struct
import time
from collections.abc import Callable
from typing import Final

from naproxy.server.machine_io import Observed
from naproxy.server.seeing import Pinged
from naproxy.server.stages import Stage, Waking

LOOK_S: Final = 0.1
_SIOCGIFFLAGS: Final = 0x8913
_IFF_RUNNING: Final = 0x40
_IFREQ: Final = struct.Struct("=16sH22x")


class WakeStages:
    """One server's wake under way, if one is.

    `power_w` reads a meter that is quick enough to tell when the power rises, or says None.
    """

    def __init__(self, interface: str, power_w: Callable[[], float | None]) -> None:
        """Nothing is under way yet."""
        self._interface = interface
        self._power_w = power_w
        self._waking: Waking | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def under_way(self) -> bool:
        """Is a wake under way?"""
        return self._waking is not None

    def begin(self, called_s: float, on_w: float) -> None:
        """The server was called at `called_s`; awake it draws about `on_w`."""
        self.stop()
        self._waking = Waking(called_s, on_w=on_w, asleep_w=self._power_w())
        self._look()

    def _look(self) -> None:
        assert self._waking
        self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._look)
        now_s = time.monotonic()
        up = has_link(self._interface)
        if up is not None:
            self._waking.saw_link(now_s, up=up)
        power_w = self._power_w()
        if power_w is not None:
            self._waking.drew(now_s, power_w)

    def pinged(self, ping: Pinged) -> None:
        """Hear of a ping that ended."""
        if self._waking and ping.answered and ping.begun_s >= self._waking.called_s:
            self._waking.pinged(time.monotonic())

    def probed(self, seen: Observed) -> None:
        """Hear of a readiness probe that ended."""
        if self._waking and seen.begun_s >= self._waking.called_s:
            self._waking.probed(time.monotonic(), seen.sign)

    def connected(self) -> None:
        """Hear that the web port took a probe's connection."""
        if self._waking:
            self._waking.connected(time.monotonic())

    def up(self) -> tuple[Stage, ...]:
        """The server is up: return the stages of its wake, if one was under way."""
        stages = self._waking.up(time.monotonic()) if self._waking else ()
        self.stop()
        return stages

    def stop(self) -> None:
        """Nothing is under way any more."""
        self._waking = None
        if self._timer:
            self._timer.cancel()
            self._timer = None


def has_link(interface: str) -> bool | None:
    """Say whether one of the box's interfaces has a link; None: that cannot be told."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            answer = fcntl.ioctl(sock, _SIOCGIFFLAGS, _IFREQ.pack(interface.encode(), 0))
    except (OSError, struct.error):
        return None
    return bool(_IFREQ.unpack(answer)[1] & _IFF_RUNNING)
