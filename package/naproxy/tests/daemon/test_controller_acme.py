"""Certificates that a real issuer, Pebble, issues to a real controller by the real uacme."""

from __future__ import annotations

import json
import os
import re
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from edge_box import EdgeBox, edge_box, needs_haproxy
from naproxy.api.client import ask
from pebble import Pebble, Port80, hook, needs_pebble, pebble
from test_controller_https import Both

from tests.patience import wait_for

pytestmark = [*needs_haproxy, *needs_pebble, pytest.mark.usefixtures("able")]
DAY_S = 86400
NOBODY = 65534
ASKED_TWICE = re.compile(r"POST /(order-plz|finalize-order/|certZ/) .*\n.*POST /\1 ")
"""What uacme asks once for a certificate: the issuer has rejected the first."""


class Acme(Both):
    """A controller whose certificate an issuer issues."""

    def __init__(self, root: Path, edge: EdgeBox, issuer: Pebble, **settings: str) -> None:
        self.issuer = issuer
        self.commands = root / "commands"
        issuer.uacme(root / "bin")
        self.hook = hook(root, self.commands)
        self.settings = settings
        super().__init__(root, edge)

    def prepare(self) -> None:
        https = {"terms": "true", "directory": self.issuer.directory} | self.settings
        text = self.box.file.read_text() + (
            f'acme_directory = "{https["directory"]}"\nacme_terms = {https["terms"]}\n'
            f'acme_email = "office@one.example"\n{https.get("https", "")}\n'
            f'[[certificate]]\nid = "main"\nsource = "acme"\n{https.get("certificate", "")}\n'
        )
        self.box.file.write_text(text)
        self.box.arguments.append(f"--acme-hook={self.hook}")

    def told(self) -> dict[str, Any]:
        listed = self.box.call("GET", "/v1/certificates")[1]["certificates"]
        nothing: dict[str, Any] = {"names": [], "problem": None}
        return next((each for each in listed if each["id"] == "main"), nothing)

    def issued(self) -> dict[str, Any]:
        """Wait until it is there."""
        wait_for(lambda: bool(self.told()["names"]), "the certificate", log=self.said)
        return self.told()

    def problem(self) -> dict[str, Any]:
        """Wait for a reason of the issuer's, or of uacme's."""

        def known() -> bool:
            problem = self.told()["problem"]
            return problem is not None and problem["code"] != "https.acme_coming"

        wait_for(known, "a reason", log=self.said)
        found: dict[str, Any] = self.told()["problem"]
        return found

    def said(self) -> str:
        return self.box.log() + self.issuer.log()

    def challenges(self) -> list[bytes]:
        return [each.token for each in self.box.layout().challenge if each.token]


@contextmanager
def acme(root: Path, issuer: Pebble, *, answers: bool = True, **settings: str) -> Iterator[Acme]:
    """A controller; with `answers` the issuer finds its answers on port 80."""
    with ExitStack() as stack:
        made = Acme(root, stack.enter_context(edge_box(root)), issuer, **settings)
        stack.callback(made.close)
        if answers:
            port_80 = stack.enter_context(Port80(issuer.http_port, made.box.layout))
            stack.callback(port_80.shutdown)
        yield made


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pebble]:
    with pebble(tmp_path_factory.mktemp("pebble")) as made:
        yield made


def test_a_certificate_is_issued_shown_and_renewed(tmp_path: Path, issuer: Pebble) -> None:
    with acme(tmp_path, issuer) as box:
        box.serve()
        told = box.issued()
        assert (told["names"], told["kind"], told["problem"]) == (["one.example"], "ecdsa", None)
        ends = [told[f"not_{which}_s"] for which in ("before", "after")]
        assert abs(told["next_try_s"] - (ends[0] + (ends[1] - ends[0]) * 2 / 3)) <= DAY_S / 2
        first = told["fingerprint"]
        wait_for(lambda: box.edge.shown("one.example") == first, "it", log=box.said)
        assert box.challenges() == []
        with socket.create_connection(("127.0.0.1", box.edge.port)):
            done = box.naproxy("certificate", "renew", "main")
            assert done.returncode == 0, done.stderr
            second = box.told()["fingerprint"]
            assert second != first
            wait_for(lambda: box.edge.shown("one.example") == second, "the new one", log=box.said)
        assert "the box has it issued anew at " in box.naproxy("certificate", "list").stdout
        before = (box.edge.folder / "keys/main.pem").read_bytes()
        done = box.naproxy("certificate", "renew", "main", "--staging", "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["fingerprint"] not in (first, second)
        assert (box.edge.folder / "keys/main.pem").read_bytes() == before
        assert box.told()["fingerprint"] == box.edge.shown("one.example") == second
        kept = [p for p in box.edge.folder.rglob("*") if p.is_file() and "gen-" not in str(p)]
        assert not [path for path in kept if stat.S_IMODE(path.stat().st_mode) & 0o177]
        keys = "".join(path.read_text() for path in kept if path.suffix == ".pem")
        lines = [line for line in keys.splitlines() if len(line) > 30 and "-----" not in line]
        shown = json.dumps([box.box.call("GET", f"/v1/{w}")[1] for w in ("certificates", "status")])
        shown += json.dumps(box.box.call("GET", "/v1/config")[1]) + box.box.log()
        assert [line for line in lines if line in shown] == []
        assert list(box.box.run_dir.glob("x509-*")) == []
        box.box.end()
        box.box.start()
        assert box.issued()["fingerprint"] == second
        assert box.naproxy("certificate", "remove", "main").returncode == 0
        assert box.naproxy("certificate", "renew", "main").returncode == 1


@pytest.mark.long
def test_an_issuers_refusal_is_told_and_waited_out(tmp_path: Path, issuer: Pebble) -> None:
    with acme(tmp_path, issuer, answers=False) as box:
        problem = box.problem()
        assert problem["code"] == "https.acme_not_seen"
        assert "one.example" in problem["params"]["why"]
        wait_s = box.told()["next_try_s"] - time.time()
        assert 3000 < wait_s <= 3600
        orders = issuer.log().count("order-plz")
        box.box.end()
        box.box.start()
        assert box.problem() == problem
        assert box.told()["next_try_s"] - time.time() > 2800
        assert issuer.log().count("order-plz") == orders
        assert box.challenges() == []


def test_nobody_is_asked_before_the_terms_are_agreed_to(tmp_path: Path, issuer: Pebble) -> None:
    before = issuer.log()
    with acme(tmp_path, issuer, terms="false") as box:
        assert box.problem()["code"] == "https.terms"
        refused = box.naproxy("certificate", "renew", "main", "--staging")
        assert (refused.returncode, "terms of use" in refused.stderr) == (1, True)
        status, said = box.send(box.authority.issue("one.example"))
        assert (status, said["code"]) == (409, "https.by_itself")
        assert issuer.log() == before
        assert not (box.edge.folder / "acme").exists()


def test_a_trial_of_new_settings_changes_nothing(tmp_path: Path, issuer: Pebble) -> None:
    with acme(tmp_path, issuer, terms="false") as box:
        before = box.box.file.read_bytes()
        change = [
            {"op": "set", "where": "https.acme_terms", "value": True},
            {"op": "add", "where": "certificate", "value": {"id": "new", "source": "acme"}},
        ]

        def tried(name: str, changes: Any) -> tuple[int, Any]:
            body = json.dumps({"staging": True, "changes": changes}).encode()
            return box.box.call("POST", f"/v1/certificates/{name}/renew", body)

        assert tried("new", change)[0] == HTTPStatus.ACCEPTED
        path = "/v1/certificates/new/renew"
        wait_for(lambda: box.box.call("GET", path)[1]["state"] != "running", "it", log=box.said)
        job = box.box.call("GET", path)[1]
        assert (job["error"], job["result"]["names"]) == (None, ["one.example"])
        assert tried("other", change)[0] == HTTPStatus.NOT_FOUND
        status, said = tried("new", [{**change[1], "value": {"id": "new", "source": "x"}}])
        assert (status, said["where"]) == (422, "certificate.new.source")
        assert tried("new", [{"op": "rename", "where": "https"}])[0] == HTTPStatus.BAD_REQUEST
        assert tried("new", [change[0]] * 21)[0] == HTTPStatus.BAD_REQUEST
        assert box.box.file.read_bytes() == before
        assert list((box.edge.folder / "keys").glob("*")) == []


@pytest.mark.long
def test_an_issuer_that_mixes_up_its_nonces_is_asked_again(tmp_path: Path) -> None:
    rejecting = {"PEBBLE_WFE_NONCEREJECT": "20"}
    with pebble(tmp_path / "issuer", environment=rejecting) as issuer:  # noqa: SIM117
        with acme(tmp_path, issuer) as box:
            box.issued()
            for _ in range(20):
                if ASKED_TWICE.search(issuer.log()) and box.issued()["problem"] is None:
                    break
                box.naproxy("certificate", "renew", "main")
            assert ASKED_TWICE.search(issuer.log())
            assert box.issued()["problem"] is None


@pytest.mark.long
def test_an_issuer_that_wants_to_know_its_customers_is_told_the_account(tmp_path: Path) -> None:
    key = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W"
    known = {"externalAccountBindingRequired": True, "externalAccountMACKeys": {"kid-1": key}}
    with pebble(tmp_path / "issuer", settings=known) as issuer:
        with acme(tmp_path / "without", issuer) as box:
            assert box.problem()["code"] == "https.acme_eab"
        account = f'acme_eab_id = "kid-1"\nacme_eab_key = "{key}"'
        with acme(tmp_path / "with", issuer, https=account) as box:
            assert box.issued()["problem"] is None
            assert key not in json.dumps(box.config()) + box.box.log()


@pytest.mark.long
def test_a_program_of_the_offices_writes_into_the_dns(tmp_path: Path, issuer: Pebble) -> None:
    more = 'names = ["one.example", "*.one.example"]\nchallenge = "dns-01"\nhook = "dns"\n'
    commands = tmp_path / "commands"
    commands.mkdir()
    program = commands / "dns"
    program.write_text(
        f'#!/bin/sh\necho "$@" >>{commands}/said\n'
        "case $1 in begin) what=set-txt ;; *) what=clear-txt ;; esac\n"
        f"curl -fsS http://127.0.0.1:{issuer.dns_manage}/$what"
        ' -d "{\\"host\\": \\"_acme-challenge.$3.\\", \\"value\\": \\"$5\\"}"\n'
    )
    program.chmod(0o777)
    with acme(tmp_path, issuer, certificate=more + 'kind = "rsa"') as box:
        assert "not_roots" in json.dumps(box.problem()) or "root" in str(box.problem())
        program.chmod(0o755)
        assert box.naproxy("certificate", "renew", "main").returncode == 0
        told = box.told()
        assert (sorted(told["names"]), told["kind"]) == (["*.one.example", "one.example"], "rsa")
        said = (commands / "said").read_text().split("\n")[:-1]
        assert {line.split()[0] for line in said} == {"begin", "done"}
        assert {line.split()[1] for line in said} == {"dns-01"}


def test_only_our_own_user_may_answer_an_issuer(tmp_path: Path, issuer: Pebble) -> None:
    with acme(tmp_path, issuer, terms="false") as box:
        path = box.box.run_dir / "control.sock"
        for folder in (path, *path.parents):
            with suppress(PermissionError):
                folder.chmod(folder.stat().st_mode | 0o007)
        answer = {"answer": "abc.def"}
        child = os.fork()
        if child == 0:
            status = 0
            try:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
                status = ask(str(path), "PUT", "/v1/challenges/abc", answer).status % 251
            finally:
                os._exit(status)
        got = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert got == HTTPStatus.FORBIDDEN % 251
        assert box.challenges() == []
        body = json.dumps(answer).encode()
        assert box.box.call("PUT", "/v1/challenges/abc", body)[0] == HTTPStatus.OK
        assert box.challenges() == [b"abc"]
        for bad in ("a%2Fb", "a%20b", "a" * 128):
            assert box.box.call("PUT", f"/v1/challenges/{bad}", body)[0] == 422
        assert box.challenges() == [b"abc"]
        assert box.box.call("DELETE", "/v1/challenges/abc")[0] == HTTPStatus.OK
        assert box.challenges() == []
