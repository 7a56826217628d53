"""What the tests of drivers share: one call of a driver, files with secrets, certificates."""

import asyncio
import hashlib
import os
import shutil
import ssl
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.patience import PATIENCE_S

_Answer = TypeVar("_Answer")


def needs(*programs: str, root: bool = False) -> pytest.MarkDecorator:
    """Skip where a program is not installed."""
    missing = [program for program in programs if not shutil.which(program)]
    if root and os.geteuid() != 0:
        missing.append("root")
    return pytest.mark.skipif(bool(missing), reason=f"needs {', '.join(missing)}")


def failures(driver: Any) -> list[str]:
    """Make one call and return what it said failed."""

    async def play() -> list[str]:
        failed: list[str] = []
        driver.send(lambda reason: failed.append(str(reason)))
        await driver._task
        return failed

    return asyncio.run(play())


def out_of_time(call: Callable[[], Awaitable[_Answer]], begun: Callable[[], bool]) -> _Answer:
    """Return what a call answers whose time is over as soon as it has `begun`."""

    async def play() -> _Answer:
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(call())
        async with asyncio.timeout(PATIENCE_S):
            while not begun():
                await asyncio.sleep(0.02)
        real = loop.time
        loop.time = lambda: real() + 3600
        return await task

    return asyncio.run(play())


def secret_file(directory: Path, text: str) -> str:
    """Make a file with a secret that only its owner can read."""
    file = directory / f"secret-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    file.write_text(f"{text}\n")
    file.chmod(0o600)
    return str(file)


def certificate(directory: Path, name: str = "bmc") -> str:
    """Make a certificate as a BMC does, and return its fingerprint."""
    made = directory / f"{name}.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-keyout", str(directory / f"{name}.key"), "-out", str(made)),
            *("-days", "2", "-subj", "/CN=bmc"),
        ],
        check=True,
        capture_output=True,
    )
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(made.read_text())).hexdigest()


def presenting(directory: Path, name: str = "bmc") -> ssl.SSLContext:
    """Return a server's context that shows such a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / f"{name}.pem", directory / f"{name}.key")
    return context
