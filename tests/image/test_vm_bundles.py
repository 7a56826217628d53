"""The bundles a box must refuse are wrong in just the way they are meant to be."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.image_vm import bundles
from tests.image_vm.bundles import Change, Signer, Workshop, stranger
from tests.image_vm.disks import run

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("rauc"),
    reason="needs root and rauc",
)

MANIFEST = (
    "[update]\ncompatible=naproxy-test\nversion=1.0\n[bundle]\nformat=verity\n"
    "[image.rootfs]\nfilename=rootfs.squashfs\n"
)


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Signer:
    return stranger(tmp_path_factory.mktemp("key"))


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, signer: Signer) -> Workshop:
    """A good bundle with a system of a few files, as large as it takes to cut it in two."""
    place = tmp_path_factory.mktemp("shop")
    root = place / "root"
    for name in ("sbin/init", "etc/init.d/rcS", "boot/bzImage", "usr/sbin/vinyld"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(os.urandom(20_000))
    content = place / "content"
    content.mkdir()
    run("mksquashfs", root, content / "rootfs.squashfs", "-quiet", "-no-progress")
    (content / "manifest.raucm").write_text(MANIFEST)
    good = place / "good.raucb"
    run("rauc", "bundle", f"--cert={signer.certificate}", f"--key={signer.key}", content, good)
    (place / "shop").mkdir()
    return Workshop(good, place / "shop", signer)


def looked_at(bundle: Path, signer: Signer) -> tuple[bool, str]:
    """Whether RAUC takes it, and what it says."""
    done = subprocess.run(
        ["rauc", "info", f"--keyring={signer.certificate}", "--output-format=shell", bundle],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("make", [Workshop.unsigned, Workshop.truncated])
def test_one_without_its_signature_is_refused(
    shop: Workshop, signer: Signer, make: Callable[[Workshop], Path]
) -> None:
    assert not looked_at(make(shop), signer)[0]


def test_one_signed_by_another_key_is_good_but_for_that(
    shop: Workshop, signer: Signer, tmp_path: Path
) -> None:
    other = stranger(tmp_path)
    made = shop.signed_by(other)
    assert looked_at(made, other)[0]
    taken, said = looked_at(made, signer)
    assert not taken
    assert "signature" in said.lower()


def test_one_for_another_board_is_good_but_for_that(shop: Workshop, signer: Signer) -> None:
    taken, said = looked_at(shop.for_board("naproxy-other"), signer)
    assert taken
    assert "naproxy-other" in said


def test_a_changed_one_differs_in_one_byte(shop: Workshop) -> None:
    pairs = zip(shop.good.read_bytes(), shop.changed().read_bytes(), strict=True)
    assert sum(before != after for before, after in pairs) == 1


@pytest.mark.parametrize(
    ("change", "there"),
    [
        (bundles.init_hangs, ("sbin/init", b"#!/bin/sh\nwhile")),
        (bundles.start_hangs, ("etc/init.d/S00hang", b"#!/bin/sh\nwhile")),
        (bundles.varnish_ends, ("usr/sbin/vinyld", b"#!/bin/sh\nexit 1")),
        (bundles.no_kernel, ("boot/bzImage", b"not a kernel")),
    ],
)
def test_a_broken_one_is_well_signed_and_broken_there(
    shop: Workshop, signer: Signer, change: Change, there: tuple[str, bytes], tmp_path: Path
) -> None:
    file, begins = there
    made = shop.broken("broken", change, "99.0.1")
    taken, said = looked_at(made, signer)
    assert taken
    assert "99.0.1" in said
    run("unsquashfs", "-quiet", "-dest", tmp_path / "out", made, "rootfs.squashfs")
    run("unsquashfs", "-quiet", "-dest", tmp_path / "fs", tmp_path / "out/rootfs.squashfs")
    assert (tmp_path / "fs" / file).read_bytes().startswith(begins)


@pytest.mark.parametrize("kernel", ["bzImage", "Image"])
def test_a_kernel_that_is_none_is_the_boards(kernel: str, tmp_path: Path) -> None:
    (tmp_path / "boot/broadcom").mkdir(parents=True)
    (tmp_path / "boot" / kernel).write_bytes(b"MZ")
    bundles.no_kernel(tmp_path)
    assert (tmp_path / "boot" / kernel).read_bytes() == b"not a kernel"
    assert len(list((tmp_path / "boot").iterdir())) == 2
