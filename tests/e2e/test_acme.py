"""A certificate that an issuer issues to the box, whose server sleeps meanwhile."""

import contextlib
import os
import ssl
import time
from collections.abc import Callable, Iterator
from http.client import HTTPException, HTTPSConnection
from typing import Any

import pytest

from tests.e2e.clients import Answer, Load, ask, visitor
from tests.e2e.conftest import QUICK
from tests.patience import wait_for
from tests.simulator.office import Office, pki
from tests.simulator.office.box import ADDRESS, BY_HTTPS, HOST
from tests.simulator.office.namespace import ROOT
from tests.simulator.office.office import CLIENT_ADDRESS

# isort: split
from pebble import Pebble, hook, needs_pebble

pytestmark = needs_pebble


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory, both: Office) -> Iterator[Pebble]:
    with both.client.entered():
        made = Pebble(
            tmp_path_factory.mktemp("pebble"), address=CLIENT_ADDRESS, seen=ADDRESS, http_port=80
        )
    yield made
    made.close()


@pytest.fixture(scope="module")
def both() -> Iterator[Office]:
    """An office in which nothing runs yet."""
    with Office(keep=ROOT / "build/e2e/test_acme", board=QUICK) as office:
        yield office


@pytest.fixture(scope="module")
def shared(
    tmp_path_factory: pytest.TempPathFactory, both: Office, issuer: Pebble
) -> Iterator[Office]:
    folder = tmp_path_factory.mktemp("acme")
    issuer.uacme(folder / "bin")
    both.box.arguments += ["--acme-hook", hook(folder, folder / "commands")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{folder / 'bin'}:{os.environ['PATH']}")
        both.box.start(**settings(issuer, agreed=False))
        yield both


def settings(issuer: Pebble, *, agreed: bool) -> dict[str, Any]:
    https = {"acme_directory": issuer.directory, "acme_terms": agreed}
    return {**BY_HTTPS, "https": https, "certificate": [{"id": "main", "source": "acme"}]}


def certificate(office: Office) -> dict[str, Any]:
    found: dict[str, Any] = office.box.api("GET", "/v1/certificates")["certificates"][0]
    return found


def shown(office: Office) -> str:
    with contextlib.suppress(OSError):
        return pki.shown(office.client, ADDRESS, HOST)
    return ""


@pytest.mark.long
def test_it_is_issued_while_the_server_sleeps_which_sleeps_on(
    asleep: Office, issuer: Pebble
) -> None:
    wakes, state = len(asleep.box.wakes()), asleep.server.board.report()
    assert certificate(asleep)["problem"]["code"] == "https.terms"
    with asleep.capture(asleep.server, "ether proto 0x0842") as wire:
        asleep.box.reconfigure(**settings(issuer, agreed=True))
        wait_for(lambda: certificate(asleep)["names"], "the certificate")
        assert certificate(asleep)["names"] == [HOST]
        wanted = certificate(asleep)["fingerprint"]
        wait_for(lambda: shown(asleep) == wanted, "it to be shown")
        assert wire.frames() == []
    assert asleep.server.board.report()["state"] == state["state"] == "off"
    assert len(asleep.box.wakes()) == wakes
    assert asleep.box.status()["state"] == "asleep"


@pytest.mark.long
def test_visitors_lose_nothing_while_it_is_renewed(office: Office, issuer: Pebble) -> None:
    office.box.reconfigure(**settings(issuer, agreed=True))
    wait_for(lambda: certificate(office)["names"], "the certificate")
    first = certificate(office)["fingerprint"]
    wait_for(lambda: shown(office) == first, "it to be shown")
    with office.client.entered():
        trusted = ssl.create_default_context(cadata=issuer.root().decode())

    def visit(number: int) -> Answer:
        time.sleep(0.03)
        path = f"/robots.txt?{number % 50}"
        source = visitor(number)
        return ask(office.client, path, https=trusted, timeout_s=60, source=source)

    with (
        kept_connection(office, trusted) as again,
        Load(visit, 3) as load,
        Load(lambda _: again(), 1) as on_one,
    ):
        wait_for(lambda: len(load.answers) > 20, "visitors")
        office.box.api("POST", "/v1/certificates/main/renew", {})
        wait_for(lambda: certificate(office)["fingerprint"] != first, "the new one")
        second = certificate(office)["fingerprint"]
        wait_for(lambda: shown(office) == second, "the new one to be shown")
        so_far = len(load.answers)
        wait_for(lambda: len(load.answers) > so_far + 20, "visitors after it")
    assert {(each.status, each.error) for each in load.answers} == {(200, "")}
    assert {(each.status, each.error) for each in on_one.answers} == {(200, "")}


@contextlib.contextmanager
def kept_connection(office: Office, trusted: ssl.SSLContext) -> Iterator[Callable[[], Answer]]:
    """Ask again and again on one connection, as the worker of before the renewal has it."""
    connection = HTTPSConnection(HOST, timeout=60)
    plain = office.client.connect(ADDRESS, 443, timeout_s=60)
    connection.sock = trusted.wrap_socket(plain, server_hostname=HOST)
    connection.auto_open = 0

    def again() -> Answer:
        try:
            connection.request("GET", "/robots.txt")
            answer = connection.getresponse()
            answer.read()
        except (OSError, HTTPException) as error:
            return Answer("", 0, {}, b"", 0, 0, repr(error))
        return Answer("", answer.status, {}, b"", 0, 0)

    with contextlib.closing(connection):
        yield again
