"""What a release consists of, with the real bmaptool, xz and openssl."""

import hashlib
import json
import lzma
import os
import re
import runpy
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from .test_bundle import Authority, call, openssl

TOP = Path(__file__).resolve().parents[2]
release = SimpleNamespace(**runpy.run_path(str(TOP / "board/common/release.py")))
"""A program, in no package."""

BOARD = "raspberrypi4-64"
CHANGELOG = """# Changes

## Unreleased

- Later.

## 1.2.3, 2026-11-20

- Mended.

## 1.2.2, 2026-11-01

"""


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """What a build of one board leaves: a disk with a hole, an update, a list of parts."""
    built = tmp_path / BOARD / "images"
    built.mkdir(parents=True)
    with (built / f"naproxy-{BOARD}.img").open("wb") as disk:
        disk.write(b"boot" * 1024)
        disk.truncate(1 << 20)
    (built / f"naproxy-{BOARD}-1.2.3.raucb").write_bytes(b"update")
    (tmp_path / BOARD / "sbom.cdx.json").write_text("{}")
    return tmp_path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "made"
    made.mkdir()
    return made


def test_the_notes_are_the_changelogs_section() -> None:
    assert release.notes(CHANGELOG, "1.2.3") == ("- Mended.", "2026-11-20")


@pytest.mark.parametrize("version", ["1.2.4", "1.2.2", "Unreleased"])
def test_no_release_without_notes(version: str) -> None:
    with pytest.raises(release.ReleaseError, match=re.escape(version)):
        release.notes(CHANGELOG, version)


@pytest.mark.parametrize(
    ("version", "said"), [("1.2", "like 1.2.3"), ("../1", "like 1.2.3"), ("9.9.9", "CHANGELOG")]
)
def test_what_is_wrong_is_said_before_anything_is_built(
    tmp_path: Path, version: str, said: str
) -> None:
    code, output = call(TOP / "board/common/release.py", tmp_path, version, BOARD)
    assert code == 1
    assert said in output
    assert not list(tmp_path.iterdir())


def test_the_newest_version_of_the_changelog_is_the_programs() -> None:
    versions = re.findall(r"^## (\d\S+),", (TOP / "CHANGELOG.md").read_text(), re.M)
    text = (TOP / "package/naproxy/src/naproxy/__init__.py").read_text()
    assert f'__version__ = "{versions[0]}"' in text


def test_the_list_for_imager_is_true_of_the_image(
    images: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RELEASE_URL", "https://example.org/1.2.3/")
    system = release.collect(images, BOARD, "1.2.3", folder)
    packed = (folder / f"naproxy-{BOARD}-1.2.3.img.xz").read_bytes()
    disk = lzma.decompress(packed)
    assert json.loads(json.dumps(system)) == {
        "name": "Naproxy 1.2.3, Raspberry Pi 4",
        "description": "Puts a web server to sleep while nobody needs it, and wakes it up",
        "url": f"https://example.org/1.2.3/naproxy-{BOARD}-1.2.3.img.xz",
        "extract_size": len(disk),
        "extract_sha256": hashlib.sha256(disk).hexdigest(),
        "image_download_size": len(packed),
        "image_download_sha256": hashlib.sha256(packed).hexdigest(),
        "init_format": "none",
    }


def test_bmaptool_writes_the_image_to_a_card(
    images: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RELEASE_URL", "https://example.org")
    release.collect(images, BOARD, "1.2.3", folder)
    card = images / "card"
    card.write_bytes(bytes(1 << 20))
    packed = folder / f"naproxy-{BOARD}-1.2.3.img.xz"
    code, said = call("bmaptool", "copy", packed, card)
    assert code == 0, said
    assert card.read_bytes() == (images / BOARD / "images" / f"naproxy-{BOARD}.img").read_bytes()


def test_the_checksums_are_signed_by_the_releases_key(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path / "authority", "Example")
    for name, value in authority.environment().items():
        monkeypatch.setenv(name, value)
    (folder / "a file").write_bytes(b"of the release")
    release.sign(folder)
    subprocess.run(["sha256sum", "-c", "--quiet", "SHA256SUMS"], cwd=folder, check=True)
    sums = folder / "SHA256SUMS"
    verify = (
        *("cms", "-verify", "-binary", "-inform", "PEM", "-purpose", "any"),
        *("-CAfile", authority.ca, "-in", f"{sums}.p7s"),
    )
    openssl(*verify, "-content", sums, "-out", os.devnull)
    sums.write_text(sums.read_text().replace("a file", "another"))
    assert call("openssl", *verify, "-content", sums, "-out", os.devnull)[0] != 0


PINNED = ("requirements.txt", "home-assistant.txt")
"""What pip installs from."""


def test_what_builds_a_release_is_pinned_by_hash_and_by_commit() -> None:
    """A name or a tag can be given to other code; a hash cannot."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=TOP, capture_output=True, text=True, check=True
    )
    files = [TOP / name for name in listed.stdout.splitlines()]
    for file in (each for each in files if each.name in PINNED):
        blocks = re.sub(r"\\\n *", " ", file.read_text()).splitlines()
        for line in (each for each in blocks if each and not each.startswith("#")):
            assert re.fullmatch(r"[\w.-]+==\S+( ; [^-]+)?( +--hash=sha256:[0-9a-f]{64})+", line), (
                line
            )
    for file in (each for each in files if each.parent.name == "workflows"):
        for used in re.findall(r"uses: *(\S+)", file.read_text()):
            assert used.startswith("./") or re.search(r"@[0-9a-f]{40}$", used), (file.name, used)
