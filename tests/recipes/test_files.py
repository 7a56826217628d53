"""Samba past the box; a cloud's and a calendar's own clients through it, across sleeps."""

import os
import time
from pathlib import Path

from naproxy.core.reason import reason_of

from tests.patience import wait_for
from tests.recipes.clients import EVENT
from tests.recipes.place import Place
from tests.simulator.office.box import RefusedError

MB = 1 << 20


def ordered(at: Place) -> None:
    try:
        at.office.box.api("POST", "/v1/servers/web/sleep", {})
    except RefusedError:
        return


def test_all_that_runs_on_the_server_stops_when_it_sleeps(asleep: Place) -> None:
    server = asleep.office.server
    assert server.freezer
    stopped = set(server.freezer.pids())
    programs = {Path(f"/proc/{pid}/comm").read_text().strip() for pid in stopped}
    assert {"mariadbd", "smbd", "radicale"} <= programs
    [board] = set(server.pids()) - stopped
    assert "mainboard" in Path(f"/proc/{board}/cmdline").read_text()


def test_a_copy_to_the_share_is_not_cut_by_a_sleep(awake: Place, tmp_path: Path) -> None:
    """It takes some seconds, and the box wants to put the server to sleep all the time."""
    box, whole = awake.office.box, os.urandom(24 * MB)
    (tmp_path / "copy").write_bytes(whole)
    tc = ("tc", "qdisc", "replace", "dev", "eth0", "root", "tbf", "rate", "60mbit")
    awake.office.client.run([*tc, "burst", "64k", "latency", "50ms"])
    try:
        copy = awake.samba.start(f"put {tmp_path}/copy copy")
        wait_for((awake.samba.share / "copy").exists, "the copy to begin")
        codes: set[str] = set()
        while copy.poll() is None:
            ordered(awake)
            for each in box.status()["inhibitors"]:
                codes.update(reason_of(each).codes())
            assert awake.office.server.board.state == "on"
            time.sleep(0.2)
    finally:
        awake.office.client.run(["tc", "qdisc", "del", "dev", "eth0", "root"])
    assert copy.returncode == 0
    assert (awake.samba.share / "copy").read_bytes() == whole
    assert "sleep.busy_files" in codes
    awake.asleep()


def test_what_was_copied_before_a_sleep_is_read_after_it(asleep: Place, tmp_path: Path) -> None:
    (tmp_path / "kept").write_bytes(whole := os.urandom(MB))
    asleep.office.box.wake()
    asleep.samba.run(f"put {tmp_path}/kept kept")
    asleep.asleep()
    asleep.office.box.wake()
    asleep.samba.run(f"get kept {tmp_path}/again")
    assert (tmp_path / "again").read_bytes() == whole


def test_the_desktop_client_of_a_cloud_wakes_it_and_syncs_both_ways(asleep: Place) -> None:
    cloud = asleep.cloud
    (cloud.here / "mine").write_bytes(mine := os.urandom(12 * MB))
    (cloud.files / "theirs").write_bytes(theirs := os.urandom(1000))
    cloud.sync()
    assert asleep.office.server.board.state == "on"
    assert (cloud.files / "mine").read_bytes() == mine
    assert (cloud.here / "theirs").read_bytes() == theirs
    asleep.asleep()
    (cloud.here / "theirs").unlink()
    cloud.sync()
    assert not (cloud.files / "theirs").exists()


def test_rclone_copies_to_a_cloud_that_sleeps(asleep: Place, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(whole := os.urandom(MB))
    asleep.cloud.rclone("copy", tmp_path, "office:rclone")
    assert (asleep.cloud.files / "rclone/a").read_bytes() == whole
    asleep.asleep()
    asleep.cloud.rclone("copyto", "office:rclone/a", tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == whole


def test_a_calendar_is_synced_with_a_server_that_sleeps(asleep: Place) -> None:
    for uid in ("one", "two"):
        (asleep.calendar.events / f"{uid}.ics").write_text(EVENT.format(uid=uid))
        asleep.calendar.sync()
        assert uid in asleep.calendar.kept()
        asleep.asleep()
