"""Backups are made and read in a process of their own: `python -m naproxy.box.work FILE`.

FILE has the request as JSON; the answer is JSON on standard output: with exit status 1 the reason
why not. It runs with little memory at most, so no backup, however made, can take more.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path
from typing import Any, Final

from naproxy.box import archive, restore, sealed
from naproxy.core.reason import Reason
from naproxy.core.schema import ConfigError

_MOST_MEMORY: Final = 1 << 28


def main(request: Path) -> int:
    """Carry out one request."""
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    asked = json.loads(request.read_text())
    request.unlink()
    try:
        answer = _DO[asked["do"]](asked)
    except (archive.ArchiveError, sealed.SealError, ConfigError, OSError, MemoryError) as error:
        json.dump(_why(error).plain(), sys.stdout)
        return 1
    json.dump(answer, sys.stdout)
    return 0


def _why(error: Exception) -> Reason:
    if isinstance(error, archive.ArchiveError | sealed.SealError):
        return error.reason
    if isinstance(error, MemoryError):
        return Reason("backup.memory")
    return Reason("backup.failed", detail=str(error))


def _backup(asked: dict[str, Any]) -> dict[str, Any]:
    out = Path(asked["out"])
    wanted = archive.Wanted(**asked["wanted"])
    with out.open("wb") as file:
        out.chmod(0o600)
        archive.make(file, Path(asked["file"]), Path(asked["data_dir"]), wanted)
    if asked["password"]:
        plain = out.with_suffix(".plain")
        out.replace(plain)
        try:
            sealed.seal(plain, out, asked["password"])
        finally:
            plain.unlink()
    return {"bytes": out.stat().st_size}


def _check(asked: dict[str, Any]) -> dict[str, Any]:
    source = Path(asked["source"])
    if sealed.is_sealed(source):
        if not asked["password"]:
            raise sealed.SealError("backup.needs_password")
        plain = source.with_suffix(".plain")
        try:
            sealed.open_sealed(source, plain, asked["password"])
            plain.replace(source)
        finally:
            plain.unlink(missing_ok=True)
    return archive.read(source).summary()


def _restore(asked: dict[str, Any]) -> dict[str, Any]:
    users = restore.lay_ready(
        Path(asked["source"]),
        Path(asked["file"]),
        Path(asked["data_dir"]),
        history=asked["history"],
        with_secrets=asked["secrets"],
    )
    return {"users": users}


_DO: Final = {"backup": _backup, "check": _check, "restore": _restore}

if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
