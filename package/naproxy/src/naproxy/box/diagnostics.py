"""Diagnostics for a helper: one tar.gz of texts, without secrets and visitors."""

from __future__ import annotations

import io
import json
import platform
import re
import shutil
import sqlite3
import sys
import tarfile
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from naproxy import __version__
from naproxy.box.effects import Machine
from naproxy.core.reason import Reason

HIDDEN: Final = "[secret]"
_ASKED: Final = " asked for something"
_PATIENCE_S: Final = 10.0
_MOST_CHARS: Final = 1 << 19
_PROGRAMS: Final = {
    "addresses.txt": ("ip", "addr"),
    "routes.txt": ("ip", "route"),
    "memory.txt": ("cat", "/proc/meminfo"),
    "load.txt": ("cat", "/proc/loadavg"),
    "disk.txt": ("df", "-k"),
    "varnish.txt": ("varnishd", "-V"),
    "processes.txt": ("ps", "-eo", "pid,user,rss,etime,comm"),
}
"""Programs that show no command lines: secrets may be in those."""

_README: Final = """This is what the box says of itself, for somebody who helps to find a fault.

In it: the state, the settings, the last lines of the log, addresses of the box, programs
that run, sizes.
Not in it: passwords and keys; who visited, and what they asked for.
Have a look at it before you give it away.
"""


async def gather(
    does: Machine, told: Mapping[str, Any], log: list[str], data_dir: Path
) -> dict[str, str]:
    """Return the texts by name; `told` is the controller's status, as JSON types.

    For a request in a reason only its class stays, without the client and the address.
    """
    texts = {"README.txt": _README, "log.txt": _asked().sub(_ASKED, "\n".join(log)) + "\n"}
    for name, value in told.items():
        texts[f"{name}.json"] = json.dumps(_without_visitors(value), indent=2)
    texts["versions.txt"] = _versions()
    texts["history.txt"] = _history(data_dir)
    for name, argv in _PROGRAMS.items():
        texts[name] = await _said(does, argv)
    return texts


def _without_visitors(told: Any) -> Any:
    match told:
        case {"code": "server.request", "params": {"klass": klass}}:
            return {**told, "params": {"klass": klass}}
        case Mapping():
            return {name: _without_visitors(value) for name, value in told.items()}
        case list():
            return [_without_visitors(value) for value in told]
    return told


def _asked() -> re.Pattern[str]:
    """Return how the log tells of a request, from the text that it is made of."""
    said = str(Reason("server.request", klass="", request="REQUEST", who="WHO")).rstrip(".")
    return re.compile(re.escape(said).replace("REQUEST", r"\S.*?").replace("WHO", r"\S+?"))


async def _said(does: Machine, argv: tuple[str, ...]) -> str:
    try:
        done = await does.run(argv, _PATIENCE_S)
    except OSError as error:
        return f"{argv[0]}: {error.strerror}\n"
    return (done.output + done.complaint).decode(errors="replace")


def _versions() -> str:
    try:
        release = platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        release = "unknown system"
    kernel = " ".join(platform.uname()[i] for i in (0, 2, 4))
    return f"naproxy {__version__}\npython {sys.version}\n{release}\n{kernel}\n"


def _history(data_dir: Path) -> str:
    lines = [f"{path.name} {path.stat().st_size} bytes" for path in sorted(data_dir.glob("*.db*"))]
    usage = shutil.disk_usage(data_dir)
    lines.append(f"free there: {usage.free} of {usage.total} bytes")
    try:
        with closing(sqlite3.connect(f"file:{data_dir / 'history.db'}?mode=ro", uri=True)) as db:
            tables = db.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY 1")
            for (name,) in tables.fetchall():
                (rows,) = db.execute(f'SELECT count(*) FROM "{name}"').fetchone()
                lines.append(f"{name}: {rows} rows")
    except sqlite3.Error as error:
        lines.append(str(error))
    return "\n".join(lines) + "\n"


def packed(texts: Mapping[str, str], secrets: list[str]) -> bytes:
    """Return them as tar.gz, each secret replaced wherever it stands, plain or as in JSON."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, text in texts.items():
            clean = text[-_MOST_CHARS:]
            for secret in secrets:
                clean = clean.replace(secret, HIDDEN)
                clean = clean.replace(json.dumps(secret)[1:-1], HIDDEN)
            data = clean.encode(errors="replace")
            member = tarfile.TarInfo(f"naproxy-diagnostics/{name}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return out.getvalue()
