"""Virtual machines of libvirt, by `virsh` on their host, over ssh."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from naproxy.core.reason import Reason, WrongError
from naproxy.core.schema import fits, fixed, option
from naproxy.drivers.openssh import Ssh, SshSettings, is_place

_is_domain: Final = fits(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*", Reason("config.domain"))


@dataclass(frozen=True, kw_only=True)
class LibvirtSettings(SshSettings):
    """Which virtual machine, on which host."""

    forced: ClassVar[str] = "/usr/local/bin/naproxy-virsh"
    guest: ClassVar[bool] = True
    """`host` runs it: as long as that sleeps, nothing wakes it."""

    host: str = option("The machine that runs the virtual one", low=1, check=is_place)
    machine: str = option("Name of the virtual machine", low=1, high=64, check=_is_domain)
    uri: str = fixed("qemu:///system")
    """libvirt's connection there."""


async def run(settings: LibvirtSettings, timeout_s: float, verb: str, *more: str) -> str:
    """Run one command of `virsh` on the domain and return its words, or raise WrongError."""
    ssh = Ssh(settings, settings.host)
    # Nothing of this means anything to a shell: the names are checked.
    words = ["virsh", "-q", "-c", f"'{settings.uri}'", verb, settings.machine, *more]
    session = await ssh.run(" ".join(words), timeout_s)
    if not session.let_in:
        failure = ssh.failure(session.log)
        raise WrongError(failure.code, **failure.params)
    if session.ended.code != 0:
        why = session.ended.why
        raise WrongError("driver.virsh", verb=verb, host=settings.host, words=why)
    return session.ended.said
