"""The box's start: disks, first boot, power cuts, what was asked for on the boot partition."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from naproxy.server.inhibitors import CLOCK_SET_S

from tests.image.standin import OVERLAY, SECTOR, START, Disk, StandIn, started, switched_on
from tests.patience import wait_for
from tests.simulator.office.namespace import Namespace, ip

DATA = 32 * 2048
CARD = START + 96 * 2048
"""Sectors of the data partition that the image brings, and of the card it was written to."""


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    made = Disk(tmp_path / "disk", CARD, DATA)
    made.format()
    return made


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandIn]:
    """A new box, for tests that only look."""
    folder = tmp_path_factory.mktemp("new")
    disk = Disk(folder / "disk", CARD, DATA)
    disk.format()
    with switched_on(folder / "box", disk) as made:
        yield made


def boot_again(tmp_path: Path, disk: Disk, script: str, name: str = "again") -> str:
    with switched_on(tmp_path / name, disk) as again:
        return again.sh(script)


def test_the_data_partition_takes_the_rest_of_the_card(box: StandIn) -> None:
    before = b"\xfa" * 440 + b"NAPR\0\0"
    assert box.disk
    kept, first, count = box.disk.table()
    assert (first, first + count) == (START, CARD)
    assert kept[:446] == before


def test_its_file_system_is_made_to_follow_while_it_is_in_use(tmp_path: Path, disk: Disk) -> None:
    """The kernel's part needs a capability that a container may lack: `make test-image` has it."""
    box = StandIn(tmp_path / "box", disk)
    box.program("usr/sbin/resize2fs", 'grep "^$1 /data ext4 rw" /proc/mounts >/tmp/resized')
    with started(box):
        wait_for(lambda: "/dev/vda4" in box.sh("cat /tmp/resized"), "the call")


def test_a_card_that_is_full_is_left_alone(tmp_path: Path) -> None:
    disk = Disk(tmp_path / "disk", START + DATA, DATA)
    disk.format()
    before = disk.path.read_bytes()[:SECTOR]
    with switched_on(tmp_path / "box", disk):
        pass
    assert disk.path.read_bytes()[:SECTOR] == before


def test_a_table_that_came_out_wrong_is_put_back(tmp_path: Path, disk: Disk) -> None:
    before = disk.path.read_bytes()[:SECTOR]
    box = StandIn(tmp_path / "box", disk)
    shell = box.files / "usr/lib/naproxy/disk.sh"
    wrong = 'fdisk() { dd if=/dev/zero of="$2" bs=512 count=1 conv=notrunc; }\n'
    shell.write_text(wrong + shell.read_text())
    with started(box):
        assert "could not be made larger" in box.kmsg()
    assert disk.path.read_bytes()[:SECTOR] == before


def test_what_the_box_makes_of_itself_stays(tmp_path: Path, disk: Disk) -> None:
    look = "cat /etc/machine-id; stat -c %a /data/etc/naproxy.toml; touch /data/naproxy/kept"
    first = boot_again(tmp_path, disk, look, "one")
    second = boot_again(tmp_path, disk, look + "; ls /data/naproxy", "two")
    assert len(first.split()[0]) == 32
    assert second.startswith(first)
    assert second.split()[1] == "600"


def test_every_box_is_another(box: StandIn, tmp_path: Path, disk: Disk) -> None:
    assert boot_again(tmp_path, disk, "cat /etc/machine-id") != box.sh("cat /etc/machine-id")


@pytest.mark.parametrize(("stands_s", "put"), [(12, True), (10**9, True), (1_783_000_000, False)])
def test_a_clock_without_a_battery_begins_where_varnish_runs_and_it_is_not_set(
    stands_s: int, put: bool, tmp_path: Path, disk: Disk
) -> None:
    box = StandIn(tmp_path / "box", disk)
    shell = box.files / "usr/lib/naproxy/clock.sh"
    date = f'date() {{ if [ "$*" = +%s ]; then echo {stands_s}; else echo "$@" >>/run/put; fi; }}\n'
    shell.write_text(date + shell.read_text())
    with started(box):
        said = box.sh("[ ! -e /run/put ] || cat /run/put").split()
    if not put:
        assert said == []
        return
    option, at = said
    assert option == "-s"
    assert 10**9 < int(at.removeprefix("@")) < CLOCK_SET_S


def test_its_name_is_made_of_its_address(box: StandIn) -> None:
    assert box.sh("hostname") == "naproxy-c0ffee\n"


def test_its_certificate_waits_for_an_adapter_that_comes_late(tmp_path: Path, disk: Disk) -> None:
    box = StandIn(tmp_path / "box", disk)
    box.program("usr/sbin/naproxy-certificate", "hostname >/tmp/certified")
    with started(box):
        box.sh("hostname naproxy; mv /sys/class/net/eth0 /tmp")
        box.sh("/etc/service/lighttpd/run >/dev/null 2>&1 & mv /tmp/eth0 /sys/class/net")
        name = wait_for(lambda: box.sh("cat /tmp/certified 2>/dev/null || :"), "the certificate")
    assert name == "naproxy-c0ffee\n"


@pytest.mark.long
def test_an_adapter_that_comes_later_still_brings_another_certificate(
    tmp_path: Path, disk: Disk
) -> None:
    box = StandIn(tmp_path / "box", disk)
    box.program("usr/sbin/naproxy-certificate", "hostname >/data/naproxy-webui-tls/naproxy.pem")
    box.program("usr/bin/sv", 'echo "$@" >/tmp/asked')
    with started(box):
        box.sh("hostname naproxy; mv /sys/class/net/eth0 /tmp; mkdir -p /data/naproxy-webui-tls")
        box.sh("/etc/service/chores/run >/dev/null 2>&1 & sleep 1; mv /tmp/eth0 /sys/class/net")
        asked = wait_for(lambda: box.sh("cat /tmp/asked 2>/dev/null || :"), "another certificate")
        name = box.sh("cat /data/naproxy-webui-tls/naproxy.pem")
    assert (asked, name) == ("restart lighttpd\n", "naproxy-c0ffee\n")


def test_a_power_cut_while_a_file_was_made_leaves_a_box_that_starts(
    tmp_path: Path, disk: Disk
) -> None:
    halves = ("/data/overlay/etc/machine-id", "/data/etc/naproxy.toml")
    cut = "; ".join(f": >{half}; echo x >{half}.new" for half in halves)
    assert boot_again(tmp_path, disk, cut, "one") == ""
    said = boot_again(tmp_path, disk, "cat /etc/machine-id /data/etc/naproxy.toml", "two")
    assert len(said.splitlines()[0]) == 32
    assert 'interface = "eth0"' in said


def test_a_journal_that_was_cut_off_is_replayed(tmp_path: Path, disk: Disk) -> None:
    box = StandIn(tmp_path / "one", disk)
    box.boot()
    box.sh("echo word >/data/naproxy/kept; sync")
    picture = (tmp_path / "disk").read_bytes()  # while it is mounted, as a cut leaves it
    box.off()
    (tmp_path / "disk").write_bytes(picture)
    assert boot_again(tmp_path, disk, "cat /data/naproxy/kept") == "word\n"


def test_a_damaged_file_system_is_repaired(tmp_path: Path, disk: Disk) -> None:
    boot_again(tmp_path, disk, "echo word >/data/naproxy/kept", "one")
    with disk.path.open("r+b") as file:
        file.seek((START * SECTOR) + 1024)
        superblock = bytearray(file.read(1024))
        superblock[58] |= 2  # s_state: has errors
        superblock[96] ^= 0xFF  # s_feature_incompat, so that the checksum is wrong, too
        file.seek((START * SECTOR) + 1024)
        file.write(superblock)
    assert boot_again(tmp_path, disk, "cat /data/naproxy/kept") == "word\n"


def test_without_its_data_the_box_serves_and_says_so(tmp_path: Path) -> None:
    disk = Disk(tmp_path / "disk", CARD, DATA)  # never formatted
    with switched_on(tmp_path / "box", disk) as box:
        assert "/data is in memory and will be forgotten" in box.kmsg()
        assert box.sh("cat /run/naproxy-system/data-problem").startswith("/dev/vda4: ")
        assert box.sh("test -s /data/etc/naproxy.toml && ls -d /run/service/varnish") != ""
        assert box.sh("ls -d /run/service/logcopy 2>/dev/null") == ""
    found = disk.path.read_bytes()[(START * SECTOR) :]
    assert not any(found), "nothing is formatted"


@pytest.mark.parametrize("damaged", [True, False])
def test_spare_settings_count_only_without_the_data(
    damaged: bool, tmp_path: Path, disk: Disk
) -> None:
    if damaged:
        disk = Disk(tmp_path / "disk", CARD, DATA)  # never formatted
    (files := tmp_path / "bootpart").mkdir()
    (files / "naproxy-settings.toml").write_text("# spare\n")
    with switched_on(tmp_path / "box", disk, boot_files=files) as box:
        assert (box.sh("cat /data/etc/naproxy.toml") == "# spare\n") == damaged


def test_a_reset_waits_for_the_data_it_is_to_forget(tmp_path: Path) -> None:
    disk = Disk(tmp_path / "disk", CARD, DATA)  # never formatted
    (files := tmp_path / "bootpart").mkdir()
    for name in ("naproxy-reset", "naproxy-settings.toml"):
        (files / name).write_text("# spare\n")
    with switched_on(tmp_path / "box", disk, boot_files=files) as box:
        assert box.sh("ls /bootpart").split() == ["naproxy-reset", "naproxy-settings.toml"]
        assert "factory reset: it waits" in box.kmsg()


def test_a_reset_is_asked_for_on_the_boot_partition(tmp_path: Path, disk: Disk) -> None:
    boot_again(tmp_path, disk, "touch /data/naproxy/old", "one")
    (files := tmp_path / "bootpart").mkdir()
    for name in ("naproxy-reset", "naproxy-settings.toml"):
        (files / name).touch()
    with switched_on(tmp_path / "box", disk, boot_files=files) as box:
        assert box.sh("ls /bootpart /data/naproxy") == "/bootpart:\n\n/data/naproxy:\nsystem\n"


def test_a_reset_that_cannot_be_written_down_waits_and_the_start_goes_on(
    tmp_path: Path, disk: Disk
) -> None:
    (files := tmp_path / "bootpart").mkdir()
    (files / "naproxy-reset").touch()
    boot_again(tmp_path, disk, "touch /data/naproxy/kept", "one")
    box = StandIn(tmp_path / "box", disk, files)
    shell = box.files / "usr/lib/naproxy/disk.sh"
    shell.write_text(shell.read_text().replace("mount -t ext4 -o ", "mount -t ext4 -o ro,"))
    box.program("usr/sbin/resize2fs", "touch /tmp/resized")
    with started(box):
        assert "factory reset: nothing can be written on /data" in box.kmsg()
        assert box.sh("ls /bootpart /data/naproxy/kept").split() == [
            "/data/naproxy/kept",
            "/bootpart:",
            "naproxy-reset",
        ]
        wait_for(lambda: "/tmp/resized" in box.sh("ls /tmp/resized"), "the rest of the start")


def test_without_a_disk_the_box_serves_and_says_so(tmp_path: Path) -> None:
    with switched_on(tmp_path / "box") as box:
        assert "the disk of this system was not found" in box.kmsg()
        assert box.sh("ls -d /run/service/controller") == "/run/service/controller\n"


def test_a_file_that_would_hide_a_newer_system_is_set_aside(tmp_path: Path, disk: Disk) -> None:
    boot_again(tmp_path, disk, "echo old >/etc/nftables.conf", "one")
    with switched_on(tmp_path / "two", disk) as box:
        assert "flush ruleset" in box.sh("cat /etc/nftables.conf")
        assert box.sh("cat /data/overlay/set-aside/nftables.conf") == "old\n"
        assert "was set aside" in box.kmsg()


OWN = (
    "naproxy/ssh/id_ed25519",
    "naproxy/ssh/known_hosts",
    "naproxy/agent.key",
    "naproxy/commands/mine",
    "ssh/ssh_host_ed25519_key",
)


def test_what_the_box_made_below_etc_is_there_after_a_restart(tmp_path: Path, disk: Disk) -> None:
    make = (f"mkdir -p $(dirname /etc/{own}); echo {own} >/etc/{own}" for own in OWN)
    boot_again(tmp_path, disk, "; ".join(make), "one")
    with switched_on(tmp_path / "two", disk) as box:
        for own in OWN:
            assert box.sh(f"cat /etc/{own}") == f"{own}\n"
        assert "was set aside" not in box.kmsg()


def test_the_image_has_nothing_where_the_box_keeps_its_keys() -> None:
    """What lies there on /data would hide it."""
    assert not (Path(__file__).resolve().parents[2] / "overlay/etc/naproxy").exists()


FIRST = {"controller", "network", "syslogd", "varnish"}


def test_what_pages_need_is_started_first_and_the_rest_when_varnish_answers(
    tmp_path: Path, disk: Disk
) -> None:
    boot_again(tmp_path, disk, "echo servers >/data/naproxy/page", "one")
    box = StandIn(tmp_path / "box", disk, pages_s=30)
    try:
        box.boot()
        assert set(box.sh("ls /run/service").split()) == FIRST
        box.net.popen([sys.executable, "-m", "http.server", "80"])
        wait_for(lambda: "webui" in box.sh("ls /run/service"), "the rest")
    finally:
        box.off()


def test_without_an_answer_of_varnish_the_rest_is_started_all_the_same(
    tmp_path: Path, disk: Disk
) -> None:
    boot_again(tmp_path, disk, "echo servers >/data/naproxy/page", "one")
    with switched_on(tmp_path / "two", disk) as box:
        assert set(box.sh("ls /run/service").split()) > FIRST


def test_a_box_that_knows_no_server_waits_for_no_page(tmp_path: Path, disk: Disk) -> None:
    box = StandIn(tmp_path / "box", disk, pages_s=3600)
    try:
        box.boot()
        wait_for(lambda: "webui" in box.sh("ls /run/service"), "the rest")
    finally:
        box.off()


def test_a_service_is_laid_out_for_a_root_that_is_read_only() -> None:
    for run in OVERLAY.glob("etc/service/*/run"):
        folder, service = run.parent, run.parent.name
        assert folder.joinpath("supervise").readlink() == Path("/run/supervise", service)
        assert (folder / "finish").is_symlink() or (folder / "finish").is_file(), service
        # What makes the log cannot write to it.
        if service not in ("syslogd", "klogd"):
            log = folder / "log"
            assert (log / "supervise").readlink() == Path(f"/run/supervise/{service}.log")
            assert (log / "run").is_symlink() or (log / "run").is_file(), service


def test_a_reset_forgets_everything_but_the_box(tmp_path: Path, disk: Disk) -> None:
    boot_again(tmp_path, disk, "touch /data/naproxy/old; : >/data/.reset", "one")
    said = boot_again(tmp_path, disk, "ls -A /data /data/naproxy; test -s /data/etc/naproxy.toml")
    assert ".reset" not in said
    assert "old" not in said.split("/data/naproxy:")[1]


def test_a_reset_that_was_cut_off_goes_on(tmp_path: Path, disk: Disk) -> None:
    boot_again(tmp_path, disk, "touch /data/naproxy/old; rm -rf /data/etc; : >/data/.reset", "one")
    assert boot_again(tmp_path, disk, "ls /data/naproxy") == "system\n"


@pytest.fixture
def asked(tmp_path: Path, disk: Disk) -> Iterator[StandIn]:
    """A box on whose boot partition somebody has put files, with an editor of Windows."""
    files = tmp_path / "bootpart"
    files.mkdir()
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key"], check=True
    )
    key = (tmp_path / "key.pub").read_text().strip()
    (files / "ssh-authorized_keys").write_text(f"{key}\r\n")
    box = StandIn(tmp_path / "box", disk, files)
    box.boot()
    yield box
    box.off()


def test_ssh_is_off_until_asked_for(box: StandIn) -> None:
    assert box.sh("ls -d /run/service/sshd 2>/dev/null") == ""
    assert "22" not in box.sh("nft list set inet naproxy open").split("elements")[1]


def test_ssh_is_on_for_keys_on_the_boot_partition(asked: StandIn) -> None:
    assert asked.sh("ls -d /run/service/sshd") == "/run/service/sshd\n"
    assert "22" in asked.sh("nft list set inet naproxy open").split("elements")[1]
    assert "\r" not in asked.sh("cat /run/ssh/authorized_keys")
    assert asked.sh("stat -c '%a %U' /run/ssh/authorized_keys") == "600 root\n"


def test_the_kernel_knows_every_setting() -> None:
    lines = (OVERLAY / "etc/sysctl.conf").read_text()
    keys = [line.split(" = ")[0] for line in lines.splitlines() if " = " in line]
    assert keys
    for key in keys:
        # This machine's card may have another name.
        assert Path("/proc/sys", key.replace(".", "/").replace("eth0", "lo")).exists(), key


def test_nobody_tells_a_card_that_was_there_before_other_ways(tmp_path: Path) -> None:
    """IPv6 takes `default` for cards that come later only."""
    lines = (OVERLAY / "etc/sysctl.conf").read_text().splitlines()
    own = tmp_path / "sysctl.conf"  # the others are of this machine, not of a namespace
    own.write_text("".join(f"{line}\n" for line in lines if line.startswith("net.")))
    net = Namespace(f"np-sysctl-{os.getpid()}", tmp_path)
    ip("netns", "add", net.name)
    try:
        ip("-n", net.name, "link", "add", "eth0", "type", "veth", "peer", "other")
        net.run(["busybox", "sysctl", "-q", "-p", own])
        for version in ("ipv4", "ipv6"):
            file = f"/proc/sys/net/{version}/conf/eth0/accept_redirects"
            assert net.run(["cat", file]).stdout == "0\n", version
    finally:
        ip("netns", "delete", net.name)


def test_what_is_run_may_be_run() -> None:
    patterns = ("etc/init.d/*", "etc/service/*/*", "etc/service/*/log/run")
    for path in (path for each in patterns for path in OVERLAY.glob(each) if path.is_file()):
        assert path.stat().st_mode & 0o111, path
        assert path.read_text().startswith("#!/bin/sh\n"), path
