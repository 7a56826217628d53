"""hawkBit's server sends an update to three boxes, a group at a time, and stops when one fails.

Real are hawkBit, rauc-hawkbit-updater with what `naproxy fleet` writes, TLS, and RAUC; the boxes'
slots are files, and nothing starts anew (rauc_machine.py).
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.patience import wait_for
from tests.simulator.office.box import toml
from tests.simulator.office.namespace import ROOT

sys.path.append(str(ROOT / "package/naproxy/tests"))

from free_port import free_port
from rauc_machine import BOARD, RaucMachine, Signer, bundle, usable

SERVER = ROOT / "build/many/hawkbit"
UPDATER = os.environ.get("UPDATER") or shutil.which("rauc-hawkbit-updater") or ""
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
NAMES = ("box-1", "box-2", "box-3")
HALF = {"condition": "THRESHOLD", "expression": "50"}

pytestmark = [
    pytest.mark.skipif(bool(usable()), reason=usable() or ""),
    pytest.mark.skipif(
        not (SERVER / "lib").exists(), reason="hawkBit is not there: make test-many"
    ),
    pytest.mark.skipif(not UPDATER, reason="no rauc-hawkbit-updater: UPDATER=its path"),
]


class HawkBit:
    """The server, by TLS."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.certificate, key = folder / "server.crt", folder / "server.key"
        for argv in (
            (
                *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
                *("-subj", "/CN=fleet", "-addext", "subjectAltName=DNS:localhost"),
                *("-keyout", key, "-out", self.certificate),
            ),
            (
                *("pkcs12", "-export", "-in", self.certificate, "-inkey", key),
                *("-out", folder / "server.p12", "-passout", "pass:changeit"),
            ),
        ):
            subprocess.run(["openssl", *argv], check=True, capture_output=True)
        settings = {
            "server.port": self.port,
            "server.ssl.key-store": folder / "server.p12",
            "server.ssl.key-store-type": "PKCS12",
            "server.ssl.key-store-password": "changeit",
            # It has a validator of its own.
            "spring.autoconfigure.exclude": "org.springframework.boot.autoconfigure.validation"
            ".ValidationAutoConfiguration",
            "spring.datasource.url": "jdbc:h2:mem:hawkbit;MODE=MYSQL;DB_CLOSE_DELAY=-1",
            "hawkbit.server.ddi.security.authentication.targettoken.enabled": "true",
            "hawkbit.artifact.url.protocols.download-http.protocol": "https",
            "hawkbit.rollout.scheduler.fixedDelay": 500,
        }
        java = ["java", "-XX:TieredStopAtLevel=1", "-Xmx400m"]
        java += ["-cp", f"{SERVER}/classes:{SERVER}/lib/*", "app.Fleet"]
        self._log = folder / "server.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*java, *(f"--{key}={value}" for key, value in settings.items())],
                cwd=folder,
                stdout=log,
                stderr=log,
            )

    def up(self) -> bool:
        assert self._process.poll() is None, self._log.read_text()[-3000:]
        try:
            return bool(self.ask("GET", "targets"))
        except OSError:
            return False

    def end(self) -> None:
        self._process.terminate()
        self._process.wait(30)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Ask the management's API, with curl, which sends files too: `body` may be a path."""
        argv: list[str | Path] = [
            *("curl", "-sS", "--fail-with-body", "--cacert", self.certificate),
            *("-u", "admin:admin", "-X", method),
        ]
        if isinstance(body, Path):
            argv += ["-F", f"file=@{body}"]
        elif body is not None:
            argv += ["-H", "Content-Type: application/json", "-d", json.dumps(body)]
        url = f"https://localhost:{self.port}/rest/v1/{path}"
        done = subprocess.run([*argv, url], capture_output=True, check=False)
        if done.returncode:
            raise OSError(f"{method} {path}: {done.stderr.decode()} {done.stdout.decode()}")
        return json.loads(done.stdout) if done.stdout else {}

    def release(self, file: Path, version: str) -> int:
        """Upload a bundle; returns the number of the set that a roll-out sends."""
        about = {"name": "naproxy", "version": version, "type": "os"}
        [module] = self.ask("POST", "softwaremodules", [about])
        self.ask("POST", f"softwaremodules/{module['id']}/artifacts", file)
        whole = {**about, "modules": [{"id": module["id"]}]}
        [made] = self.ask("POST", "distributionsets", [whole])
        return int(made["id"])

    def roll_out(self, name: str, release: int) -> int:
        """Begin with the first box; the others come when it is done, none if it fails."""
        steps = {"successCondition": HALF, "errorCondition": HALF}
        stop = {"errorAction": {"action": "PAUSE", "expression": ""}}
        asked = {
            "name": name,
            "distributionSetId": release,
            "targetFilterQuery": f"attribute.board=={BOARD}",
            "type": "forced",
            "groups": [
                {
                    "name": group,
                    "targetFilterQuery": query,
                    "targetPercentage": 100,
                    **steps,
                    **stop,
                    "successAction": {"action": "NEXTGROUP", "expression": ""},
                }
                for group, query in (("first", "controllerId==box-1"), ("others", ""))
            ],
        }
        number = int(self.ask("POST", "rollouts", asked)["id"])
        self.reaches(number, "ready")
        self.ask("POST", f"rollouts/{number}/start")
        self.reaches(number, "running")
        return number

    def reaches(self, rollout: int, status: str) -> None:
        wait_for(
            lambda: self.ask("GET", f"rollouts/{rollout}")["status"] == status,
            f"roll-out {rollout}: {status}",
        )


class FleetBox:
    """A box: RAUC, its slots, its settings, and the program that asks for updates."""

    def __init__(self, folder: Path, name: str, server: HawkBit, signer: Signer) -> None:
        folder.mkdir()
        self.name, self._folder = name, folder
        self.rauc = RaucMachine(folder, signer)
        self.rauc.boot("A")
        target = {"controllerId": name, "name": name, "securityToken": f"token-of-{name}"}
        server.ask("POST", "targets", [target])
        fleet = {
            "url": f"https://localhost:{server.port}",
            "token": target["securityToken"],
            "name": name,
        }
        settings = folder / "naproxy.toml"
        settings.write_text(toml({"server": [], "fleet": fleet}))
        settings.chmod(0o600)
        self._conf = folder / "hawkbit.conf"
        program = Path(sys.executable).with_name("naproxy")
        options = ("--config", settings, "--rauc-conf", self.rauc.conf)
        subprocess.run([program, "fleet", *options, self._conf], check=True)
        # There is no /data here.
        text = self._conf.read_text()
        assert "=/data/fleet/" in text
        self._conf.write_text(text.replace("=/data/fleet/", f"={folder}/"))
        self._trusted = folder / "trusted.pem"
        self._trusted.write_bytes(server.certificate.read_bytes())

    def asks(self) -> str:
        """Ask the server once, and do what it says; returns what the program said."""
        inside = f"mount --bind '{self._trusted}' {CERTIFICATES} && exec '{UPDATER}' -r -c"
        done = subprocess.run(
            ["unshare", "-m", "sh", "-c", f"{inside} '{self._conf}'"],
            env={**os.environ, **self.rauc.environment()},
            capture_output=True,
            check=False,
            timeout=120,
            text=True,
        )
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HawkBit]:
    made = HawkBit(tmp_path_factory.mktemp("hawkbit"))
    try:
        wait_for(made.up, "hawkBit", 300)
        yield made
    finally:
        made.end()


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Signer:
    return Signer(tmp_path_factory.mktemp("keys"), "Naproxy releases")


@pytest.fixture(scope="module")
def boxes(
    server: HawkBit, signer: Signer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[FleetBox]]:
    folder = tmp_path_factory.mktemp("boxes")
    made = [FleetBox(folder / name, name, server, signer) for name in NAMES]
    for each in made:
        said = each.asks()
        assert "401" not in said, said
    yield made
    for each in made:
        each.rauc.shut_down()


def slot(box: FleetBox) -> tuple[str, bool]:
    """Which slot is next, and whether something was written into the other."""
    return box.rauc.primary(), any(box.rauc.slots["B"].read_bytes()[:4096])


def test_the_server_knows_each_boxs_board_and_version(
    server: HawkBit, boxes: list[FleetBox]
) -> None:
    from naproxy import __version__  # noqa: PLC0415

    for each in boxes:
        said = server.ask("GET", f"targets/{each.name}/attributes")
        assert said == {"board": BOARD, "version": __version__}


def test_a_roll_out_stops_at_the_first_group_when_its_box_refuses(
    server: HawkBit, boxes: list[FleetBox], tmp_path: Path
) -> None:
    stranger = Signer(tmp_path, "somebody else")
    number = server.roll_out("bad", server.release(bundle(tmp_path / "bad", stranger), "8.0.0"))
    first, *others = boxes
    said = first.asks()
    assert "signature" in said.lower(), said
    server.reaches(number, "paused")
    for each in others:
        each.asks()
    assert [slot(each) for each in boxes] == [("A", False)] * 3
    server.ask("DELETE", f"rollouts/{number}")


def test_a_roll_out_goes_from_the_first_box_to_the_others(
    server: HawkBit, boxes: list[FleetBox], signer: Signer, tmp_path: Path
) -> None:
    number = server.roll_out("good", server.release(bundle(tmp_path / "good", signer), "9.0.0"))
    first, *others = boxes
    for each in others:
        each.asks()
    assert [slot(each) for each in boxes] == [("A", False)] * 3
    said = first.asks()
    assert slot(first) == ("B", True), said

    def updated() -> bool:
        for each in others:
            each.asks()
        return all(slot(each) == ("B", True) for each in others)

    wait_for(updated, "the others", 60)
    server.reaches(number, "finished")
    totals = server.ask("GET", f"rollouts/{number}")["totalTargetsPerStatus"]
    assert (totals["finished"], totals["error"]) == (3, 0)
