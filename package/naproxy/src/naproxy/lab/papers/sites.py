"""The websites of the papers' experiments, as files for any web server.

`python -m naproxy.lab.papers.sites FOLDER` writes `gallery/`, the photo gallery of table I in 000,
`pages/`, pages of 200 bytes to 30 kB as in 003, and for each a list of its paths. The content is
random but always the same, so that no server compresses it and every run can be checked by bytes.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

GALLERY: Final = (
    ("html", 1, 728),
    ("css", 21, 27_000),
    ("js", 27, 201_100),
    ("png", 60, 11_900),
    ("jpg", 132, 2_385_360),
)
"""Ending, number and bytes in all, of table I; its kilobytes are taken as 1000 bytes."""

PAGES: Final = (200, 500, 1_000, 2_000, 5_000, 10_000, 30_000)
"""Bytes of the pages: 003 varies them from 200 bytes to 30 kB."""


def gallery() -> Iterator[tuple[str, int]]:
    """Yield path and bytes of each of the gallery's 241 files; table I adds them up to 240."""
    for ending, count, total in GALLERY:
        for number in range(count):
            share = total // count + (number < total % count)
            yield ("index.html" if ending == "html" else f"{number:03}.{ending}"), share


def write(folder: Path) -> None:
    """Write both sites and their lists."""
    sites = {"gallery": list(gallery()), "pages": [(f"{size}.html", size) for size in PAGES]}
    for name, files in sites.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        for path, size in files:
            (folder / name / path).write_bytes(_content(f"{name}/{path}", size))
        paths = "".join(f"/{name}/{path}\n" for path, _ in files)
        (folder / f"{name}.txt").write_text(paths)


def _content(name: str, size: int) -> bytes:
    chance = random.Random(name)  # noqa: S311 - the same bytes on each machine, not a secret
    return chance.randbytes(size)


def main(argv: Sequence[str] | None = None) -> int:
    """Write the sites."""
    parser = argparse.ArgumentParser(description="Write the websites of the papers' experiments.")
    parser.add_argument("folder", type=Path)
    write(parser.parse_args(argv).folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
