"""A past that is made once and used again while it is young and the code is the same."""

import hashlib
import shutil
import subprocess
import sys
import time
from pathlib import Path

import naproxy

from tests.office.namespace import ROOT

CACHE = ROOT / "build/past"
YOUNG_S = 1800.0
_CODE = (Path(naproxy.__file__).parent, Path(__file__).parent)


def start(days: float, log: Path | None = None) -> "subprocess.Popen[str] | None":
    """Begin to make it in the background; None if there is one that will do."""
    if _young(days, log):
        return None
    fresh = _place(days, log).with_name(f"{_place(days, log).name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    named = ["--log", str(log)] if log else []
    return subprocess.Popen(
        [sys.executable, "-m", "tests.past", str(fresh), "--days", str(days), *named],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def finish(
    making: "subprocess.Popen[str] | None", days: float, data_dir: Path, log: Path | None = None
) -> None:
    """Wait for it and copy it to `data_dir`; RuntimeError if it could not be made."""
    place = _place(days, log)
    if making:
        said, _ = making.communicate()
        if making.returncode:
            raise RuntimeError(f"the past could not be made: {said}")
        shutil.rmtree(place, ignore_errors=True)
        place.with_name(f"{place.name}.new").rename(place)
    data_dir.mkdir(parents=True, exist_ok=True)
    shutil.copy(place / "history.db", data_dir)


def fill(data_dir: Path, days: float, log: Path | None = None) -> None:
    """Put a past into `data_dir`."""
    finish(start(days, log), days, data_dir, log)


def _place(days: float, log: Path | None) -> Path:
    name = hashlib.sha256(str(log.resolve() if log else "").encode())
    for directory in _CODE:
        for file in sorted(directory.rglob("*.py")):
            name.update(f"{file} {file.stat().st_mtime_ns}".encode())
    return CACHE / f"{days:g}-{name.hexdigest()[:12]}"


def _young(days: float, log: Path | None) -> bool:
    for old in CACHE.glob("*"):
        if time.time() - old.stat().st_mtime > YOUNG_S:
            shutil.rmtree(old, ignore_errors=True)
    file = _place(days, log) / "history.db"
    return file.exists()
