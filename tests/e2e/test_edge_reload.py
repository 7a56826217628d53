"""Visitors while the TLS terminator gets new or invalid certificates, or is killed."""

import contextlib
import os
import signal
import time
from http.client import HTTPResponse

import pytest

from tests.e2e.clients import ASSET, Answer, Load, ask, fresh, visitor
from tests.patience import wait_for
from tests.simulator.office import Office, pki
from tests.simulator.office.app import BLOCK
from tests.simulator.office.box import ADDRESS, BY_HTTPS, HOST
from tests.simulator.office.namespace import running

CONFIG = BY_HTTPS
RELOADS = int(os.environ.get("RELOADS", "2"))
"""Each takes 2 s: haproxy hears nothing while it is younger. `make test-large` has 20."""
SIZE = 64 << 20
"""Of the download: more than all on the way can hold."""


@pytest.fixture(scope="module")
def certificate(shared: Office) -> pki.Issued:
    issued = pki.issue(shared.authority, HOST)
    shared.box.give(main=issued)
    return issued


@pytest.fixture
def by_https(office: Office, certificate: pki.Issued) -> Office:
    return office


def test_new_certificates_cut_nobody_off(by_https: Office) -> None:
    office = by_https
    context = pki.context(office.authority)

    def page(number: int) -> Answer:
        time.sleep(0.05)
        source = visitor(number)
        return ask(office.client, "/css/base.css", headers=ASSET, source=source, https=context)

    line = context.wrap_socket(office.client.connect(ADDRESS, 443), server_hostname=HOST)
    line.sendall(f"GET /app/flow?size={SIZE} HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
    with line, contextlib.closing(HTTPResponse(line)) as answer, Load(page, threads=4) as load:
        answer.begin()
        parts = [answer.read(1 << 20)]
        for _ in range(RELOADS):
            office.box.give(main=pki.issue(office.authority, HOST))
            parts.append(answer.read(1 << 20))
        parts.append(answer.read())
    wait_for(lambda: len(office.box.edge_workers()) == 1, "those with old certificates to end")
    assert b"".join(parts) == BLOCK * (SIZE // len(BLOCK))
    assert len(load.answers) > RELOADS
    assert {(answer.status, answer.error) for answer in load.answers} == {(200, "")}


@pytest.mark.long
@pytest.mark.parametrize("who", ["master", "worker"])
def test_a_killed_tls_terminator_restarts_and_http_is_served_throughout(
    who: str, by_https: Office
) -> None:
    office = by_https
    good = pki.issue(office.authority, HOST)
    office.box.give(main=good)
    master, workers = office.box.edge_master(), office.box.edge_workers()
    with Load(lambda _: ask(office.client, "/css/base.css", headers=ASSET), threads=1) as load:
        os.kill(master if who == "master" else workers[-1], signal.SIGKILL)
        # The other ends too: no worker serves what no master can change.
        wait_for(lambda: not any(map(running, (master, *workers))), "haproxy to end")
        office.box.await_shown(good)
    assert office.box.edge_master() != master
    assert {(answer.status, answer.error) for answer in load.answers} == {(200, "")}
    context = pki.context(office.authority)
    assert ask(office.client, fresh(), https=context).status == 200


@pytest.mark.long
def test_https_goes_on_without_the_controller(by_https: Office) -> None:
    office = by_https
    context = pki.context(office.authority)
    office.box.kill_controller()
    assert ask(office.client, fresh(), https=context).status == 200
    all_ = [office.box.edge_master(), *office.box.edge_workers()]
    os.kill(all_[0], signal.SIGKILL)
    wait_for(lambda: not any(map(running, all_)), "haproxy to end")
    wait_for(lambda: office.box.listens(443), "haproxy to start again")
    assert ask(office.client, fresh(), https=context).status == 200
