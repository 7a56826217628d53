"""Where certificates and their keys are kept: files that root alone may read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from naproxy.core import files

MOST_BYTES: Final = 1 << 19
"""Of one file: a chain and its key as openssl wrote them."""
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
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        files.write(self._file(name), pem, 0o600)

    def remove(self, name: str) -> None:
        """Forget one; OSError."""
        self._file(name).unlink(missing_ok=True)

    def secrets(self) -> list[str]:
        """Return the lines of all that is kept: what must not be in anything given away."""
        found = {
            line
            for name in self.ids()
            for line in (self.get(name) or b"").decode(errors="replace").splitlines()
        }
        return [line for line in found if len(line) >= _LEAST_LINE and not line.startswith("-----")]

    def _file(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no certificate's id")
        return self.folder / f"{name}.pem"


def _is_ours(path: Path) -> bool:
    return path.suffix == ".pem" and _NAME.fullmatch(path.stem) is not None
