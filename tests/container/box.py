"""The whole box in a container, on the network of the virtual office's box.

compose.yaml says how it runs, as for anybody: `network_mode: host` is the network of whoever starts
it, here a namespace. Only the base image is made here, so that no registry is asked.
"""

import contextlib
import json
import resource
import secrets
import subprocess
from pathlib import Path
from typing import Any, Self

from tests.patience import wait_for
from tests.simulator.office import Office
from tests.simulator.office.box import ADDRESS
from tests.simulator.office.namespace import ROOT, OfficeError
from tests.webui.first_run import CODE, NewBox

RELEASE = "trixie"
BASE = "localhost/naproxy-base"
IMAGE = "localhost/naproxy"
BUILD = ROOT / "build/container"


def podman(*argv: str | Path, timeout_s: float = 60, check: bool = True) -> str:
    """Run podman; returns what it prints."""
    done = subprocess.run(
        ["podman", *map(str, argv)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    if check and done.returncode:
        raise OfficeError(f"podman {argv[0]}: {done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done.stdout


def make_base() -> None:
    """Make a Debian as small as that of a registry, with this machine's way to its packages."""
    BUILD.mkdir(parents=True, exist_ok=True)
    if not podman("images", "-q", BASE):
        settings, archive = BUILD / "apt.conf", BUILD / "base.tar"
        dump = subprocess.run(["apt-config", "dump", "Acquire"], capture_output=True, check=True)
        settings.write_bytes(dump.stdout)
        # Its certificates are there before this machine's are laid over them.
        subprocess.run(
            [
                *("mmdebstrap", "--quiet", "--variant=minbase", "--include=ca-certificates"),
                *(f"--aptopt={settings}", RELEASE, archive),
            ],
            check=True,
        )
        podman("import", "-q", archive, BASE, timeout_s=300)
        archive.unlink()


def make_image(version: str) -> str:
    """Build the Containerfile as this version; returns the image's name."""
    image = f"{IMAGE}:{version}"
    podman(
        *("build", "--isolation=chroot", "--network=host", "-t", image),
        # This machine's certificates are its own, and not in the image.
        *("-v", "/etc/ssl/certs:/etc/ssl/certs:ro"),
        *("--build-arg", f"BASE={BASE}", "--build-arg", f"VERSION={version}", ROOT),
        timeout_s=3600,
    )
    return image


def macvlan(text: str, address: str) -> str:
    """Take the lines about an address of its own into compose.yaml, as its reader is to."""
    lines, inside = [], False
    for line in text.splitlines():
        comment = line.lstrip().startswith("# ")
        inside = comment and (inside or line.endswith("# networks:"))
        if not line.endswith("network_mode: host"):
            lines.append(line.replace("# ", "", 1) if inside else line)
    network = address.rpartition(".")[0]
    own = "\n".join(lines).replace("192.168.1.5", address)
    return own.replace("192.168.1.0", f"{network}.0").replace("192.168.1.1", f"{network}.254")


class Container(NewBox):
    """The office with the container for its box, which nobody has set up."""

    def __init__(self, office: Office, image: str, *, own_address: str = "") -> None:
        """`own_address`: it has this one, by macvlan, instead of its host's."""
        super().__init__(office)
        self._image = image
        self.address = own_address or ADDRESS
        self.project = f"naproxy-test-{secrets.token_hex(4)}"
        self.name = f"{self.project}_naproxy_1"

    def _start(self) -> None:
        self._stack.callback(self._remove)
        # podman asks for more open files than a machine may allow.
        most = min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], 65536)
        self._settings = self.office.directory / "containers.conf"
        self._settings.write_text(
            f'[containers]\ndefault_ulimits = ["nofile={most}:{most}", "nproc=4096:4096"]\n'
        )
        text = (ROOT / "compose.yaml").read_text()
        self._compose = self.office.directory / "compose.yaml"
        self._compose.write_text(text if self.address == ADDRESS else macvlan(text, self.address))
        self.up(self._image)

    def up(self, image: str) -> Self:
        """Start this image over the volume, instead of what runs: as after a pull."""
        podman("tag", image, f"{IMAGE}:latest")
        self.compose("up", "-d", "--no-build", "--force-recreate")
        # Its files, as its own processes see them.
        pid = podman("inspect", "-f", "{{.State.Pid}}", self.name).strip()
        self.root = Path(f"/proc/{pid}/root")
        self.box.run_dir = self.root / "run/naproxy"
        wait_for(self.box.healthy, "the controller", 120)
        wait_for(self._shows_pages, "the web interface", 120)
        return self

    def compose(self, *argv: str) -> None:
        """Do what compose.yaml says, with the office's box for the host."""
        program = (BUILD / "venv/bin/podman-compose", "-p", self.project, "-f", self._compose)
        self.box.run([*program, *argv], timeout_s=300, env={"CONTAINERS_CONF": str(self._settings)})

    def _shows_pages(self) -> bool:
        with contextlib.suppress(OSError):
            self.office.client.connect(self.address, 8443, timeout_s=1).close()
            return True
        return False

    def sh(self, script: str, *, check: bool = True) -> str:
        """Run a script as root in the container.

        In the office's box, for what is run in there later has the network of whoever runs it.
        """
        argv = ("podman", "exec", self.name, "sh", "-c", script)
        return self.box.run(argv, check=check, timeout_s=60).stdout

    def pid(self, service: str) -> int:
        """Return the number of a service's process in the container, or 0."""
        return int(self.sh(f"cat /run/service/{service}/supervise/pid", check=False).strip() or 0)

    def version(self) -> str:
        """Return the version of its package."""
        return self.sh("dpkg-query -W -f '${Version}' naproxy")

    def inspect(self) -> Any:
        return json.loads(podman("inspect", self.name))[0]

    def healthcheck(self) -> bool:
        """Do what the container's manager does once a minute."""
        argv = ("podman", "healthcheck", "run", self.name)
        return self.box.run(argv, check=False, timeout_s=60).returncode == 0

    def log(self) -> str:
        """Return what it has said."""
        return podman("logs", self.name)

    def claim_code(self) -> str:
        found: list[str] = wait_for(lambda: CODE.findall(self.log()), "the claim code", 60)
        return found[-1]

    def _remove(self) -> None:
        log = self.office.logs / "container.log"
        log.write_text(podman("logs", self.name, check=False))
        podman("rm", "-f", "-i", "-t", "0", self.name)
        podman("volume", "rm", "-f", f"{self.project}_data")
        podman("network", "rm", "-f", f"{self.project}_office", check=False)
