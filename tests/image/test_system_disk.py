"""How the box treats its card."""

from pathlib import Path

from tests.image.standin import START, Disk, switched_on


def test_times_of_files_cost_the_card_no_writes_of_their_own(tmp_path: Path) -> None:
    """What docs/history.md says is written in an hour was measured with these options."""
    disk = Disk(tmp_path / "disk", START + 32 * 2048, 32 * 2048)
    disk.format()
    with switched_on(tmp_path / "box", disk) as box:
        options = box.sh("grep ' /data ' /proc/mounts").split()[3].split(",")
    assert {"rw", "noatime", "lazytime"} <= set(options)
