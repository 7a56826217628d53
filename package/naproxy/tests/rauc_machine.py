"""RAUC itself, with slots that are files, a boot loader that is a script, and its own D-Bus.

Bundles are made with `rauc bundle`. Real is all but the hardware: slots are plain files, which
slot runs is said on the service's command line, and a restart is another service.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.patience import wait_for

BOARD = "naproxy-raspberrypi"
_LOADER = """#!/bin/sh
# What a boot loader keeps: which slot is first, and whether a slot may be started.
case $1 in
get-primary) cat {0}/primary ;;
set-primary) echo "$2" >{0}/primary; echo good >{0}/state-"$2" ;;
get-state) cat {0}/state-"$2" ;;
set-state) echo "$3" >{0}/state-"$2" ;;
esac
"""


def usable() -> str | None:
    """Say why RAUC cannot be used here."""
    if os.geteuid() != 0:
        return "RAUC mounts bundles: that needs root"
    missing = [p for p in ("rauc", "mksquashfs", "openssl", "dbus-daemon") if not shutil.which(p)]
    return f"not installed: {', '.join(missing)}" if missing else None


class Signer:
    """A key and its certificate."""

    def __init__(self, directory: Path, name: str) -> None:
        self.key, self.certificate = directory / f"{name}.key", directory / f"{name}.crt"
        subprocess.run(
            [
                *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "3650"),
                *("-subj", f"/CN={name}", "-keyout", self.key, "-out", self.certificate),
            ],
            check=True,
            capture_output=True,
        )


def bundle(
    file: Path,
    signer: Signer,
    *,
    version: str = "9.0.0",
    board: str = BOARD,
    kib: int = 256,
) -> Path:
    """Make a bundle with an image of random bytes."""
    content = file.with_suffix(".content")
    content.mkdir()
    (content / "rootfs.img").write_bytes(os.urandom(kib << 10))
    (content / "manifest.raucm").write_text(
        f"[update]\ncompatible={board}\nversion={version}\ndescription=A test\nbuild=7\n"
        "[image.rootfs]\nfilename=rootfs.img\n"
    )
    subprocess.run(
        ["rauc", "bundle", f"--cert={signer.certificate}", f"--key={signer.key}", content, file],
        check=True,
        capture_output=True,
    )
    shutil.rmtree(content)
    return file


class RaucMachine:
    """A machine with two slots, A and B, that `boot` starts."""

    def __init__(self, directory: Path, signer: Signer) -> None:
        self.directory = directory
        self.conf = directory / "system.conf"
        self.slots = {"A": directory / "slot-a", "B": directory / "slot-b"}
        self._processes: list[subprocess.Popen[bytes]] = []
        self._address = f"unix:path={directory}/bus"
        loader = directory / "loader"
        loader.write_text(_LOADER.format(directory))
        loader.chmod(0o755)
        (directory / "primary").write_text("A\n")
        for name, file in self.slots.items():
            (directory / f"state-{name}").write_text("good\n")
            with file.open("wb") as empty:
                empty.truncate(64 << 20)
        (directory / "mnt").mkdir()
        self.conf.write_text(
            f"[system]\ncompatible={BOARD}\nbootloader=custom\n"
            f"statusfile={directory}/status\nmountprefix={directory}/mnt\n"
            f"[handlers]\nbootloader-custom-backend={loader}\n"
            f"[keyring]\npath={signer.certificate}\n"
            f"[slot.rootfs.0]\ndevice={self.slots['A']}\ntype=raw\nbootname=A\n"
            f"[slot.rootfs.1]\ndevice={self.slots['B']}\ntype=raw\nbootname=B\n"
        )

    def environment(self) -> dict[str, str]:
        """Return what leads `rauc` to our service instead of the system's."""
        return {"DBUS_STARTER_BUS_TYPE": "session", "DBUS_SESSION_BUS_ADDRESS": self._address}

    def boot(self, slot: str = "A") -> None:
        """Start the service of a machine that runs this slot, in the place of the one before."""
        self.shut_down()
        self._popen(["dbus-daemon", "--session", "--nofork", f"--address={self._address}"])
        wait_for((self.directory / "bus").exists, "the bus")
        self._popen(["rauc", f"--conf={self.conf}", f"--override-boot-slot={slot}", "service"])
        wait_for(self._answers, "RAUC's service")

    def primary(self) -> str:
        """Return which slot the boot loader would start."""
        return (self.directory / "primary").read_text().strip()

    def _popen(self, argv: list[str]) -> None:
        environment = {**os.environ, **self.environment()}
        with (self.directory / "rauc.log").open("ab") as log:
            self._processes.append(subprocess.Popen(argv, env=environment, stdout=log, stderr=log))

    def _answers(self) -> bool:
        done = subprocess.run(
            ["rauc", f"--conf={self.conf}", "status"],
            env={**os.environ, **self.environment()},
            capture_output=True,
            check=False,
        )
        return done.returncode == 0

    def shut_down(self) -> None:
        """End bus and service."""
        for process in reversed(self._processes):
            process.terminate()
            process.wait(10)
        self._processes.clear()
        (self.directory / "bus").unlink(missing_ok=True)
