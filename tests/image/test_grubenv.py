"""GRUB's memory as RAUC's service on the box writes it: twice, each copy in its place."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.image.grub_disk import environment

TOP = Path(__file__).resolve().parents[2]
TOOL = TOP / "overlay/usr/lib/naproxy/loader/grub-editenv"
FACTORY = {"ORDER": "A B", "A_OK": "1", "B_OK": "0", "A_TRY": "0", "B_TRY": "0"}
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"

pytestmark = pytest.mark.skipif(not shutil.which("grub-editenv"), reason="no grub-editenv")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The first of two copies as the image has them."""
    for name in ("grubenv", "grubenv2"):
        (tmp_path / name).write_bytes(environment(tmp_path, **FACTORY))
    return tmp_path / "grubenv"


def other(file: Path) -> Path:
    return file.with_name("grubenv2")


def tool(file: Path, *arguments: str | Path, path: str = PATH) -> str:
    done = subprocess.run(
        ["/bin/sh", TOOL, file, *arguments],
        check=False,
        capture_output=True,
        text=True,
        env={"LOADER_PATH": path},
    )
    return done.stdout if done.returncode == 0 else f"refused: {done.stderr.strip()}"


def memory(file: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in tool(file, "list").splitlines())


def as_grub_reads(file: Path) -> dict[str, str]:
    said = subprocess.run(
        ["grub-editenv", file, "list"], check=True, capture_output=True, text=True
    )
    return dict(line.split("=", 1) for line in said.stdout.splitlines())


def test_rauc_hears_of_tries_only_when_none_is_left(file: Path) -> None:
    """It takes a system that was tried for one that cannot start."""
    for tries, told in (("0", "0"), ("1", "0"), ("2", "0"), ("3", "3")):
        tool(file, "set", f"A_TRY={tries}", f"B_TRY={tries}")
        said = tool(file, "list").splitlines()
        assert {f"A_TRY={told}", f"B_TRY={told}"} <= set(said), tries
        assert as_grub_reads(file)["A_TRY"] == tries


def test_what_rauc_sets_is_in_both_copies(file: Path) -> None:
    tool(file, "set", "B_OK=1", "B_TRY=0", "ORDER=B A")
    assert memory(file) == FACTORY | {"ORDER": "B A", "B_OK": "1"}
    assert file.read_bytes() == other(file).read_bytes()


def test_a_copy_is_never_emptied(file: Path, tmp_path: Path) -> None:
    """In its place: the same file, opened without making it shorter."""
    said = tmp_path / "opened"
    subprocess.run(
        ["strace", "-f", "-qq", "-e", "trace=openat", "-o", said, TOOL, file, "set", "A_TRY=0"],
        check=True,
        capture_output=True,
        env={"LOADER_PATH": PATH},
    )
    opened = [line for line in said.read_text().splitlines() if f'"{tmp_path}/grubenv' in line]
    assert sum("O_WRONLY" in line or "O_RDWR" in line for line in opened) == 2
    assert not any("O_TRUNC" in line for line in opened)


@pytest.mark.parametrize("damage", [None, b"", bytes(1024), os.urandom(1024), b"x" * 5000])
@pytest.mark.parametrize("copy", ["grubenv", "grubenv2"])
def test_one_copy_is_enough_and_the_other_is_repaired(
    file: Path, copy: str, damage: bytes | None
) -> None:
    damaged = file.with_name(copy)
    damaged.unlink()
    if damage is not None:
        damaged.write_bytes(damage)
    assert memory(file) == FACTORY
    tool(file, "repair", "A", "none")
    assert file.read_bytes() == other(file).read_bytes()
    assert memory(file) == FACTORY


def test_repair_leaves_what_can_be_read(file: Path) -> None:
    tool(file, "set", "A_TRY=2")
    before = file.read_bytes()
    tool(file, "repair", "B", "none")
    assert (file.read_bytes(), other(file).read_bytes()) == (before, before)


def test_what_cannot_be_read_is_not_changed_by_halves(file: Path) -> None:
    for copy in (file, other(file)):
        copy.write_bytes(b"?")
    assert "can be read" in tool(file, "set", "B_OK=1")
    assert (file.read_bytes(), other(file).read_bytes()) == (b"?", b"?")


@pytest.mark.parametrize(
    ("runs", "status", "known"),
    [
        ("A", None, ("A B", "1", "0")),
        ("B", None, ("B A", "1", "1")),
        ("A", "[slot.rootfs.1]\nbundle.version=2\nstatus=ok\n", ("A B", "1", "1")),
        ("A", "[slot.rootfs.1]\nstatus=pending\n", ("A B", "1", "0")),
        ("B", "[slot.rootfs.0]\nstatus=pending\n\n[slot.rootfs.1]\nstatus=ok\n", ("B A", "0", "1")),
        ("B", "[slot.rootfs.0]\nstatus=ok\n\n[slot.rootfs.1]\nstatus=ok\n", ("B A", "1", "1")),
    ],
)
def test_when_all_is_forgotten_what_runs_and_what_rauc_wrote_counts(
    tmp_path: Path, runs: str, status: str | None, known: tuple[str, str, str]
) -> None:
    file = tmp_path / "grub/grubenv"
    if status is not None:
        (tmp_path / "status").write_text(status)
    tool(file, "repair", runs, tmp_path / "status")
    said = memory(file)
    assert (said["ORDER"], said["A_OK"], said["B_OK"]) == known
    assert as_grub_reads(file)[f"{runs}_TRY"] == "1"
    assert file.read_bytes() == other(file).read_bytes()


def test_without_knowing_what_runs_nothing_is_made_up(tmp_path: Path) -> None:
    assert "no slot" in tool(tmp_path / "grubenv", "repair", "", "none")
    assert not (tmp_path / "grubenv").exists()


@pytest.mark.skipif(not shutil.which("busybox"), reason="no busybox")
def test_the_boxs_own_programs_will_do(file: Path, tmp_path: Path) -> None:
    applets = tmp_path / "applets"
    applets.mkdir()
    for name in ("sh", "dd", "sed", "grep", "wc", "mktemp", "cp", "rm", "dirname", "mkdir", "cat"):
        (applets / name).symlink_to(shutil.which("busybox") or "")
    path = f"{applets}:{PATH}"
    tool(file, "set", "B_OK=1", path=path)
    file.write_bytes(b"")
    tool(file, "repair", "A", "none", path=path)
    assert memory(file) == FACTORY | {"B_OK": "1"}
