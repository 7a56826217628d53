"""Pressing a server's power button by an optocoupler on a GPIO line (thesis, the prototype).

By libgpiod's `gpioset`, of its version 1 or 2: their options differ.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from naproxy.core import processes as program
from naproxy.core.reason import Reason, WrongError
from naproxy.core.schema import fits, fixed, option
from naproxy.drivers.needs import Needs
from naproxy.drivers.wake import SlowDriver, SlowRungSettings

_is_chip: Final = fits(
    "(/dev/)?[A-Za-z0-9_][A-Za-z0-9_.-]*", Reason("config.gpio", name="gpiochip0")
)


@dataclass(frozen=True, kw_only=True)
class Settings(SlowRungSettings):
    """Which line, and how long it is pressed."""

    presses: ClassVar[bool] = True
    needs: ClassVar[Needs] = Needs(
        programs={"gpioset": "gpiod"},
        kernel=("GPIO_CDEV",),
        devices=("/dev/gpiochip*",),
    )

    driver: str = option("gpio: press the power button, by libgpiod's gpioset", "gpio")
    chip: str = option("GPIO chip", "gpiochip0", low=1, high=32, check=_is_chip)
    line: int = option("Number of the line on the chip", low=0, high=1023)
    active_low: bool = option("Pull the line low to press", False)
    pulse_ms: int = fixed(200)
    """Long enough for a main board to notice; most cut the power after 4000."""
    spacing_s: float = option(
        "Time between two presses; must be longer than the server takes to start, because the"
        " second press would switch it off",
        120.0,
        low=5,
        high=600,
    )
    attempts: int = fixed(1)
    """A second press would switch off a server that starts slowly."""


class Driver(SlowDriver[Settings]):
    """Presses and lets go, once for each call."""

    async def call(self) -> None:
        """Press once."""
        said = (await program.run(["gpioset", "--version"], self._settings.timeout_s)).said
        version = re.search(r"v(\d+)\.", said)
        if version and int(version[1]) >= 2:
            await self._press_v2()
        else:
            await self._press_v1()

    async def _press_v2(self) -> None:
        settings = self._settings
        low = ["--active-low"] if settings.active_low else []
        # Back to inactive after the pulse, and then (0) the end.
        pulse = ["--toggle", f"{settings.pulse_ms}ms,0"]
        await self._must(*low, *pulse, "--chip", settings.chip, f"{settings.line}=1")

    async def _press_v1(self) -> None:
        """Press, then let go by a call of its own: a line may stay as it was left."""
        settings = self._settings
        low = ["--active-low"] if settings.active_low else []
        seconds, rest_ms = divmod(settings.pulse_ms, 1000)
        pulse = ["--mode=time", f"--sec={seconds}", f"--usec={1000 * rest_ms}"]
        try:
            await self._must(*low, *pulse, settings.chip, f"{settings.line}=1")
        finally:
            await self._must(*low, "--mode=exit", settings.chip, f"{settings.line}=0")

    async def _must(self, *arguments: str) -> None:
        ended = await program.run(["gpioset", *arguments], self._settings.timeout_s)
        if ended.code != 0:
            why = replace(ended, said=ended.said.removeprefix("gpioset: ")).why
            name = f"gpioset {self._settings.chip}"
            raise WrongError("driver.program", program=name, words=why)
