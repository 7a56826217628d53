"""The meter on a Pico: MicroPython and our firmware are put on it, and it is calibrated.

An installation writes to the Pico's other folder and then replaces `main.py` (naproxy_meter's
`firmware.py`): if it breaks off, the next start of the Pico is that of the firmware before.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

from naproxy_meter import firmware, host

from naproxy.api.jobs import JobError, Progress
from naproxy.core import files
from naproxy.core.reason import WrongError
from naproxy.drivers.meter import Fault
from naproxy.drivers.meter.ina219 import BAUD
from naproxy.drivers.meter_io import Port, serial
from naproxy.setup import calibrating, uf2, web
from naproxy.setup.repl import Repl, ReplError
from naproxy.setup.usb import Pico, Usb

RESTART_S: Final = 30.0
"""A Pico is back two seconds after a restart; the box's kernel and mdev have more to do."""
HELLO_S: Final = 3.0
_POLL_S: Final = 0.1
_MOST_MAIN: Final = 4096
_TAG: Final = "box"

Lend = Callable[[str], AbstractAsyncContextManager[None]]
"""Have a port to oneself: the meter that is configured there lets go of it meanwhile."""

_LOOK: Final = """\
import sys,os
print(getattr(sys.implementation,'_machine',''))
print('.'.join(str(n) for n in sys.implementation.version[:3]))
print('main.py' in os.listdir())"""
_READ_MAIN: Final = f"f=open('main.py','rb')\nb=f.read({_MOST_MAIN})\nf.close()\n"
_EMPTY: Final = """\
import os
def empty(p):
 for e in os.ilistdir(p):
  n=p+'/'+e[0]
  if e[1]&0x4000:
   empty(n)
   os.rmdir(n)
  else:os.remove(n)
if '{folder}' in os.listdir():
 empty('{folder}')
 os.rmdir('{folder}')
os.mkdir('{folder}')
os.mkdir('{folder}/naproxy_meter')"""
_RENAME: Final = "import os\nos.rename('main.py.new','main.py')\nif hasattr(os,'sync'):os.sync()"
_RESET: Final = "import machine\nmachine.reset()"
_BOOTLOADER: Final = "import machine\nmachine.bootloader()"


class Picos:
    """The work on Picos: one job at a time."""

    def __init__(
        self,
        data_dir: Path,
        lend: Lend,
        usb: Usb | None = None,
        *,
        built: Path = uf2.BUILT,
        restart_s: float = RESTART_S,
    ) -> None:
        """`data_dir` keeps the MicroPython that somebody sends; `built` is the image's own."""
        self._kept = uf2.stored(data_dir)
        self._built = built
        self._lend = lend
        self._usb = usb or Usb()
        self._restart_s = restart_s

    # The list of Picos

    def told(self, meters: Mapping[str, tuple[str, str | None]]) -> dict[str, Any]:
        """Return the Picos, and the box's firmware for them.

        `meters` maps each port of a configured meter to the meter's id, and its firmware's version
        if known.
        """
        return {
            "newest": firmware.VERSION,
            "micropython": self._micropython_version(),
            "picos": [
                {
                    "place": each.place,
                    "kind": each.kind,
                    "port": self._usb.name(each.node) if each.kind == "serial" else "",
                    "meter": found[0]
                    if (found := meters.get(os.path.realpath(each.node)))
                    else None,
                    "version": found[1] if found else None,
                }
                for each in self._usb.picos()
            ],
        }

    def _micropython(self) -> tuple[str, bytes] | None:
        """Return the version and the file that is here, the one that somebody sent first."""
        for file in (self._kept, self._built):
            with suppress(OSError, WrongError):
                data = file.read_bytes()
                return uf2.checked(data), data
        return None

    def _micropython_version(self) -> str | None:
        found = self._micropython()
        return found[0] if found else None

    def keep_micropython(self, file: Path) -> dict[str, Any]:
        """Keep a file that somebody sent, if it is MicroPython for a Pico; WrongError, OSError."""
        data, _ = files.peek(file, uf2.MOST_BYTES + 1)
        version = uf2.checked(data)
        if _numbers(version) < firmware.MICROPYTHON:
            raise WrongError("pico.too_old", version=version, oldest=_OLDEST)
        files.write(self._kept, data)
        return {"micropython": version}

    # Installing

    async def install(self, place: str, progress: Progress, *, replace: bool) -> dict[str, Any]:
        """Put on a Pico what it lacks; return its firmware's version and its port.

        `replace`: also where it runs somebody else's program. JobError says what is in the way.
        """
        pico = self._found(place)
        if pico.kind == "boot2350":
            raise JobError("pico.rp2350")
        async with self._lend(pico.node):
            try:
                return await self._install(pico, progress, replace=replace)
            except (ReplError, Fault) as error:
                raise _job_error(error) from None

    async def _install(self, pico: Pico, progress: Progress, *, replace: bool) -> dict[str, Any]:
        if pico.kind == "boot":
            pico = await self._put_micropython(pico, progress)
        else:
            pico = await self._have_repl(pico, progress)
        async with self._repl(pico) as repl:
            old = await self._looked(repl)
            if old is not None:
                # Its program stays: MicroPython's file does not touch the Pico's own files.
                self._newer_than(old)
                repl.run_last(_BOOTLOADER)
        if old is not None:
            boot = await self._again(pico, "boot")
            pico = await self._put_micropython(boot, progress)
            async with self._repl(pico) as repl:
                if await self._looked(repl) is not None:
                    raise JobError("pico.too_old", version=old, oldest=_OLDEST)
        async with self._repl(pico) as repl:
            await self._put_firmware(repl, progress, replace=replace)
            repl.run_last(_RESET)
        progress.part, progress.done, progress.of = "restart", 0, 0
        pico = await self._again(pico, "serial")
        async with serial(pico.node, BAUD) as port:
            version = (await hello(port)).version
        if version != firmware.VERSION:
            raise JobError(
                "pico.other_version", version=web.one_line(version), is_to_be=firmware.VERSION
            )
        return {"version": version, "port": self._usb.name(pico.node)}

    def _newer_than(self, old: str) -> None:
        found = self._micropython_version()
        if found is None or _numbers(found) < firmware.MICROPYTHON:
            raise JobError("pico.too_old", version=old, oldest=_OLDEST)

    async def _put_micropython(self, pico: Pico, progress: Progress) -> Pico:
        found = self._micropython()
        if found is None:
            raise JobError("pico.no_micropython")
        data = found[1]
        progress.part, progress.done, progress.of = "micropython", 0, len(data)

        def told(done: int) -> None:
            progress.done = done

        try:
            failed = await asyncio.to_thread(uf2.write, Path(pico.node), data, told)
        except WrongError as error:
            raise JobError(error.reason.code, **error.reason.params) from None
        try:
            return await self._again(pico, "serial")
        except JobError:
            if failed is None:
                raise
            raise JobError("pico.drive", why=(failed.strerror or "").lower()) from None

    async def _have_repl(self, pico: Pico, progress: Progress) -> Pico:
        """Have our firmware make room for the REPL; what else runs there is interrupted later."""
        progress.part, progress.done, progress.of = "repl", 0, 0
        ours = False
        with suppress(Fault):
            async with serial(pico.node, BAUD) as port:
                await hello(port)
                ours = (await asked(port, "repl")).accepted
        return await self._again(pico, "serial") if ours else pico

    @asynccontextmanager
    async def _repl(self, pico: Pico) -> AsyncIterator[Repl]:
        async with serial(pico.node, BAUD) as port:
            repl = Repl(port)
            try:
                await repl.enter()
                yield repl
            except BaseException:
                # Also if the job is cancelled: the previous program runs again.
                with suppress(Fault):
                    repl.restart()
                raise

    async def _looked(self, repl: Repl) -> str | None:
        """Return MicroPython's version if it is too old, else None; JobError for other boards."""
        machine, version, *_ = [*(await repl.run(_LOOK)).splitlines(), "", ""]
        if "RP2040" not in machine:
            raise JobError("pico.other_board", machine=web.one_line(machine or "?"))
        return web.one_line(version) if _numbers(version) < firmware.MICROPYTHON else None

    async def _put_firmware(self, repl: Repl, progress: Progress, *, replace: bool) -> None:
        folder = await self._other_folder(repl, replace=replace)
        try:
            modules = {f"{folder}/{path}": data for path, data in firmware.modules().items()}
        except OSError as error:
            raise JobError(
                "driver.unreadable", file=str(error.filename), why=str(error.strerror).lower()
            ) from None
        start = {"main.py.new": firmware.main(folder)}
        progress.part, progress.done = "files", 0
        progress.of = sum(len(data) for data in (*modules.values(), *start.values()))

        def told(done: int) -> None:
            progress.done = done

        await repl.run(_EMPTY.format(folder=folder))
        await repl.put(modules, told)
        await repl.put(start, lambda _: None)
        await repl.run(_RENAME)

    async def _other_folder(self, repl: Repl, *, replace: bool) -> str:
        """Return the folder that is not in use; JobError if a stranger's program is."""
        used, other = firmware.FOLDERS
        if (await repl.run(_LOOK)).splitlines()[-1:] != ["True"]:
            return used
        ours = f"{_READ_MAIN}print(b'naproxy_meter' in b, {f'/{used}'!r}.encode() in b)"
        is_ours, in_first = (*(await repl.run(ours)).split(), "", "")[:2]
        if is_ours != "True" and not replace:
            raise JobError("pico.foreign")
        return other if in_first == "True" else used

    # Restarts

    def _found(self, place: str) -> Pico:
        for pico in self._usb.picos():
            if pico.place == place:
                return pico
        raise JobError("pico.gone")

    async def _again(self, before: Pico, kind: str) -> Pico:
        """Wait until the Pico has restarted in the expected mode; JobError if it does not."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._restart_s):
                while True:
                    for pico in self._usb.picos():
                        again = pico.place == before.place and pico.number != before.number
                        if again and pico.kind == kind and Path(pico.node).exists() and pico.node:
                            return pico
                    await asyncio.sleep(_POLL_S)
        raise JobError("pico.not_back", limit_s=self._restart_s)

    # Calibrating

    async def calibrate(
        self, port: str, load_w: float | None, progress: Progress, length_s: float
    ) -> dict[str, Any]:
        """Set what a meter shows without a load to nothing, or with a known one to that."""
        progress.part, progress.done, progress.of = "measure", 0, round(length_s)

        def told(done_s: float) -> None:
            progress.done = min(round(done_s), progress.of)

        async with self._lend(port):
            try:
                async with serial(port, BAUD) as opened:
                    before, readings = await measured(opened, length_s, told)
                    name, value = (
                        calibrating.zero(before, readings)
                        if load_w is None
                        else calibrating.gain(before, readings, load_w)
                    )
                    reply = await asked(opened, f"set {name} {value}")
            except (Fault, ReplError) as error:
                raise _job_error(error) from None
            except WrongError as error:
                raise JobError(error.reason.code, **error.reason.params) from None
        if not reply.accepted:
            raise JobError("pico.refused", said=web.one_line(reply.words))
        return {"setting": name, "before": getattr(before, name), "now": value}


# The firmware's output


async def hello(port: Port, limit_s: float = HELLO_S) -> host.Hello:
    """Ask the firmware who it is; Fault if nothing that could be it answers."""
    async for item in _items(port, "hello", limit_s):
        if isinstance(item, host.Hello):
            return item
    raise Fault("silence", "pico.no_hello")


async def asked(port: Port, words: str, limit_s: float = HELLO_S) -> host.Reply:
    """Give the firmware a command, and return its answer; Fault if none comes."""
    async for item in _items(port, words, limit_s):
        if isinstance(item, host.Reply) and item.tag == _TAG:
            return item
    raise Fault("silence", "pico.no_hello")


async def measured(
    port: Port, length_s: float, told: Callable[[float], None]
) -> tuple[host.Hello, list[host.Reading]]:
    """Return who measures, and its readings of so many seconds."""
    about: host.Hello | None = None
    readings: list[host.Reading] = []
    covered_s = 0.0
    async for item in _items(port, "hello", length_s + 2 * HELLO_S):
        if isinstance(item, host.Hello):
            if about is not None and item.boot != about.boot:
                break
            about = item
        elif isinstance(item, host.Reading):
            readings.append(item)
            covered_s += item.covered_s
            told(covered_s)
            if about is not None and covered_s >= length_s:
                return about, readings
    raise Fault("silence", "pico.no_hello")


async def _items(
    port: Port, words: str, limit_s: float
) -> AsyncIterator[host.Reading | host.Hello | host.Reply | host.MeterFault]:
    """Ask, and yield what comes, for so long at most; silence ends it as well."""
    loop = asyncio.get_running_loop()
    tracker, until_s = host.Tracker(loop.time()), loop.time() + limit_s
    # Send an end of line first, so that a half-sent line does not become part of it.
    port.write(b"\n" + host.command(_TAG, words))
    while (left_s := until_s - loop.time()) > 0:
        try:
            data = await port.read(left_s)
        except Fault as fault:
            if fault.kind == "silence":
                return
            raise
        for item in tracker.feed(data, loop.time()):
            yield item


_OLDEST: Final = ".".join(str(number) for number in firmware.MICROPYTHON)


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"(\d{1,4})\.(\d{1,4})", version)
    return tuple(int(each) for each in found.groups()) if found else (0,)


def _job_error(error: ReplError | Fault) -> JobError:
    if isinstance(error, Fault):
        return JobError(error.reason.code, **error.reason.params)
    return JobError("pico.said", said=error.words) if error.words else JobError("pico.no_repl")
