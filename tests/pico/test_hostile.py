"""Whatever hangs on the port, and whatever somebody sends as MicroPython."""

from __future__ import annotations

import asyncio
import os
import pty
import struct
import threading
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from naproxy.core.files import NotAFileError
from naproxy.core.reason import WrongError
from naproxy.drivers.meter import Fault
from naproxy.drivers.meter_io import serial
from naproxy.setup import uf2
from naproxy.setup.pico import Picos, hello
from naproxy.setup.repl import Repl, ReplError
from naproxy_meter.frame import seal

from tests.pico import board
from tests.pico.test_install import nobody

PROMPT = b"raw REPL; CTRL-B to exit\r\n>"
Says = Callable[[bytes], bytes]


@contextmanager
def device(says: Says) -> Iterator[str]:
    """The port of something that answers what is said to it."""
    ours, theirs = pty.openpty()
    tty.setraw(theirs)
    os.set_blocking(ours, True)

    def live() -> None:
        with suppress(OSError):
            while heard := os.read(ours, 4096):
                os.write(ours, says(heard))

    threading.Thread(target=live, daemon=True).start()
    yield os.ttyname(theirs)
    os.close(theirs)


async def run(path: str, step_s: float) -> str:
    async with serial(path, 115200) as port:
        repl = Repl(port, step_s)
        await repl.enter()
        return await repl.run("print(6*7)")


def good(answer: bytes) -> Says:
    """The REPL, but for the answer to what is run."""
    return lambda heard: PROMPT if heard[-1:] == b"\x01" or heard == b"\x04" else answer


def test_an_answer_is_what_was_printed() -> None:
    with device(good(b"OK42\r\n\x04\x04>")) as path:
        assert asyncio.run(run(path, 60)) == "42"


@pytest.mark.parametrize(
    "says",
    [
        lambda _: b"",
        lambda _: b"\x00\xff" * 100,
        lambda _: b">>> ",
        lambda _: b"x" * 100_000,
        lambda _: PROMPT[:-1] * 3000,
        good(b"\x04\x04>"),
        good(b"NO\x04\x04>"),
        good(b"OK" + b"y" * 100_000),
        good(b"OK\x04" + b"y" * 100_000),
        good(b"OK42\x04\x04?"),
        good(b"OK42\x04"),
        good(b"OK\x04Traceback\r\nOSError: \x1b[2J28\r\n\x04>"),
    ],
)
def test_what_does_not_speak_the_protocol_is_left_in_time(says: Says) -> None:
    with device(says) as path, pytest.raises((ReplError, Fault)) as error:
        asyncio.run(asyncio.wait_for(run(path, 0.3), 60))
    assert len(str(error.value)) < 200
    assert "\x1b" not in str(error.value)


def test_a_firmware_that_only_makes_noise_is_none() -> None:
    async def greeted(path: str) -> None:
        async with serial(path, 115200) as port:
            await hello(port, 0.3)

    for said in (b"", b"H 1 version=1.0.0*00000000\n", b"\xff" * 5000, seal("H 9 version=2")):
        with device(lambda _, said=said: said) as path, pytest.raises(Fault):  # type: ignore[misc]
            asyncio.run(greeted(path))


def without(data: bytes, place: int, *words: int) -> bytes:
    made = bytearray(data)
    struct.pack_into(f"<{len(words)}I", made, place, *words)
    return bytes(made)


GOOD = board.uf2()


def test_a_file_that_is_no_micropython_for_a_pico_is_refused() -> None:
    wireless = b"MicroPython v1.27.0 on a Raspberry Pi Pico W with RP2040"
    for code, files in {
        "pico.uf2_size": [b"", GOOD[:-1], GOOD * 2000],
        "pico.uf2_block": [
            *(GOOD[:-512], GOOD[512:] + GOOD[:512], without(GOOD, 0, 7), without(GOOD, 508, 7)),
            *(without(GOOD, 12, 0x20000000), without(GOOD, 12, 0x10200000)),
            without(GOOD, 16, 476),
        ],
        "pico.uf2_chip": [without(GOOD, 8, 0), board.uf2(family=0xE48BFF59)],
        "pico.uf2_other": [board.uf2(bytes(3000)), board.uf2(wireless)],
    }.items():
        for number, data in enumerate(files):
            with pytest.raises(WrongError) as error:
                uf2.checked(data)
            assert error.value.reason.code == code, number


def test_a_file_that_somebody_sends_is_kept_and_used_before_the_boxs_own(tmp_path: Path) -> None:
    picos = Picos(tmp_path / "data", nobody, built=tmp_path / "none")
    sent = tmp_path / "sent"
    sent.write_bytes(GOOD)
    assert picos.keep_micropython(sent) == {"micropython": "1.27.0"}
    assert picos.told({})["micropython"] == "1.27.0"
    sent.write_bytes(GOOD.replace(b"v1.27.0", b"v1.19.1"))
    with pytest.raises(WrongError, match="too old"):
        picos.keep_micropython(sent)
    assert picos.told({})["micropython"] == "1.27.0"


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    picos = Picos(tmp_path / "data", nobody, built=tmp_path / "none")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder"):
        with pytest.raises(NotAFileError):
            picos.keep_micropython(tmp_path / name)
