"""Files and devices that settings name.

The controller that opens them is root. Whoever may change settings over the network, such as a
program with a token, must not have it read or write just any file: what a request names anew lies
where such things lie. Who edits the file on the box may name any.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from os.path import normpath
from pathlib import Path
from typing import Any, Final

from naproxy.config.document import DEFAULT_FILE, Config
from naproxy.core.reason import Reason
from naproxy.core.schema import Problem, label

COMMANDS: Final = "commands"
"""Programs are there, run as root: nothing a request names is."""
_DEVICES: Final = {
    "device": ("/dev/tty", "/dev/serial/", "/dev/i2c-", "/sys/class/hwmon/", "/sys/devices/"),
}
"""How it begins. Merely to open another device may do something, as with /dev/watchdog."""


@dataclasses.dataclass(frozen=True, slots=True)
class Named:
    """A path in a configuration; `usual`: it is the key's default, or empty."""

    where: str
    key: str
    path: str
    usual: bool


def inside(path: Path, folder: Path) -> bool:
    """Does it lie in the folder, whatever links lead to, and not among the commands?"""
    try:
        parts = path.resolve().relative_to(folder.resolve()).parts
    except (ValueError, OSError, RuntimeError):
        return False
    return len(parts) > 0 and parts[0] != COMMANDS and path.suffix != ".toml"


def _is_path(key: str, value: str) -> bool:
    if key == "calendar":  # or an address
        return value.startswith("/")
    return key in ("file", *_DEVICES) or key.endswith("_file")


def named(value: Any, where: str = "") -> Iterator[Named]:
    """Yield the paths that a loaded configuration names."""
    if isinstance(value, tuple):
        for number, member in enumerate(value, 1):
            if dataclasses.is_dataclass(member):
                about = {"id": getattr(member, "id", None)}
                yield from named(member, label(where, about, number))
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            inner, key = getattr(value, field.name), field.name
            here = f"{where}.{key}" if where else key
            if isinstance(inner, str) and _is_path(key, inner):
                yield Named(here, key, inner, inner in ("", field.default))
            else:
                yield from named(inner, here)


def strange(new: Config, before: Config, folder: Path) -> Iterator[Problem]:
    """Yield what a request must not name; `folder` is the configuration's.

    What stood there before stays: somebody on the box has put it there.
    """
    known = {(each.key, each.path) for each in named(before)}
    for each in named(new):
        if each.usual or (each.key, each.path) in known:
            continue
        if begins := _DEVICES.get(each.key):
            if not normpath(each.path).startswith(begins):
                yield Problem(each.where, Reason("config.path_begins", names=begins))
            continue
        folders = (folder, Path(DEFAULT_FILE).parent)
        if not any(inside(Path(each.path), here) for here in folders):
            allowed = tuple(dict.fromkeys(map(str, folders)))
            yield Problem(each.where, Reason("config.path_in", names=allowed))
