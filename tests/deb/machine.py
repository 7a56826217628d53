"""A Debian that boots systemd in a container: this machine's kernel, no network but its own."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.patience import wait_for
from tests.simulator.office.namespace import ROOT

BUILD = ROOT / "build/deb"
BEFORE = "0.0.1"
"""The version that others are upgrades of."""
_SPAWN = ("systemd-nspawn", "--quiet", "--boot", "--register=no", "--keep-unit")


class RefusedError(AssertionError):
    """A command in the machine that failed, with what it said."""


def make_fresh(release: str) -> Path:
    """Return the archive of a fresh Debian: no more than apt, systemd and curl."""
    archive = BUILD / f"fresh-{release}.tar"
    if archive.exists():
        return archive
    new = archive.with_suffix(".new.tar")
    settings = BUILD / "fresh.conf"
    settings.write_text(_output("apt-config", "dump", "Acquire"))
    include = "systemd-sysv,dbus,ca-certificates,curl,iproute2,procps,openssl"
    _output(
        *("mmdebstrap", "--quiet", "--variant=minbase", f"--include={include}"),
        *(f"--aptopt={settings}", release, str(new)),
    )
    return new.rename(archive)


def packages(release: str) -> list[Path]:
    """Return what `make deb` has built for a release."""
    found = sorted((BUILD / release).glob("*.deb"))
    assert found, f"no packages for {release}: make deb"
    return found


class Machine:
    """A container; `with` boots it and takes it away."""

    def __init__(self, release: str):
        """Unpack a fresh Debian, and bring there what is to be installed."""
        self.release = release
        self.root = Path(tempfile.mkdtemp(prefix=f"naproxy-{release}.", dir="/var/tmp"))
        self._spawned: subprocess.Popen[bytes] | None = None
        self.log = (BUILD / f"{release}-machine.log").open("wb")
        archives = BUILD / f"archives-{release}"
        (archives / "partial").mkdir(parents=True, exist_ok=True)
        _output("tar", "-C", str(self.root), "-xf", str(make_fresh(release)))
        (self.root / "etc/hostname").write_text("office-box\n")
        (self.root / "etc/hosts").write_text("127.0.0.1 localhost office-box\n::1 localhost\n")
        self._bring(packages(release), archives)

    def _bring(self, built: Sequence[Path], archives: Path) -> None:
        """Put the packages, older ones, and what apt downloads for them, where apt finds them."""
        new, old = self.root / "new", self.root / "old"
        new.mkdir()
        old.mkdir()
        for file in built:
            shutil.copy(file, new)
            older(file, old)
        shutil.copy("/etc/resolv.conf", self.root / "etc/resolv.conf")
        cache = self.root / "var/cache/apt/archives"
        for file in archives.glob("*.deb"):
            shutil.copy(file, cache)
        # Only now it has a network.
        _output(
            *("unshare", "--mount", "sh", "-ec"),
            'mount -t proc proc "$1/proc"; mount --rbind /dev "$1/dev"; exec chroot "$1" sh -ec '
            '"apt-get -qq update; apt-get -qq -y --download-only install /new/*.deb"',
            *("sh", str(self.root)),
        )
        for file in cache.glob("*.deb"):
            if not (archives / file.name).exists():
                shutil.copy(file, archives)

    def __enter__(self) -> Machine:
        """Boot."""
        self._boot()
        return self

    def _boot(self) -> None:
        self._spawned = subprocess.Popen(
            [
                *(*_SPAWN, "--private-network", "--console=read-only"),
                *(f"--directory={self.root}", f"--machine=deb-{self.release}-{os.getpid()}"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=subprocess.STDOUT,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"},
        )
        wait_for(lambda: self.state() in ("running", "degraded"), "the machine to boot", 120)

    def __exit__(self, *_: object) -> None:
        """Switch off, and forget it."""
        if self._spawned:
            self._spawned.terminate()
            self._spawned.wait(60)
        self.log.close()
        shutil.rmtree(self.root)

    def state(self) -> str:
        """Return what systemd says of all: `running` if nothing has failed."""
        return self.run("systemctl is-system-running", check=False).strip()

    def _first(self) -> int | None:
        """Return the number here of its first process, if there is one."""
        assert self._spawned
        assert self._spawned.poll() is None, "the machine has ended; see build/deb/*-machine.log"
        number = self._spawned.pid
        children = Path(f"/proc/{number}/task/{number}/children").read_text().split()
        return int(children[0]) if children else None

    def run(self, command: str, *, check: bool = True, timeout_s: float = 600) -> str:
        """Run a shell's command as root in it; returns what it printed."""
        first = self._first()
        if first is None:
            return ""
        done = subprocess.run(
            [
                *("nsenter", "-t", str(first), "-m", "-u", "-i", "-n", "-p", "-r", "-w"),
                *("env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"),
                *("DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8", "sh", "-c", command),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        if check and done.returncode:
            raise RefusedError(f"{command}: exit status {done.returncode}\n{done.stdout}")
        return done.stdout

    def write(self, path: str, text: str) -> None:
        """Write a file in it."""
        self.run(f"printf %s {shlex.quote(text)} >{path}")

    def reboot(self) -> None:
        """Start it anew."""
        assert self._spawned
        self.run("systemctl --no-block reboot")
        self._spawned.wait(120)
        self._boot()


def older(package: Path, folder: Path) -> None:
    """Write the same package under a lower version."""
    with tempfile.TemporaryDirectory() as place:
        _output("dpkg-deb", "-R", str(package), place)
        control = Path(place, "DEBIAN/control")
        version = _output("dpkg-deb", "-f", str(package), "Version").strip()
        control.write_text(control.read_text().replace(version, BEFORE))
        _output("dpkg-deb", "-Zgzip", "-z1", "-b", place, str(folder))


def _output(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{argv[0]}: {done.stdout}{done.stderr}"
    return done.stdout
