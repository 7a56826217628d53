"""A stand-in for the box: the image's files over this machine's programs, in namespaces.

Its start scripts run under BusyBox's shell and programs, on disks that are files. What only a
real boot shows (kernel, boot loader, our own build of every program) is for `make test-image`.
"""

import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from tests.patience import wait_for
from tests.simulator.office.namespace import Namespace, ip

TOP = Path(__file__).resolve().parents[2]
OVERLAY = TOP / "overlay"
SECTOR = 512
START = 2048
"""Where the last partition begins, in sectors."""

APPLETS = (
    "arping awk basename cat chmod chown cp cut date dd dirname echo env expr fdisk find getty "
    "grep "
    "head hostname id ip kill killall ln logger ls mkdir mktemp mount mountpoint mv od printf "
    "ps readlink rm sed sh sha256sum sleep sort stat sync sysctl syslogd tail test timeout touch "
    "tr udhcpc umount uname uniq wc xargs "
)
"""What the image takes from BusyBox and Debian's has, too."""

USERS = (
    "chrony:x:901\nmdns:x:902\nnaproxy:x:903\nnaproxy-webui:x:904\n"
    "naproxy-mqtt:x:905\nnaproxy-fleet:x:906\nnaproxy-edge:x:907\n"
    "naproxy-through:x:908\nnaproxy-read:x:909\n"
)

# Runs in namespaces of its own: WORK FILES TREE. Stays until it is killed.
IN_BOX = r"""
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs "$1"
mkdir "$1/files" "$1/box"
cp -a "$2/." "$1/files"
mount -t overlay -o "lowerdir=$1/files:/" overlay "$1/box"
mount --bind "$3" "$1/box/tree"
mount -o remount,ro,bind "$1/box/tree"  # what a box removes may be where the tree lies
dev=$1/box/dev
mount -t tmpfs -o mode=755 tmpfs "$dev"
for node in null:1:3 zero:1:5 full:1:7 random:1:8 urandom:1:9 tty:5:0; do
	IFS=: read -r name major minor <<END
$node
END
	mknod -m 666 "$dev/$name" c "$major" "$minor"
done
while read -r name minor; do
	mknod "$dev/$name" b 7 "$minor"
done <"$2/loops"
: >"$dev/kmsg"
: >"$1/ready"
exec chroot "$1/box" sleep 1000000
"""

# Runs in the box after S01mounts: what a kernel would say.
PRETEND = r"""#!/bin/sh
mount --bind /kernel/cmdline /proc/cmdline
mount -t tmpfs tmpfs /sys/class
cp -a /kernel/class/. /sys/class
mount --bind /proc/sys /proc/sys
mount --bind /proc/sys/net/ipv6 /proc/sys/net/ipv6  # of the box' own network
mount -o remount,ro,bind /proc/sys
mount -t tmpfs tmpfs /bootpart
cp -a /kernel/bootpart/. /bootpart
mkdir -p /run/sshd /var/lib/varnish
# The box' own /tmp and /run hide a tree that lies in this machine's.
[ -e "$(cat /kernel/tree)" ] || {
	mkdir -p "$(cat /kernel/tree)"
	mount --bind /tree "$(cat /kernel/tree)"
}
"""


class Disk:
    """A file with a partition table of which only the last partition is used: the data."""

    def __init__(self, path: Path, sectors: int, data_sectors: int) -> None:
        self.path = path
        self.sectors = sectors
        with path.open("wb") as file:
            file.write(self._table(data_sectors))
            file.truncate(sectors * SECTOR)
        self.loops: list[str] = []

    def _table(self, data_sectors: int) -> bytes:
        sizes = [(1, 1, 0x0C), (2, 1, 0x83), (3, 1, 0x83), (START, data_sectors, 0x83)]
        chs = b"\xfe\xff\xff"
        entries = [struct.pack("<B3sB3sII", 0, chs, kind, chs, at, n) for at, n, kind in sizes]
        return b"\xfa" * 440 + b"NAPR\0\0" + b"".join(entries) + b"\x55\xaa"

    def table(self) -> tuple[bytes, int, int]:
        """Return what is before the last entry; where the last partition begins, and its size."""
        sector = self.path.read_bytes()[:SECTOR]
        _, _, _, _, first, count = struct.unpack("<B3sB3sII", sector[494:510])
        return sector[:494], first, count

    def format(self) -> None:
        """Make the file system that the image brings."""
        _, first, count = self.table()
        subprocess.run(
            [
                *("mke2fs", "-q", "-t", "ext4"),
                *("-E", f"offset={first * SECTOR}", self.path, f"{count // 2}k"),
            ],
            check=True,
        )

    def attach(self) -> tuple[str, str]:
        """Return loop devices: the disk, and its last partition as its table has it."""
        _, first, count = self.table()
        part = ["-o", str(first * SECTOR), "--sizelimit", str(count * SECTOR)]
        self.loops = [
            subprocess.run(
                ["losetup", "-f", "--show", *options, self.path],
                check=True,
                capture_output=True,
                text=True,
            ).stdout.strip()
            for options in ([], part)
        ]
        return self.loops[0], self.loops[1]

    def detach(self) -> None:
        for loop in self.loops:
            subprocess.run(["losetup", "-d", loop], check=True)
        # A box that is killed unmounts its disk last, when it is in no list of processes any more.
        wait_for(lambda: not any(map(self._held, self.loops)), "the disk to be let go of")
        self.loops = []

    def _held(self, loop: str) -> bool:
        """Whether a loop device still has this file; another test may have the device by now."""
        try:
            file = Path("/sys/block", Path(loop).name, "loop/backing_file").read_text()
        except OSError:
            return False
        return file.rstrip("\n") == str(self.path.resolve())


class StandIn:
    """A box that is switched on once; `boot` runs its start scripts."""

    def __init__(
        self,
        work: Path,
        disk: Disk | None = None,
        boot_files: Path | None = None,
        pages_s: int = 0,
    ) -> None:
        """`pages_s`: how long all but what pages need waits for them at most."""
        self.work = work
        self.disk = disk
        self.files = work / "files"
        self.space = work / "space"
        self.space.mkdir(parents=True)
        self.net = Namespace(f"np-image-{os.getpid()}-{id(self):x}"[-32:], work)
        self._pid = 0
        shutil.copytree(OVERLAY, self.files, symlinks=True)
        services = self.files / "etc/init.d/S09services"
        services.write_text(
            services.read_text().replace("after_pages 30", f"after_pages {pages_s}")
        )
        self._pages_s = pages_s
        self._programs()
        self._users()
        self._kernel(boot_files)

    def _programs(self) -> None:
        binaries = self.files / "usr/bin"
        binaries.mkdir(exist_ok=True)
        for name in APPLETS.split():
            for folder in (binaries, self.files / "usr/sbin"):
                if not (folder / name).exists():
                    (folder / name).symlink_to("/usr/bin/busybox")
        self.program("usr/sbin/resizepart", "exit 1")  # loop devices have no partitions here
        self.program("usr/sbin/seedrng", ":")
        # Debian's BusyBox has no bound for its log.
        log = self.files / "etc/service/syslogd/run"
        log.write_text(log.read_text().replace(" -s 512 -b 1", ""))
        for name in ("localtime", "resolv.conf"):
            (self.files / "etc" / name).symlink_to(f"../run/{name}")
        (self.files / "etc/machine-id").write_text("")  # else this machine's
        for name in ("data", "bootpart", "kernel", "tree"):
            (self.files / name).mkdir()
        # A directory is as open as the upper of its layers says: services get at the tree in a
        # home that only its owner may enter.
        (self.files / TOP.relative_to("/")).mkdir(parents=True)
        self.program("etc/init.d/S01pretend", PRETEND.split("\n", 1)[1])

    def program(self, path: str, script: str) -> None:
        """Lay a program into the image."""
        file = self.files / path
        file.unlink(missing_ok=True)
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)

    def _users(self) -> None:
        etc = self.files / "etc"
        lines = USERS.splitlines()
        people = [f"{each}:{each.split(':')[2]}::/:/bin/false" for each in lines]
        (etc / "passwd").write_text(Path("/etc/passwd").read_text() + "\n".join(people) + "\n")
        groups = "\n".join(f"{each}:" for each in lines)
        (etc / "group").write_text(Path("/etc/group").read_text() + groups + "\n")

    def _kernel(self, boot_files: Path | None) -> None:
        kernel = self.files / "kernel"
        (kernel / "tree").write_text(f"{TOP}\n")
        (kernel / "cmdline").write_text("console=ttyS0 root=/dev/vda2 rauc.slot=A\n")
        block = kernel / "class/block"
        block.mkdir(parents=True)
        loops = []
        if self.disk:
            _, first, count = self.disk.table()
            devices = kernel / "devices/vda"
            for name, facts in (
                ("", {"size": self.disk.sectors}),
                ("vda2", {}),
                ("vda4", {"start": first, "size": count}),
            ):
                (devices / name).mkdir(parents=True, exist_ok=True)
                for fact, value in facts.items():
                    (devices / name / fact).write_text(f"{value}\n")
            for name in ("vda", "vda2", "vda4"):
                target = "/kernel/devices/vda" + (f"/{name}" if name != "vda" else "")
                (block / name).symlink_to(target)
            whole, part = self.disk.attach()
            loops = [("vda", whole), ("vda2", whole), ("vda4", part)]
        text = "".join(f"{name} {loop.removeprefix('/dev/loop')}\n" for name, loop in loops)
        (self.files / "loops").write_text(text)
        net = kernel / "class/net/eth0"
        net.mkdir(parents=True)
        (net / "address").write_text("02:00:5e:c0:ff:ee\n")
        shutil.copytree(boot_files, kernel / "bootpart") if boot_files else (
            kernel / "bootpart"
        ).mkdir()

    def on(self) -> None:
        """Switch it on: nothing runs yet."""
        ip("netns", "add", self.net.name)
        argv = ["unshare", "-mpuf", "--kill-child", "sh", "-c", IN_BOX, "sh"]
        outer = self.net.popen([*argv, self.space, self.files, TOP], log="box")
        children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children")

        def started() -> bool:
            words = children.read_text().split()
            if not words:
                return False
            self._pid = int(words[0])
            return Path(f"/proc/{self._pid}/comm").read_text() == "sleep\n"

        wait_for(started, "the namespaces of the box")

    def enter(self) -> list[str]:
        """Return what is put before a command that is to run in the box."""
        return ["nsenter", "-t", str(self._pid), "-m", "-u", "-n", "-p", "-r", "-w", "--"]

    def run(
        self, *argv: str, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a program in the box to its end."""
        return subprocess.run(
            [*self.enter(), *argv],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            stdin=subprocess.DEVNULL,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"} | (env or {}),
        )

    def sh(self, script: str) -> str:
        """Run a script in the box, with its shell; returns what it said, both ways."""
        done = self.run("sh", "-c", script)
        return done.stdout + done.stderr

    def boot(self) -> str:
        """Run what init runs once; returns what it said."""
        self.on()
        said = self.sh("/etc/init.d/rcS")
        if not self._pages_s:
            wait_for(lambda: self.sh("ls -d /run/service/webui 2>/dev/null"), "all services")
        return said

    def kmsg(self) -> str:
        """What was said on the console."""
        return self.sh("cat /dev/kmsg")

    def off(self) -> None:
        """Cut the power: everything in it is killed, what was written stays written."""
        self.net.end()
        ip("netns", "delete", self.net.name)
        if self.disk:
            self.disk.detach()


@contextmanager
def started(box: StandIn) -> Iterator[StandIn]:
    """Run a box' start scripts; afterwards its power is cut."""
    try:
        box.boot()
        yield box
    finally:
        box.off()


def switched_on(
    work: Path, disk: Disk | None = None, boot_files: Path | None = None
) -> AbstractContextManager[StandIn]:
    """Return a box that runs its start scripts; afterwards its power is cut."""
    return started(StandIn(work, disk, boot_files))
