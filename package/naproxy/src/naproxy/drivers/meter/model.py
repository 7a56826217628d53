"""No meter: the server's power estimated from its utilisation (naproxy/drivers/powermodel.py).

Utilisation comes from Prometheus' node_exporter on the server, or from this machine's own
/proc. The coefficients are fitted once against a real meter: `naproxy measure --fit`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from naproxy.core.schema import option
from naproxy.core.state import State
from naproxy.drivers import meter, powermodel
from naproxy.drivers.meter_io import Web
from naproxy.drivers.powermodel import Coefficients, Counters, Utilisation


@dataclass(frozen=True, kw_only=True)
class Settings(meter.PolledSettings):
    """Where the utilisation comes from, and the coefficients."""

    driver: str = option("model: estimated from the server's utilisation", "model")
    source: str = option(
        "exporter: Prometheus' node_exporter on the server; local: this machine",
        "exporter",
        choices=("exporter", "local"),
    )
    port: int = option("Port of node_exporter", 9100, low=1, high=65535)
    on_w: float = option("Power when idle", 43.3, low=0, high=100000)
    cpu_w: float = option("Added power with fully busy processors", 0.0, low=-10000, high=100000)
    memory_w: float = option("Added power with all memory in use", 0.0, low=-10000, high=100000)
    disk_w: float = option("Added power with always busy disks", 0.0, low=-10000, high=100000)
    network_w: float = option(
        "Added power for each megabyte a second", 0.0, low=-10000, high=100000
    )
    off_w: float = option("Power while it is asleep", 1.6, low=0, high=100000)


class Driver:
    """Asks for counters and makes of two the utilisation between them."""

    def __init__(self, settings: Settings, site: meter.Site) -> None:
        """Ask the server of the site."""
        self._settings = settings
        self._site = site
        self._coefficients = Coefficients(
            settings.on_w,
            settings.cpu_w,
            settings.memory_w,
            settings.disk_w,
            settings.network_w,
        )
        self.about = meter.About(
            meter.NOTHING,
            settings.interval_s,
            "an estimate: as good as its fit; see docs/meters.md",
            estimated=True,
        )

    async def readings(self) -> meter.Readings:
        """Yield an estimate an interval."""
        async for utilisation in self.utilisations():
            if utilisation is None:
                yield meter.Reading(self._settings.off_w)
            else:
                yield meter.Reading(powermodel.estimate_w(self._coefficients, utilisation))

    async def utilisations(self) -> AsyncIterator[Utilisation | None]:
        """Yield the utilisation of each interval, None while the server is asleep."""
        loop = asyncio.get_running_loop()
        last: Counters | None = None
        while True:
            if self._site.state() is State.ASLEEP:
                last = None
                yield None
            else:
                counters = await self._counters(loop.time())
                utilisation = powermodel.between(last, counters) if last else None
                last = counters
                if utilisation:
                    yield utilisation
            await asyncio.sleep(self._settings.interval_s)

    async def _counters(self, t_s: float) -> Counters:
        if self._settings.source == "local":
            return powermodel.from_proc(t_s, Path("/proc"))
        web = Web(self._site.address, self._settings.port, self._settings.timeout_s)
        return powermodel.from_exporter(t_s, await web.get("/metrics"))
