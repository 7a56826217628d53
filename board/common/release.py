#!/usr/bin/env python3
"""A release: every board's image, its update, what is in it, and checksums that are signed.

    release.py IMAGES VERSION [BOARD...]    makes IMAGES/release-VERSION; without BOARD: of all

It refuses before it builds anything if the release has no section in CHANGELOG.md, if the
program calls itself by another version, if something is not committed, or without RELEASE_KEY,
RELEASE_CERT (docs/update.md) and RELEASE_URL: where the files will be downloaded from, for the list
that Raspberry Pi Imager reads. With BUILT set, IMAGES has what an earlier build of VERSION left.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_TOP = _HERE.parents[1]
_VERSION = re.compile(r"\d+\.\d+\.\d+")
_ITSELF = re.compile(r'^__version__ = "(.*)"$', re.M)
_PACKAGE = "package/naproxy/src/naproxy/__init__.py"
_SECTION = re.compile(r"^## (\S+)(?:, (\d{4}-\d\d-\d\d))?$", re.M)


class ReleaseError(ValueError):
    """Why there is no release, and what to do about it."""


def notes(changelog: str, version: str) -> tuple[str, str]:
    """Give what the changelog says of a version, and its day (YYYY-MM-DD).

    Raises ReleaseError if it has no section `## VERSION, YYYY-MM-DD`, or an empty one.
    """
    sections = list(_SECTION.finditer(changelog))
    for section, after in zip(sections, [*sections[1:], None], strict=True):
        if section[1] != version:
            continue
        text = changelog[section.end() : after.start() if after else None].strip()
        if not section[2] or not text:
            raise ReleaseError(f"CHANGELOG.md: the section of {version} has no day or no text")
        return text, section[2]
    raise ReleaseError(f"CHANGELOG.md has no section '## {version}, YYYY-MM-DD'")


def meta(board: str) -> dict[str, str]:
    """Give what board/BOARD/meta says."""
    lines = (_HERE.parent / board / "meta").read_text().splitlines()
    pairs = (line.split("=", 1) for line in lines if not line.startswith("#"))
    return {name: value.strip('"') for name, value in pairs}


def sha256(file: Path) -> str:
    """Give a file's SHA-256 in hexadecimal."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _run(*argv: str | Path) -> str:
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def check(version: str) -> tuple[str, str]:
    """Give notes and day of a release that may be made; ReleaseError says why it may not."""
    if not _VERSION.fullmatch(version):
        raise ReleaseError(f"VERSION={version}: a release is called like 1.2.3")
    text, day = notes((_TOP / "CHANGELOG.md").read_text(), version)
    itself = _ITSELF.findall((_TOP / _PACKAGE).read_text())
    if itself != [version]:
        raise ReleaseError(f"{_PACKAGE} says {' '.join(itself)}, not {version}")
    if changed := _run("git", "-C", _TOP, "status", "--porcelain"):
        raise ReleaseError(f"not committed:\n{changed}")
    for name in ("RELEASE_KEY", "RELEASE_CERT", "RELEASE_URL"):
        if not os.environ.get(name):
            raise ReleaseError(f"{name} is not set: docs/update.md, 'Making a release'")
    for program in ("bmaptool", "xz"):
        if not shutil.which(program):
            raise ReleaseError(f"there is no {program}: apt install bmap-tools xz-utils")
    return text, day


def collect(images: Path, board: str, version: str, into: Path) -> dict[str, object]:
    """Put a board's files into a folder; give what Raspberry Pi Imager's list says of its image.

    IMAGES/BOARD is what board/common/image made. The files are naproxy-BOARD-VERSION with .img.xz,
    .img.bmap, .raucb and .cdx.json.
    """
    built = images / board / "images"
    name = f"naproxy-{board}-{version}"
    image, packed = built / f"naproxy-{board}.img", into / f"{name}.img.xz"
    _run("bmaptool", "-q", "create", "-o", into / f"{name}.img.bmap", image)
    with packed.open("wb") as file:
        subprocess.run(["xz", "-c", "-T2", "-6", image], check=True, stdout=file)
    shutil.copy(built / f"{name}.raucb", into)
    shutil.copy(images / board / "sbom.cdx.json", into / f"{name}.cdx.json")
    return {
        "name": f"Naproxy {version}, {meta(board)['NAME']}",
        "description": "Puts a web server to sleep while nobody needs it, and wakes it up",
        "url": f"{os.environ['RELEASE_URL'].rstrip('/')}/{packed.name}",
        "extract_size": image.stat().st_size,
        "extract_sha256": sha256(image),
        "image_download_size": packed.stat().st_size,
        "image_download_sha256": sha256(packed),
        "init_format": "none",
    }


def sign(folder: Path) -> None:
    """Write SHA256SUMS of a folder's files, and its detached signature SHA256SUMS.p7s."""
    files = sorted(file for file in folder.iterdir() if not file.name.startswith("SHA256SUMS"))
    sums = folder / "SHA256SUMS"
    sums.write_text("".join(f"{sha256(file)}  {file.name}\n" for file in files))
    key, certificate = _run(_HERE / "keys", "key"), _run(_HERE / "keys", "certificate")
    _run(
        *("openssl", "cms", "-sign", "-binary", "-md", "sha256", "-outform", "PEM"),
        *("-signer", certificate, "-inkey", key, "-in", sums, "-out", f"{sums}.p7s"),
    )


def release(images: Path, version: str, boards: list[str]) -> Path:
    """Build, collect and sign; give the folder. No boards: all. ReleaseError says what is wrong."""
    text, day = check(version)
    known = _run(_HERE / "defconfig.py", "boards", _TOP / "configs").split()
    if unknown := set(boards) - set(known):
        raise ReleaseError(f"no board {', '.join(unknown)}: there are {', '.join(known)}")
    boards = boards or known
    for board in boards if not os.environ.get("BUILT") else []:
        print(f"release: {board}", flush=True)
        for what in ([], ["sbom"]):
            subprocess.run(
                [_HERE / "image", images, board, *what],
                check=True,
                env={**os.environ, "VERSION": version},
            )
    made = images / f"release-{version}"
    new = images / f"release-{version}.new"
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir()
    systems = []
    for board in boards:
        system = collect(images, board, version, new)
        if device := meta(board).get("IMAGER"):
            systems.append(system | {"release_date": day, "devices": [device]})
    if systems:
        (new / "naproxy-imager.json").write_text(json.dumps({"os_list": systems}, indent=2) + "\n")
    (new / "NOTES.md").write_text(f"# Naproxy {version}\n\n{text}\n")
    sign(new)
    shutil.rmtree(made, ignore_errors=True)
    return new.rename(made)


def main() -> int:
    """Make a release as the command line says."""
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    images, version, *boards = sys.argv[1:]
    try:
        made = release(Path(images).resolve(), version, boards)
    except (ReleaseError, subprocess.CalledProcessError) as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    for file in sorted(made.iterdir()):
        print(f"{file.stat().st_size:>12}  {file}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
