"""Run by the box's own Python: what each driver needs and this box lacks, as JSON.

Programs are started and modules imported; options are looked up in the running kernel's
configuration. Of the devices those are asked for that this machine has.
"""

from __future__ import annotations

import gzip
import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

from naproxy import drivers
from naproxy.drivers.needs import Needs

KINDS: tuple[drivers.Kind, ...] = ("sleep", "wake", "ready", "meter")
NOT_STARTED = (126, 127)
"""Exit statuses of a shell, and of a program whose libraries are not there."""


def main(has: list[str]) -> None:
    """Print driver to what it lacks; `has` are patterns of its devices."""
    with gzip.open("/proc/config.gz", "rt") as text:
        kernel = set(re.findall(r"^CONFIG_(\w+)=[ym]$", text.read(), re.MULTILINE))
    found = {}
    for kind in KINDS:
        for name in drivers.names(kind):
            try:
                lacks = missing(drivers.settings(kind, name), kernel, set(has))
            except ImportError as error:
                lacks = [f"itself: {error}"]
            found[f"{kind} {name}"] = lacks
    print(json.dumps(found))


def missing(settings: type, kernel: set[str], has: set[str]) -> list[str]:
    """Return what a driver needs and what is not here."""
    needs = getattr(settings, "needs", Needs())
    told = [f"program {each}: {why}" for each in needs.programs if (why := not_started(each))]
    for each in needs.modules:
        try:
            importlib.import_module(each)
        except ImportError as error:
            told.append(f"module {each}: {error}")
    told += [f"kernel option {each}" for each in needs.kernel if each not in kernel]
    told += [f"device {each}" for each in needs.devices if each in has and not there(each)]
    return told


def there(pattern: str) -> bool:
    """Whether there is such a file."""
    return any(Path("/").glob(pattern.removeprefix("/")))


def not_started(program: str) -> str:
    """Start it; return why it does not, or nothing."""
    try:
        done = subprocess.run(
            [program, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
        )
    except OSError as error:
        return str(error)
    if done.returncode in NOT_STARTED or done.returncode < 0:
        return f"{done.returncode}: {done.stderr.decode(errors='replace')[-200:]}"
    return ""


if __name__ == "__main__":
    main(sys.argv[1:])
