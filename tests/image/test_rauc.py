"""RAUC's service on the box: what it has GRUB remember, and who may speak to it.

The real service and D-Bus, with the image's configuration; slots are files.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.image.grub_disk import environment
from tests.patience import wait_for

TOP = Path(__file__).resolve().parents[2]
LOADER = TOP / "overlay/usr/lib/naproxy/loader"
NOBODY = 65534
_DBUS = """<busconfig><type>system</type><listen>unix:path={folder}/bus</listen>
<policy context="default"><allow user="*"/><deny own="*"/>
<allow send_type="signal"/><allow send_requested_reply="true" send_type="method_return"/>
<allow send_requested_reply="true" send_type="error"/>
<allow send_destination="org.freedesktop.DBus"/><allow receive_sender="*"/></policy>
<policy context="default"><allow send_destination="de.pengutronix.rauc"/></policy>
<policy user="root"><allow own="de.pengutronix.rauc"/></policy>
<include>{ours}</include></busconfig>"""
"""The system's bus, with the policy that RAUC brings (data/de.pengutronix.rauc.conf), and ours."""

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("rauc") or not shutil.which("dbus-daemon"),
    reason="wants root, rauc and dbus-daemon",
)


class Service:
    """RAUC's service of a box that runs a slot."""

    def __init__(self, folder: Path, keys: Path) -> None:
        self.grubenv = folder / "grub/grubenv"
        self._conf = folder / "system.conf"
        self._environment = {
            "PATH": f"{LOADER}:/usr/sbin:/usr/bin:/sbin:/bin",
            "DBUS_STARTER_BUS_TYPE": "session",
            "DBUS_SESSION_BUS_ADDRESS": f"unix:path={folder}/bus",
        }
        board, common = "qemu-x86_64", TOP / "board/common"
        env = {"NAPROXY_KEYS": str(keys), "PATH": os.environ["PATH"]}
        subprocess.run([common / "rauc", folder, board], check=True, env=env, capture_output=True)
        text = (folder / "etc/rauc/system.conf").read_text()
        for there, here in (
            ("/bootpart/", f"{folder}/"),
            ("/dev/naproxy/", f"{folder}/slot"),
            ("/data/rauc/", f"{folder}/"),
            ("/run/rauc", f"{folder}/mnt"),
            ("/etc/rauc/", f"{folder}/etc/rauc/"),
        ):
            text = text.replace(there, here)
        self._conf.write_text(text)
        for number in (2, 3):
            (folder / f"slot{number}").write_bytes(bytes(1 << 20))
        self.grubenv.parent.mkdir()
        factory = environment(folder, ORDER="A B", A_OK="1", B_OK="0", A_TRY="1", B_TRY="0")
        self.grubenv.write_bytes(factory)
        self.grubenv.with_name("grubenv2").write_bytes(factory)
        policy = TOP / "overlay/etc/dbus-1/system.d/naproxy-rauc.conf"
        (folder / "bus.conf").write_text(_DBUS.format(folder=folder, ours=policy))
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start bus and service."""
        bus = ("dbus-daemon", f"--config-file={self._folder}/bus.conf", "--nofork")
        self._processes.append(self._popen(*bus))
        self._wait((self._folder / "bus").exists)
        service = ("rauc", f"--conf={self._conf}", "--override-boot-slot=A", "service")
        self._processes.append(self._popen(*service))
        self._wait(lambda: self.status()[0] == 0)

    def _popen(self, *argv: str) -> subprocess.Popen[bytes]:
        with (self._folder / "log").open("ab") as log:
            return subprocess.Popen(argv, env=self._environment, stdout=log, stderr=log)

    def log(self) -> str:
        """Return what bus and service said."""
        return (self._folder / "log").read_text()

    def _wait(self, seen: Callable[[], bool]) -> None:
        wait_for(seen, "RAUC", log=lambda: str(self.status()))

    def status(self, *arguments: str, user: int = 0) -> tuple[int, str]:
        """Run `rauc status` as a user."""
        done = subprocess.run(
            ["rauc", f"--conf={self._conf}", "status", *arguments],
            env=self._environment,
            user=user,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return done.returncode, done.stdout

    def memory(self) -> dict[str, str]:
        """Return what GRUB remembers."""
        assert self.grubenv.read_bytes() == self.grubenv.with_name("grubenv2").read_bytes()
        said = subprocess.run(
            ["/usr/bin/grub-editenv", self.grubenv, "list"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        return dict(line.split("=", 1) for line in said.splitlines())

    def end(self) -> None:
        """End bus and service."""
        for process in reversed(self._processes):
            process.terminate()
            process.wait(60)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the first of the services has its keys made, which takes longest."""
    return tmp_path_factory.mktemp("keys") / "keys"


@pytest.fixture
def service(keys: Path) -> Iterator[Service]:
    with tempfile.TemporaryDirectory() as folder:
        # Others must get as far as the bus: it is the bus that refuses them.
        Path(folder).chmod(0o755)
        made = Service(Path(folder), keys)
        try:
            made.start()
            yield made
        finally:
            made.end()


def test_a_confirmed_system_gets_its_tries_back(service: Service) -> None:
    code, said = service.status("mark-good", "booted")
    assert code == 0, said
    assert (service.memory()["A_OK"], service.memory()["A_TRY"]) == ("1", "0")


def test_a_system_that_gives_way_is_not_started_again(service: Service) -> None:
    code, said = service.status("mark-bad", "booted")
    assert code == 0, said
    assert service.memory()["A_OK"] == "0"


def test_the_other_system_is_next_with_all_its_tries(service: Service) -> None:
    code, said = service.status("mark-active", "other")
    assert code == 0, said
    told = service.memory()
    assert (told["ORDER"], told["B_OK"], told["B_TRY"]) == ("B A", "1", "0")


def test_a_healthy_start_is_one_of_a_system_that_may_start(service: Service) -> None:
    """GRUB has counted its try, and the box has not confirmed it yet."""
    assert service.memory()["A_TRY"] == "1"
    code, said = service.status("--detailed", "--output-format=json")
    assert code == 0
    assert '"boot_primary":"rootfs.0"' in said
    assert "No bootable slot found" not in service.log()


def test_rauc_reads_the_second_copy(service: Service) -> None:
    service.status("mark-good", "booted")
    service.grubenv.write_bytes(b"")
    code, said = service.status("--detailed", "--output-format=json")
    assert code == 0
    assert '"boot_status":"good"' in said


def test_only_root_has_rauc_do_anything(service: Service) -> None:
    for arguments in ((), ("mark-active", "other")):
        code, said = service.status(*arguments, user=NOBODY)
        assert code != 0
        assert "Rejected send message" in said
    assert service.memory()["ORDER"] == "A B"
