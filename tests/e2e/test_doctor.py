"""`naproxy doctor` on the box of the office: it looks, and changes nothing."""

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.simulator.office import Office
from tests.simulator.office.server import ADDRESS

NAPROXY = Path(sys.executable).with_name("naproxy")
pytestmark = pytest.mark.usefixtures("visited")
OTHER_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBLPFzVvVjPbZbOAlXVGIDBJhNzSNTXJ6BPBBqYkrSvE"


@pytest.fixture
def pins(office: Office) -> Iterator[Path]:
    """Let a test write the file of pinned host keys."""
    file = office.server.known_hosts
    before = file.read_text()
    yield file
    file.write_text(before)


def doctor(office: Office, config: Path | None = None) -> tuple[int, dict[str, dict[str, Any]]]:
    """Return the exit status, and what each check says that is not well."""
    file = config or office.box.config_file
    done = office.box.run(
        [
            *(NAPROXY, "doctor", "web", "--config", file, "--json"),
            *("--socket", office.box.run_dir / "control.sock"),
        ],
        check=False,
        timeout_s=60,
    )
    found = json.loads(done.stdout)["checks"]
    return done.returncode, {c["name"]: c for c in found if c["verdict"] not in ("ok", "not used")}


def changed(office: Office, tmp_path: Path, pattern: str, text: str) -> Path:
    """Return a copy of the configuration with another line."""
    config, count = re.subn(pattern, text, office.box.config_file.read_text())
    assert count == 1
    file = tmp_path / "naproxy.toml"
    file.write_text(config)
    return file


def test_in_a_good_office_there_is_nothing_to_mend_and_nothing_is_put_to_sleep(
    office: Office,
) -> None:
    before = office.server.board.report()["transitions"]
    assert doctor(office) == (0, {})
    assert office.server.board.report()["transitions"] == before


def test_another_host_key_than_the_pinned_one_is_told(office: Office, pins: Path) -> None:
    addresses = pins.read_text().split()[0]
    pins.write_text(f"{addresses} {OTHER_KEY}\n")
    status, found = doctor(office)
    assert status == 1
    assert found["ssh_login"]["what_reason"]["code"] == "ssh.other_key"


def test_a_key_that_may_open_tunnels_is_told(office: Office) -> None:
    allowed = office.server.directory / "authorized_keys"
    before = allowed.read_text()
    allowed.write_text(before.replace("restrict,", ""))
    try:
        status, found = doctor(office)
    finally:
        allowed.write_text(before)
    assert (status, list(found)) == (1, ["ssh_restricted"])


def test_a_server_that_no_route_leads_to_is_told(office: Office, tmp_path: Path) -> None:
    away = changed(office, tmp_path, f'address = "{ADDRESS}"', 'address = "203.0.113.9"')
    _, found = doctor(office, away)
    assert found["route"]["what"] == "there is no route to 203.0.113.9"


@pytest.fixture(params=["drop", "reject with icmpx admin-prohibited"])
def firewall(office: Office, request: pytest.FixtureRequest) -> Iterator[Callable[[int], None]]:
    """Let a test close a port on the server, as ufw (drop) or firewalld (reject) does."""

    def close(port: int) -> None:
        rules = f"""table inet wall {{
            chain input {{
                type filter hook input priority 0; policy accept;
                tcp dport {port} {request.param}
            }}
        }}"""
        office.server.run(["nft", "-f", "-"], stdin=rules)

    yield close
    office.server.run(["nft", "delete", "table", "inet", "wall"])


def test_a_firewall_before_the_web_server_is_told_from_a_sleep(
    office: Office, firewall: Callable[[int], None]
) -> None:
    firewall(80)
    _, found = doctor(office)
    assert list(found) == ["web_port"]
    assert "though it lets the box in by ssh: a firewall" in found["web_port"]["what"]


@pytest.mark.long
def test_a_firewall_before_ssh_is_told(office: Office, firewall: Callable[[int], None]) -> None:
    firewall(22)
    _, found = doctor(office)
    assert list(found) == ["ssh_login", "ssh_restricted"]
    assert "let the box in" in found["ssh_login"]["mend"]


def test_a_sleeping_server_is_told_from_a_broken_one(asleep: Office) -> None:
    status, found = doctor(asleep)
    assert status == 1
    assert "wake it first" in found["web_port"]["mend"]
    assert asleep.server.board.state == "off"
