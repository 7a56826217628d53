"""HTTPS as a real controller, its command and a real haproxy do it."""

from __future__ import annotations

import base64
import io
import json
import subprocess
import tarfile
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from box import Box
from certificates import Authority, Issued, encrypted, openssl
from edge_box import EdgeBox, edge_box, needs_haproxy
from naproxy.core.state import State

from tests.patience import wait_for

pytestmark = needs_haproxy
DAY_S = 86400


class Both:
    """A controller and its edge."""

    def __init__(self, root: Path, edge: EdgeBox) -> None:
        self.edge = edge
        self.authority: Authority = edge.authority
        self.box = Box(root)
        text = self.box.file.read_text().replace(
            'id = "web"', 'id = "web"\nhosts = ["one.example"]'
        )
        self.box.file.write_text(
            f'{text}[server.https]\nmode = "box"\n[https]\nport = {edge.port}\n'
        )
        self.box.arguments += [f"--edge-dir={edge.folder}", "--edge-user=daemon"]
        self.prepare()
        self.box.start()

    def prepare(self) -> None:
        """Set more before it starts."""

    def naproxy(self, *args: object) -> subprocess.CompletedProcess[str]:
        return self.box.naproxy(*map(str, args))

    def put(self, name: str, **sent: str) -> tuple[int, Any]:
        return self.box.call("PUT", f"/v1/certificates/{name}", json.dumps(sent).encode())

    def send(self, issued: Issued) -> tuple[int, Any]:
        chain = self.authority.chain(issued).decode()
        return self.put("main", pem=chain, key=issued.key.decode())

    def config(self) -> Any:
        return self.box.call("GET", "/v1/config")[1]

    def kept(self) -> list[str]:
        return sorted(path.name for path in (self.edge.folder / "keys").glob("*"))

    def serve(self) -> None:
        wait_for((self.edge.folder / "current").exists, "haproxy's configuration", log=self.box.log)
        self.edge.start()

    def close(self) -> None:
        self.box.close()


@pytest.fixture
def both(able: None, tmp_path: Path) -> Iterator[Both]:
    with edge_box(tmp_path) as edge:
        made = Both(tmp_path, edge)
        yield made
        made.close()


def fingerprint(issued: Issued) -> str:
    return sha256(openssl("x509", "-in", issued.file, "-outform", "DER")).hexdigest()


def test_a_certificate_is_sent_by_the_command_and_served(both: Both, tmp_path: Path) -> None:
    both.serve()
    issued = both.authority.issue("one.example", kind="rsa")
    chain, key, password = (tmp_path / name for name in ("chain", "key", "password"))
    chain.write_bytes(both.authority.chain(issued))
    key.write_bytes(encrypted(issued, "hush hush"))
    password.write_text("hush hush\n")
    files = ("--pem", chain, "--key", key, "--password-file", password)
    checked = both.naproxy("certificate", "check", *files)
    assert (checked.returncode, both.kept()) == (0, []), checked.stderr
    done = both.naproxy("certificate", "put", "main", *files)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("main: one.example\n  RSA 2048, issued by CN=Below, until ")
    assert "used by web" in done.stdout
    shown = fingerprint(issued)
    wait_for(lambda: both.edge.shown("one.example") == shown, "it", log=both.box.log)
    assert both.edge.ask("one.example", "--http2")["alpn"] == "h2"
    [configured] = both.config()["certificate"]
    assert (configured["id"], configured["source"]) == ("main", "upload")
    wait_for(lambda: both.naproxy("edge").returncode == 0, "the state", log=both.box.log)
    said = both.naproxy("edge").stdout
    assert "HTTPS is served by haproxy 2." in said
    assert "no certificate for" not in said
    listed = both.naproxy("certificate", "list")
    assert listed.stdout == both.naproxy("certificate", "show", "main").stdout == done.stdout
    told = both.naproxy("edge", "--config")
    assert "crt-list" in told.stdout
    metrics = both.box.call("GET", "/v1/metrics")[1]["text"]
    assert "\nnaproxy_edge_up 1.0\n" in metrics
    assert 'naproxy_certificate_expires_seconds{certificate="main"} ' in metrics


def test_a_pkcs12_file_is_sent_by_the_command(both: Both, tmp_path: Path) -> None:
    issued = both.authority.issue("one.example")
    (tmp_path / "all.pfx").write_bytes(both.authority.pkcs12(issued, "hush"))
    (tmp_path / "password").write_text("hush\n")
    refused = both.naproxy("certificate", "put", "main", "--pkcs12", tmp_path / "all.pfx")
    assert refused.returncode == 1
    assert "give the password too" in refused.stderr
    argv = ("--pkcs12", tmp_path / "all.pfx", "--password-file", tmp_path / "password")
    assert both.naproxy("certificate", "put", "main", *argv).returncode == 0
    assert both.kept() == ["main.pem"]


def test_a_bad_certificate_is_rejected_with_a_reason_and_nothing_is_kept(both: Both) -> None:
    before = both.config()
    now_s = time.time()
    good = both.authority.issue("one.example")
    pem, key = both.authority.chain(good).decode(), good.key.decode()
    other, hidden = both.authority.issue("x.example"), encrypted(good, "hush").decode()
    table: dict[str, tuple[int, str | None, dict[str, str]]] = {
        "expired": (422, "https.expired", {}),
        "not yet": (422, "https.not_yet", {}),
        "for others": (422, "https.wrong_names", {}),
        "another's key": (422, "https.other_key", {"pem": pem, "key": other.key.decode()}),
        "encrypted": (422, "https.encrypted", {"pem": pem, "key": hidden}),
        "cut off": (422, "https.cut_off", {"pem": pem[:-200], "key": key}),
        "huge": (400, "config.characters_most", {"pem": pem * 400, "key": key}),
        "large": (422, "https.too_large", {"pem": "-" * (1 << 18), "key": key}),
        "no PKCS #12": (422, "https.pkcs12", {"pkcs12": base64.b64encode(b"PK").decode()}),
        "no base64": (422, "https.pkcs12", {"pkcs12": "%%%"}),
        "an option": (422, "https.not_pem", {"pem": "-engine evil", "key": "-in /etc/shadow"}),
        "unknown": (400, "config.unknown", {"file": "/etc/shadow"}),
    }
    bad = {
        "expired": both.authority.dated("one.example", now_s - 90 * DAY_S, now_s - DAY_S),
        "not yet": both.authority.dated("one.example", now_s + DAY_S, now_s + 90 * DAY_S),
        "for others": both.authority.issue("two.example"),
    }
    for case, (wanted, code, sent) in table.items():
        status, said = both.send(bad[case]) if case in bad else both.put("main", **sent)
        assert (status, said["code"]) == (wanted, code), case
        assert said["error"] != said["code"]
        assert key[40:80] not in json.dumps(said)
    assert both.kept() == []
    assert both.config() == before


def test_an_invalid_name_is_rejected(both: Both) -> None:
    good = both.authority.issue("one.example")
    sent = {"pem": both.authority.chain(good).decode(), "key": good.key.decode()}
    for name in ("..%2Fevil", "A", "a" * 32, "a%20b", "x%0A"):
        assert both.put(name, **sent)[0] == 422, name
        assert both.box.call("DELETE", f"/v1/certificates/{name}")[0] == 404, name
    assert list(both.edge.folder.rglob("*evil*")) == []


def test_a_certificate_that_visitors_need_is_removed_only_by_force(both: Both) -> None:
    assert both.send(both.authority.issue("one.example"))[0] == 200
    text = both.box.file.read_text().replace('mode = "box"', 'mode = "box"\nhsts_s = 3600')
    assert both.box.call("PUT", "/v1/config", text.encode())[0] == 200
    status, said = both.box.call("DELETE", "/v1/certificates/main")
    assert (status, said["code"], said["params"]) == (409, "https.needed", {"names": ["web"]})
    assert both.kept() == ["main.pem"]
    done = both.naproxy("certificate", "remove", "main", "--force")
    assert (done.returncode, done.stdout) == (0, "none yet\n"), done.stderr
    assert (both.kept(), both.config()["certificate"]) == ([], [])


def test_the_status_of_the_box_contains_no_key(both: Both) -> None:
    both.box.wait(State.AWAKE)
    issued = both.authority.issue("one.example", kind="rsa")
    assert both.send(issued)[0] == 200
    wait_for(lambda: both.kept() == ["main.pem"], "it", log=both.box.log)
    wait_for((both.edge.folder / "current/cert-main.pem").exists, "the edge", log=both.box.log)
    own = (both.edge.folder / "own.pem").read_text()
    told = [both.box.call("GET", f"/v1/{what}")[1] for what in ("status", "certificates", "edge")]
    told += [both.box.call("GET", f"/v1/{what}")[1] for what in ("config", "box/logs", "metrics")]
    assert both.box.call("POST", "/v1/box/diagnostics", b"{}")[0] == 200
    part = both.box.call("GET", "/v1/box/diagnostics/part")[1]
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(part["data"]))) as tar:
        files = [tar.extractfile(member) for member in tar.getmembers()]
        shown = "".join(file.read().decode(errors="replace") for file in files if file)
    shown += json.dumps(told) + both.box.log() + both.edge.log_if_any()
    kept = (both.edge.folder / "keys/main.pem").read_text() + own
    lines = [line for line in kept.splitlines() if len(line) > 30 and "-----" not in line]
    assert len(lines) > 25
    assert [line for line in lines if line in shown] == []


def test_uploaded_certificates_outlive_the_controller(both: Both) -> None:
    """haproxy starts without it, and goes on without it."""
    issued = both.authority.issue("one.example")
    assert both.send(issued)[0] == 200
    wait_for((both.edge.folder / "current/cert-main.pem").exists, "the edge", log=both.box.log)
    both.box.end()
    both.edge.start()
    assert both.edge.shown("one.example") == fingerprint(issued)
    workers = both.edge.workers()
    both.box.start()
    wait_for(lambda: both.box.call("GET", "/v1/edge")[1]["running"], "the edge", log=both.box.log)
    assert both.edge.workers() == workers
