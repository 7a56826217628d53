"""MicroPython's raw REPL: running code on a Pico, and putting files on it.

The protocol is the one that mpremote speaks (MicroPython's documentation, reference/repl). Any
device may be on the port, so each step has a time limit and keeps little of its output.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Callable, Mapping
from typing import Final

from naproxy.core.processes import why
from naproxy.drivers.meter import Fault
from naproxy.drivers.meter_io import Port
from naproxy.setup import web

STEP_S: Final = 5.0
"""Longest time for a step: the longest, reading back a file, takes a second."""

_MOST_BYTES: Final = 2048
"""More than any answer that is waited for."""

_NOISE_BYTES: Final = 1 << 16
"""So much may come before the prompt: a program that ran there may have said something."""

_PIECE_BYTES: Final = 256
_INTERRUPT: Final = b"\r\x03\x03"
_RAW: Final = b"\r\x01"
_PROMPT: Final = b"raw REPL; CTRL-B to exit\r\n>"
_END: Final = b"\x04"


class ReplError(Exception):
    """The code ended with an error, or the Pico does not speak the protocol."""

    def __init__(self, words: str) -> None:
        """`words`: its last output, safe to show; empty if there was none."""
        super().__init__(words)
        self.words = words


class Repl:
    """The raw REPL at the other end of a port."""

    def __init__(self, port: Port, step_s: float = STEP_S) -> None:
        """Give it the port alone: nobody else may read."""
        self._port = port
        self._step_s = step_s
        self._rest = b""

    async def enter(self) -> None:
        """Stop what runs there, and have the raw REPL; ReplError, Fault."""
        self._say(_INTERRUPT + _RAW)
        await self._skip_to(_PROMPT)
        # Restart without main.py: the previous program may have used all memory.
        self._say(_END)
        await self._skip_to(_PROMPT)

    async def run(self, code: str) -> str:
        """Run some code, at most 2 KB of it, and return what it printed; ReplError, Fault."""
        self._say(code.encode() + _END)
        await self._until(b"OK", 2)
        said = await self._until(_END, _MOST_BYTES)
        wrong = await self._until(_END, _MOST_BYTES)
        await self._until(b">", 1)
        if wrong:
            raise ReplError(_words(wrong))
        return said.decode(errors="replace").strip()

    def restart(self) -> None:
        """Restart the board; a running program is interrupted."""
        self._say(_INTERRUPT + _RAW + b"import machine\nmachine.reset()" + _END)

    def run_last(self, code: str) -> None:
        """Run some code that restarts the board: there is no answer."""
        self._say(code.encode() + _END)

    async def put(self, files: Mapping[str, bytes], told: Callable[[int], None]) -> None:
        """Write files, and read each back; `told` is called with the number of bytes sent.

        The folders must exist. ReplError if a file reads back differently.
        """
        sent = 0
        await self.run("from binascii import a2b_base64,hexlify\nfrom hashlib import sha256")
        for path, data in files.items():
            await self.run(f"f=open({path!r},'wb')")
            for place in range(0, len(data), _PIECE_BYTES):
                piece = data[place : place + _PIECE_BYTES]
                coded = base64.b64encode(piece).decode()
                await self.run(f"n=f.write(a2b_base64(b'{coded}'))")
                sent += len(piece)
                told(sent)
            await self.run("f.close()")
            said = await self.run(_SUM.format(path=path))
            if said != hashlib.sha256(data).hexdigest():
                raise ReplError(_words(said.encode()))

    def _say(self, data: bytes) -> None:
        try:
            self._port.write(data)
        except OSError as error:
            raise Fault("lost", "meter.unplugged_why", why=why(error)) from None

    async def _skip_to(self, mark: bytes) -> None:
        """Pass over what comes before a mark; ReplError if that is much, Fault if it is late."""
        until_s, passed = self._late_s(), 0
        while mark not in self._rest:
            passed += max(0, len(self._rest) - len(mark))
            if passed > _NOISE_BYTES:
                raise ReplError(_words(self._rest))
            # Of noise only what may be the beginning of the mark is kept.
            self._rest = self._rest[-len(mark) :] + await self._more(until_s)
        self._rest = self._rest.partition(mark)[2]

    async def _until(self, end: bytes, most: int) -> bytes:
        """Return what comes before `end`; ReplError if that is too much, Fault if it is late."""
        until_s = self._late_s()
        while end not in self._rest and len(self._rest) <= most:
            self._rest += await self._more(until_s)
        found, met, rest = self._rest.partition(end)
        if not met or len(found) > most:
            raise ReplError(_words(self._rest))
        self._rest = rest
        return found

    def _late_s(self) -> float:
        return asyncio.get_running_loop().time() + self._step_s

    async def _more(self, until_s: float) -> bytes:
        left_s = until_s - asyncio.get_running_loop().time()
        if left_s <= 0:
            raise Fault("silence", "meter.silent", silent_s=self._step_s)
        return await self._port.read(left_s)


_SUM: Final = """\
h=sha256()
f=open('{path}','rb')
while 1:
 b=f.read(512)
 if not b:break
 h.update(b)
f.close()
print(hexlify(h.digest()).decode())"""


def _words(said: bytes) -> str:
    """Return the last line of untrusted output, safe to show."""
    lines = [line for line in said.decode(errors="replace").splitlines() if line.strip()]
    return web.one_line(lines[-1]) if lines else ""
