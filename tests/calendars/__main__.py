"""Reads every calendar of four public test suites; ends with 1 if one is silently read otherwise.

What the suites hold is not part of this repository: it is got at pinned commits, into build.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Final

from naproxy.server import ical

from tests.calendars.compare import ZONE, Found, Read, Spans, compared

_HERE: Final = Path(__file__).parent
_PLACE: Final = _HERE.parents[1] / "build/calendars"
_SUITES: Final = {
    "niccokunzmann/python-recurring-ical-events": "170036d2eb0c0bf512a55b2549bbf313bc316a67",
    "collective/icalendar": "851cb47758689b54781c0712186d1d9e2ec57dd5",
    "kewisch/ical.js": "926193a28ed90deeabe34d6be178d7d2a53ae6e3",
    "ical4j/ical4j": "73e8192b171104c2fdfd5bb2311bb37837f4241f",
}


def _get(name: str, sources: str) -> Path:
    """Return the folder of a suite; it is got unless it is there already."""
    place, commit = _PLACE / name.replace("/", "+"), _SUITES[name]
    done = place / f".{commit}"
    if not done.exists():
        place.mkdir(parents=True, exist_ok=True)
        source = sources.format(owner=name.partition("/")[0], name=name.partition("/")[2])
        for words in (
            ["init", "-q"],
            ["fetch", "-q", "--depth=1", source, commit],
            ["checkout", "-q", "--force", "--detach", "FETCH_HEAD"],
        ):
            subprocess.run(["git", "-C", str(place), *words], check=True)
        done.touch()
    return place


def _files(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*.ics")):
        if path.is_file() and not path.is_symlink():
            data = path.read_bytes()
            if b"BEGIN:VEVENT" in data.upper().replace(b"\0", b""):
                yield str(path.relative_to(folder)), data


def _kind(found: Found, explained: bool) -> str:
    if found.said:
        return "refused or doubted, in words"
    if found.differs:
        return "read otherwise, explained" if explained else "silently wrong"
    return "read, the library cannot" if found.reference else "read"


def _shown(spans: Spans) -> str:
    return ", ".join(
        " to ".join(f"{datetime.fromtimestamp(t_s, ZONE):%Y-%m-%d %H:%M}" for t_s in span)
        for span in sorted(spans)[:3]
    )


def _reader(path: str) -> Read:
    """Return `read` of another version's server/ical.py."""
    if not path:
        return ical.read
    spec = importlib.util.spec_from_file_location("another_ical", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["another_ical"] = module
    spec.loader.exec_module(module)
    read: Read = module.read
    return read


def main() -> int:
    """Compare, and say what differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sources", default="https://github.com/{owner}/{name}.git")
    parser.add_argument("--reader", default="", help="another version's server/ical.py")
    given = parser.parse_args()
    explained = tomllib.loads((_HERE / "explained.toml").read_text())
    read, wrong = _reader(given.reader), 0
    for name in _SUITES:
        counted: Counter[str] = Counter()
        reasons = explained.get(name, {})
        for path, data in _files(_get(name, given.sources)):
            found = compared(data, read)
            kind = _kind(found, path in reasons)
            counted[kind] += 1
            if found.differs:
                why = found.said or reasons.get(path, "NOT EXPLAINED")
                print(f"{name}: {path}: {why}")
                for what, spans in (("only here", found.more), ("only there", found.less)):
                    if spans:
                        print(f"    {what} {len(spans)}: {_shown(spans)}")
        wrong += counted["silently wrong"]
        print(f"{name}: {counted.total()} files with events: {dict(counted)}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
