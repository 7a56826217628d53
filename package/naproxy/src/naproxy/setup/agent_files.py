"""The agent's program as the box hands it out, and the text that installs it on a server."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

FOLDER: Final = "naproxy-agent"
_FILES: Final = Path(__file__).with_name("agent")
_SCRIPT: Final = Path(__file__).with_name("prepare-agent.sh")
_NAMES: Final = {
    "install": "install",
    "naproxy-agent.conf": "naproxy-agent.conf",
    "naproxy-agent.service": "naproxy-agent.service",
    # Without their ending: the image keeps no sources of its own Python.
    "naproxy_agent": "src/naproxy_agent.py",
    "agent_protocol": "src/agent_protocol.py",
    "jobs": "src/jobs.py",
}


@lru_cache(maxsize=1)
def packed() -> bytes:
    """Return the agent as a tar.gz, the same bytes whenever it is made of the same files."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for file, name in _NAMES.items():
            data = (_FILES / file).read_bytes()
            about = tarfile.TarInfo(f"{FOLDER}/{name}")
            about.size, about.mode = len(data), 0o755 if name == "install" else 0o644
            tar.addfile(about, io.BytesIO(data))
    return gzip.compress(made.getvalue(), mtime=0)


@lru_cache(maxsize=1)
def digest() -> str:
    """Return the SHA-256 of it, in hex."""
    return hashlib.sha256(packed()).hexdigest()


def script(*, box: str, pin: str, server: str, code: str) -> str:
    """Return what to paste on the server as root: it installs the agent with a new key.

    `box` is the address of the web interface, `pin` the SHA-256 of its certificate's public key
    in base64, as `curl --pinnedpubkey` takes it.
    """
    marks: Mapping[str, str] = {
        "@BOX@": box,
        "@PIN@": pin,
        "@SERVER@": server,
        "@CODE@": code,
        "@SHA256@": digest(),
    }
    text = _SCRIPT.read_text()
    for mark, value in marks.items():
        text = text.replace(mark, value)
    return text
