"""Where the web interface finds what it needs: from the command line, never from a request."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from naproxy.api.client import DEFAULT_SOCKET


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Folders, the controller's socket, and what the box is called."""

    data_dir: Path = Path("/var/lib/naproxy")
    """The controller's: `history.db` is read here, nothing is written."""
    state_dir: Path = Path("/var/lib/naproxy-webui")
    """Ours: users, tokens, the claim code."""
    run_dir: Path = Path("/run/naproxy-webui")
    """Ours: what need not outlive the power: sessions."""
    control_socket: str = DEFAULT_SOCKET
    names: tuple[str, ...] = ()
    """Names that the box may be called by, beside its own addresses and its mDNS name."""
    fingerprint: Path = Path("/var/lib/naproxy-webui-tls/fingerprint")
    """Where `naproxy-certificate` writes the fingerprint of the box's own certificate."""
