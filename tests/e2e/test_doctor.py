"""`naproxy doctor` on the box of the office: it looks, and changes nothing."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.patience import wait_for
from tests.simulator.office import Office

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


def doctor(office: Office) -> tuple[int, dict[str, dict[str, Any]]]:
    """Return the exit status, and the message of each failed check."""
    done = office.box.run(
        [
            *(NAPROXY, "doctor", "web", "--config", office.box.config_file, "--json"),
            *("--socket", office.box.run_dir / "control.sock"),
        ],
        check=False,
        timeout_s=60,
    )
    found = json.loads(done.stdout)["checks"]
    return done.returncode, {c["name"]: c for c in found if c["verdict"] not in ("ok", "not used")}


def test_a_good_office_passes_all_checks_and_no_server_is_put_to_sleep(
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


@pytest.mark.parametrize("does", ["drop", "reject with icmpx admin-prohibited"])
def test_a_firewall_before_the_web_server_is_told_from_a_sleep(office: Office, does: str) -> None:
    """As ufw closes a port (drop) or firewalld (reject)."""
    chain = f"type filter hook input priority 0; policy accept; tcp dport 80 {does};"
    rules = f"table inet wall {{ chain input {{ {chain} }}; }}"
    office.server.run(["nft", "-f", "-"], stdin=rules)
    try:
        _, found = doctor(office)
    finally:
        office.server.run(["nft", "delete", "table", "inet", "wall"])
    assert list(found) == ["web_port"]
    assert "though it lets the box in over ssh: a firewall" in found["web_port"]["what"]


def test_a_sleeping_server_is_told_from_a_broken_one(asleep: Office) -> None:
    status, found = doctor(asleep)
    assert status == 1
    assert "wake it first" in found["web_port"]["mend"]
    assert asleep.server.board.state == "off"


def test_a_varnish_that_is_stopped_and_a_port_that_is_taken_show_everywhere(
    office: Office, tmp_path: Path
) -> None:
    def problems() -> list[str]:
        ports = office.box.api("GET", "/v1/status")["box"]["front_door"]["ports"]
        return [each["problem"]["code"] for each in ports if each["problem"]]

    def figure() -> str:
        return str(office.box.api("GET", "/v1/metrics")["text"])

    def looked() -> bool:
        return bool(office.box.api("GET", "/v1/status")["box"]["front_door"]["looked_s"])

    wait_for(looked, "a first look: while Varnish starts, nothing is reported")
    assert office.box.varnish
    office.box.varnish.terminate()
    office.box.varnish.wait(20)
    try:
        status, found = doctor(office)
        assert status == 1
        assert found["front_door_http"]["what_reason"]["code"] == "front_door.refused"
        wait_for(lambda: problems() == ["front_door.refused"], "the controller to notice")
        assert 'naproxy_front_door_up{port="80"} 0.0' in figure()
        file = tmp_path / "nginx.conf"
        file.write_text(
            f"pid {tmp_path}/pid; error_log stderr; events {{}} http {{ access_log off;"
            " server { listen 80; return 200; } }"
        )
        nginx = office.box.popen(["nginx", "-c", file, "-g", "daemon off;"])
        try:
            wait_for(lambda: office.box.listens(80), "nginx")
            taken = doctor(office)[1]["front_door_http"]["what_reason"]
            assert taken == {"code": "front_door.taken", "params": {"port": 80, "program": "nginx"}}
        finally:
            nginx.terminate()
            nginx.wait(20)
    finally:
        office.box.start_varnish()
    wait_for(lambda: not problems(), "the front door to be open again")
    assert doctor(office) == (0, {})
