"""Bundles that a box must refuse, or fall back from: made of a good one, by RAUC itself."""

from __future__ import annotations

import configparser
import io
import os
import shutil
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.image_vm.disks import DiskError, run

MANIFEST: Final = "manifest.raucm"
_SIZE: Final = struct.Struct(">Q")
"""A bundle ends with the length of its signature, behind the signature."""
_MADE_BY_RAUC: Final = ("sha256", "size", "verity-hash", "verity-salt", "verity-size")

Change = Callable[[Path], None]
"""Breaks a root file system that lies unpacked there."""


@dataclass(frozen=True, slots=True)
class Signer:
    """A key and its certificate."""

    key: Path
    certificate: Path


def stranger(directory: Path) -> Signer:
    """Make a key that no box knows."""
    key, certificate = directory / "stranger.key", directory / "stranger.crt"
    run(
        *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30"),
        *("-subj", "/CN=A stranger", "-keyout", key, "-out", certificate),
    )
    return Signer(key, certificate)


class Workshop:
    """Makes bundles of a good one in a directory of its own. Needs root, for a system's owners."""

    def __init__(self, good: Path, directory: Path, signer: Signer) -> None:
        self.good = good
        self._directory = directory
        self._signer = signer
        self._manifest = read_manifest(run("unsquashfs", "-cat", good, MANIFEST).decode())
        self._image = self._manifest["image.rootfs"]["filename"]

    def unsigned(self) -> Path:
        """Cut the signature off."""
        data = self.good.read_bytes()
        (length,) = _SIZE.unpack(data[-_SIZE.size :])
        if not 0 < length < len(data) - _SIZE.size:
            raise DiskError(f"{self.good} has no signature")
        return self._written("unsigned", data[: -_SIZE.size - length])

    def truncated(self) -> Path:
        """Leave half of it."""
        data = self.good.read_bytes()
        return self._written("truncated", data[: len(data) // 2])

    def changed(self) -> Path:
        """Change a byte in the middle of the system, with the signature as it was."""
        data = bytearray(self.good.read_bytes())
        data[len(data) // 2] ^= 0xFF
        return self._written("changed", bytes(data))

    def signed_by(self, signer: Signer, name: str = "stranger") -> Path:
        """Sign what is in it with another key."""
        return self._bundle(name, self._system(), {}, signer)

    def for_board(self, compatible: str) -> Path:
        """Say that it is for another board."""
        return self._bundle("other-board", self._system(), {"compatible": compatible})

    def broken(self, name: str, change: Change, version: str) -> Path:
        """Break its system."""
        root = self._directory / f"{name}-root"
        run("unsquashfs", "-quiet", "-no-progress", "-dest", root, self._system())
        change(root)
        system = self._directory / f"{name}.squashfs"
        run("mksquashfs", root, system, "-quiet", "-no-progress", "-noappend", "-comp", "gzip")
        shutil.rmtree(root)
        made = self._bundle(name, system, {"version": version})
        system.unlink()
        return made

    def _system(self) -> Path:
        """Return the good bundle's root file system."""
        out = self._directory / "good"
        if not out.exists():
            run("unsquashfs", "-quiet", "-no-progress", "-dest", out, self.good, self._image)
        return out / self._image

    def _bundle(
        self, name: str, system: Path, update: dict[str, str], signer: Signer | None = None
    ) -> Path:
        by = signer or self._signer
        content = self._directory / f"{name}-content"
        content.mkdir()
        os.link(system, content / self._image)
        with (content / MANIFEST).open("w") as out:
            write_manifest(self._manifest, update, out)
        file = self._path(name)
        # rauc does not overwrite.
        file.unlink(missing_ok=True)
        run("rauc", "bundle", f"--cert={by.certificate}", f"--key={by.key}", content, file)
        shutil.rmtree(content)
        return file

    def _written(self, name: str, data: bytes) -> Path:
        file = self._path(name)
        file.write_bytes(data)
        return file

    def _path(self, name: str) -> Path:
        return self._directory / f"{name}.raucb"


def read_manifest(text: str) -> dict[str, dict[str, str]]:
    """Read a manifest by sections; DiskError if it has no root file system."""
    parser = _parser()
    parser.read_string(text)
    if not parser.has_option("image.rootfs", "filename"):
        raise DiskError("the bundle has no image for rootfs")
    return {section: dict(parser[section]) for section in parser.sections()}


def write_manifest(
    manifest: dict[str, dict[str, str]], update: dict[str, str], out: io.TextIOBase
) -> None:
    """Write it with other words in [update], without what RAUC itself fills in."""
    parser = _parser()
    for section, keys in manifest.items():
        kept = {key: value for key, value in keys.items() if key not in _MADE_BY_RAUC}
        parser[section] = kept | (update if section == "update" else {})
    parser.write(out, space_around_delimiters=False)


def _parser() -> configparser.ConfigParser:
    made = configparser.ConfigParser(interpolation=None, delimiters=("=",))
    made.optionxform = str  # type: ignore[assignment,method-assign]
    return made


# What is broken


def panics(root: Path) -> None:
    """The kernel finds no init, and panics."""
    for name in ("sbin/init", "etc/init", "bin/init", "linuxrc", "bin/sh"):
        (root / name).unlink(missing_ok=True)


def no_kernel(root: Path) -> None:
    """The boot loader finds a kernel that is none."""
    [kernel] = (file for file in (root / "boot").iterdir() if file.name in ("bzImage", "Image"))
    kernel.write_bytes(b"not a kernel")


def init_hangs(root: Path) -> None:
    """Nothing is started: init itself waits for ever."""
    _script(root / "sbin/init", "while :; do sleep 3600; done")


def start_hangs(root: Path) -> None:
    """Init runs; the first start script never comes to an end."""
    _script(root / "etc/init.d/S00hang", "while :; do sleep 3600; done")


def varnish_ends(root: Path) -> None:
    """All runs but Varnish, which ends as soon as it is started, again and again."""
    _script(root / "usr/sbin/vinyld", "exit 1")


def _script(file: Path, does: str) -> None:
    """Put a shell script in place of a program, or where none was in its folder."""
    if not file.parent.is_dir():
        raise DiskError(f"the system has no folder for {file}")
    file.unlink(missing_ok=True)
    file.write_text(f"#!/bin/sh\n{does}\n")
    file.chmod(0o755)
