"""The writer is killed and its power is cut, at random moments that a seed chooses.

CUTS=n for another number of each.
"""

import ctypes
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from naproxy.history.tables import FILE

from tests.powercut.check import KILL_COSTS_S, POWER_CUT_COSTS_S, end_s, transitions
from tests.powercut.writer import PAUSE_S, START_S, Progress, Run, write_on

CUTS = int(os.environ.get("CUTS", "200"))
BLOCK_BYTES = 512
LOG = FILE + "-wal"
LOG_HEAD_BYTES = 32


# ------------------------------------------------------------ the process is killed


def test_a_kill_costs_at_most_one_batch_and_no_transition(tmp_path: Path) -> None:
    chosen = random.Random(1)
    progress = Progress(tmp_path / "progress")
    costs_s: list[int] = []
    for _ in range(CUTS):
        before_s = progress.begun_s
        kill_after(chosen.randrange(20, 400), tmp_path, progress, chosen.uniform(0, 0.002))
        # What the run before lost is not this one's.
        costs_s.append(progress.begun_s - max(end_s(tmp_path, before_s), before_s + PAUSE_S))
        if progress.changed_s > START_S:
            # The kill may come between a transition and the word of it.
            assert progress.changed_s in transitions(tmp_path, progress.changed_s)
    print(f"{CUTS} kills in {progress.begun_s - START_S} s cost at most {max(costs_s)} s")
    assert max(costs_s) <= KILL_COSTS_S


def kill_after(lived_s: int, data_dir: Path, progress: Progress, late_s: float) -> None:
    """A writer, forked to be quick about it, is killed when it has lived so long in its time."""
    end_s = progress.begun_s + lived_s
    pid = os.fork()
    if pid == 0:
        try:
            write_on(data_dir, progress)
        finally:
            os._exit(1)
    while progress.begun_s < end_s:
        assert os.waitpid(pid, os.WNOHANG) == (0, 0), "the writer ended by itself"
        time.sleep(0.0005)
    time.sleep(late_s)
    os.kill(pid, signal.SIGKILL)
    assert os.waitpid(pid, 0)[1] == signal.SIGKILL


# ------------------------------- a disk that has kept any part of what was not synced


def test_any_part_of_what_was_not_synced_may_be_lost(tmp_path: Path) -> None:
    chosen = random.Random(2)
    running, cut = tmp_path / "running", tmp_path / "cut"
    running.mkdir()
    run = Run(running, START_S)
    costs_s: list[int] = []
    synced_s, kept = START_S, dict[str, bytes]()
    while len(costs_s) < CUTS:
        for _ in range(chosen.randrange(1, 200)):
            if run.step() and run.history.sync_due:
                run.history.sync()
                synced_s, kept = run.now_s, files(running)
        if not kept:
            continue
        shutil.rmtree(cut, ignore_errors=True)
        cut.mkdir()
        for name, content in files(running).items():
            (cut / name).write_bytes(mixed(name, kept.get(name, b""), content, chosen))
        costs_s.append(run.now_s - end_s(cut, synced_s - 300))
    print(f"{CUTS} cuts in {run.now_s - START_S} s cost at most {max(costs_s)} s")
    assert max(costs_s) > 0
    assert max(costs_s) <= POWER_CUT_COSTS_S


def files(directory: Path) -> dict[str, bytes]:
    """What is in the files; the index in shared memory is not on the disk."""
    return {f.name: f.read_bytes() for f in directory.iterdir() if not f.name.endswith("-shm")}


def mixed(name: str, old: bytes, new: bytes, chosen: random.Random) -> bytes:
    """Each sector as it was at the last sync or as it is now, in no order.

    The head of the side file is synced by SQLite itself before what it describes is written.
    """
    share = chosen.random()
    size = len(new) if chosen.random() < 0.7 else chosen.randrange(len(old), len(new) + 1)
    made = bytearray(old.ljust(size, b"\0")[:size])
    for at in range(0, size, BLOCK_BYTES):
        if chosen.random() < share:
            made[at : at + BLOCK_BYTES] = new[at : min(at + BLOCK_BYTES, size)]
    if name == LOG:
        made[:LOG_HEAD_BYTES] = new[:LOG_HEAD_BYTES]
    return bytes(made)


# ------------------------------------- the file system is taken as the device has it


@contextmanager
def mounted(image: Path, directory: Path) -> Iterator[str]:
    """An image of ext4, mounted; the loop device's name."""
    directory.mkdir(exist_ok=True)
    subprocess.run(["mount", "-o", "loop,noatime,lazytime", str(image), str(directory)], check=True)
    try:
        find = ["findmnt", "-n", "-o", "SOURCE", str(directory)]
        yield Path(subprocess.check_output(find, text=True).strip()).name
    finally:
        subprocess.run(["umount", str(directory)], check=True)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    made = tmp_path / "image"
    with made.open("wb") as file:
        file.truncate(24 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(made)], check=True)
    try:
        with mounted(made, tmp_path / "disk"):
            pass
    except subprocess.CalledProcessError:
        pytest.skip("no loop device can be mounted here")
    return made


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_the_file_system_a_power_cut_leaves_has_all_but_the_last_minutes(
    tmp_path: Path, image: Path
) -> None:
    chosen = random.Random(3)
    costs_s: list[int] = []
    progress = Progress(tmp_path / "progress")
    with mounted(image, tmp_path / "disk") as device:
        files_of = [str(tmp_path / "disk"), str(tmp_path / "progress")]
        command = [sys.executable, "-m", "tests.powercut.writer", *files_of, "0.002"]
        writer = subprocess.Popen(command)
        try:
            while progress.synced_s == START_S:
                assert writer.poll() is None
                time.sleep(0.01)
            for number in range(CUTS):
                # Its own file: a loop device that is slow to go would show what it had read.
                snapshot = tmp_path / f"snapshot{number}"
                time.sleep(chosen.uniform(0, 0.03))
                if chosen.random() < 0.5:
                    write_back(tmp_path / "disk" / LOG)
                # What it has written goes on to the disk, or not; it only writes no more.
                writer.send_signal(signal.SIGSTOP)
                begun_s, synced_s = take(image, snapshot, device, progress)
                writer.send_signal(signal.SIGCONT)
                with mounted(snapshot, tmp_path / "found"):
                    end = end_s(tmp_path / "found", synced_s - 300)
                assert end >= synced_s, f"{snapshot} is kept"
                snapshot.unlink()
                costs_s.append(begun_s - end)
            assert writer.poll() is None
        finally:
            writer.kill()
            writer.wait()
    print(f"{CUTS} cuts in {progress.begun_s - START_S} s cost at most {max(costs_s)} s")
    assert max(costs_s) <= POWER_CUT_COSTS_S


def take(image: Path, snapshot: Path, device: str, progress: Progress) -> tuple[int, int]:
    """Copy the device while nothing reaches it; what the writer had come to before."""
    statistics = Path(f"/sys/block/{device}/stat")
    for _ in range(1000):
        before = statistics.read_text().split()
        at = progress.begun_s, progress.synced_s
        shutil.copyfile(image, snapshot)
        after = statistics.read_text().split()
        if before[4] == after[4] and before[8] == after[8] == "0":
            return at
    raise AssertionError("the device is never at rest")


def write_back(file: Path) -> None:
    """Have the kernel write a file's pages, as it does by itself now and then: no sync."""
    with file.open("rb") as opened:
        ctypes.CDLL(None).sync_file_range(
            opened.fileno(), ctypes.c_int64(0), ctypes.c_int64(0), ctypes.c_uint(7)
        )
