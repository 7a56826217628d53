"""Where certificates and their keys are kept: files that root alone may read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from naproxy.core import files

MOST_BYTES: Final = 1 << 18
"""Of one file: a chain and its key as openssl wrote them."""
_KEYS: Final = "keys"
_OWN: Final = "own.pem"
_ACME: Final = "acme"
_NAME: Final = re.compile(r"[a-z0-9-]{1,31}")
_LEAST_LINE: Final = 16


class Store:
    """A file for each certificate, ID.pem: its chain, then its key."""

    def __init__(self, folder: Path) -> None:
        """`folder` is made when something is kept."""
        self.folder = folder

    def ids(self) -> list[str]:
        """Return which there are; OSError."""
        try:
            return sorted(path.stem for path in self.folder.iterdir() if _is_ours(path))
        except FileNotFoundError:
            return []

    def get(self, name: str) -> bytes | None:
        """Return one as PEM, None if there is none; OSError."""
        try:
            data, _ = files.peek(self._file(name), MOST_BYTES)
        except FileNotFoundError:
            return None
        return data

    def put(self, name: str, pem: bytes) -> None:
        """Keep one: after a power failure it is the old one or this; OSError."""
        for folder in (self.folder.parent, self.folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        files.write(self._file(name), pem, 0o600)

    def remove(self, name: str) -> None:
        """Forget one; OSError."""
        self._file(name).unlink(missing_ok=True)

    def _file(self, name: str) -> Path:
        if not is_id(name):
            raise ValueError(f"{name!r} is no certificate's id")
        return self.folder / f"{name}.pem"


def store_of(edge_dir: Path) -> Store:
    """Return what is kept of a box."""
    return Store(edge_dir / _KEYS)


def own_file(edge_dir: Path) -> Path:
    """Return where the box's own certificate and its key are."""
    return edge_dir / _OWN


def account_folder(edge_dir: Path, issuer: str) -> Path:
    """Return where uacme has the account with an issuer of certificates."""
    return edge_dir / _ACME / issuer


def account_file(folder: Path) -> Path:
    """Return the account's key in its folder: uacme calls it so."""
    return folder / "private" / "key.pem"


def accounts(edge_dir: Path) -> dict[str, bytes]:
    """Return the keys of all accounts by their issuers; OSError."""
    try:
        folders = sorted((edge_dir / _ACME).iterdir())
    except FileNotFoundError:
        return {}
    known = [each for each in folders if is_id(each.name) and account_file(each).exists()]
    return {each.name: files.peek(account_file(each), MOST_BYTES)[0] for each in known}


def put_account(edge_dir: Path, issuer: str, key: bytes) -> None:
    """Keep an account's key, as after a restore; OSError."""
    file = account_file(account_folder(edge_dir, issuer))
    for folder in reversed(file.relative_to(edge_dir).parents):
        (edge_dir / folder).mkdir(mode=0o700, parents=True, exist_ok=True)
    files.write(file, key, 0o600)


def secrets(edge_dir: Path) -> list[str]:
    """Return all stored lines, which no export may contain."""
    found: set[str] = set()
    kept = ((edge_dir / _KEYS).glob("*.pem"), (edge_dir / _ACME).glob("*/private/*.pem"))
    for path in (own_file(edge_dir), *(path for each in kept for path in sorted(each))):
        try:
            data, _ = files.peek(path, MOST_BYTES)
        except OSError:
            continue
        found.update(data.decode(errors="replace").split("\n"))
    return [line for line in found if len(line) >= _LEAST_LINE and not line.startswith("-----")]


def is_id(name: str) -> bool:
    """Is it a name that a certificate may have?"""
    return _NAME.fullmatch(name) is not None


def _is_ours(path: Path) -> bool:
    return path.suffix == ".pem" and is_id(path.stem)
