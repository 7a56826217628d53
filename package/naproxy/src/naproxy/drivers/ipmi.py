"""IPMI 2.0 by `ipmitool`, for the drivers that talk to a BMC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from naproxy.core import processes as program
from naproxy.core.reason import Reason, WrongError
from naproxy.core.schema import Held, is_absolute, option
from naproxy.drivers import secret
from naproxy.drivers.needs import Needs
from naproxy.drivers.openssh import is_place, is_user

_MOST_PASSWORD_BYTES: Final = 20  # IPMI 2.0, 22.30: set user password
PASSWORD: Final = Held("password", lambda text: secret.is_line(text, _MOST_PASSWORD_BYTES))


@dataclass(frozen=True, kw_only=True)
class IpmiSettings:
    """A BMC's address, and our login there."""

    needs: ClassVar[Needs] = Needs(programs={"ipmitool": "ipmitool"})

    host: str = option("Address or host name of the BMC", low=1, check=is_place)
    port: int = option("Its UDP port", 623, low=1, high=65535)
    user: str = option("User of the BMC", low=1, high=16, check=is_user)
    password_file: str = option(
        "File with the password, in one line; only root may read it",
        check=is_absolute,
        holds=PASSWORD,
    )


async def power(settings: IpmiSettings, verb: str, timeout_s: float) -> None:
    """Give a `chassis power` command, on or soft; WrongError if the BMC did not take it."""
    password = secret.read(settings.password_file, Reason("bmc.password"))
    if len(password.encode()) > _MOST_PASSWORD_BYTES:
        file, high = settings.password_file, _MOST_PASSWORD_BYTES
        raise WrongError("bmc.long_password", file=file, high=high)
    argv = [
        *("ipmitool", "-I", "lanplus", "-H", settings.host, "-p", str(settings.port)),
        *("-U", settings.user, "-f", settings.password_file, "-L", "OPERATOR"),
        # Without -C it takes the best cipher suite that the BMC offers.
        *("-N", "1", "-R", "3", "chassis", "power", verb),
    ]
    ended = await program.run(argv, timeout_s)
    if ended.code != 0:
        raise WrongError("bmc.said", host=settings.host, words=ended.why)
