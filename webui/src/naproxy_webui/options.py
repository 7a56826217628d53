"""Where the web interface finds what it needs: from the command line, never from a request."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from naproxy.api.client import DEFAULT_SOCKET


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Folders, the controller's socket, and the names of the box."""

    data_dir: Path = Path("/var/lib/naproxy")
    """The controller's: `history.db` is read here, nothing is written."""
    state_dir: Path = Path("/var/lib/naproxy-webui")
    """Ours: users, tokens, the claim code."""
    run_dir: Path = Path("/run/naproxy-webui")
    """Ours: sessions, which need not survive a power failure."""
    control_socket: str = DEFAULT_SOCKET
    names: tuple[str, ...] = ()
    """Names of the box, beside its own addresses and its mDNS name."""
    fingerprint: Path = Path("/var/lib/naproxy-webui-tls/fingerprint")
    """Where `naproxy-certificate` writes the fingerprint of the box's own certificate."""
