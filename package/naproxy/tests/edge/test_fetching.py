"""Certificates that the box fetches from the server, by a real OpenSSH."""

from __future__ import annotations

import asyncio
import getpass
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from certificates import Issued, openssl
from edge_box import edge_box, needs_haproxy
from naproxy.config import document as config
from naproxy.config.document import Config
from naproxy.core.reason import Reason, reason_of
from naproxy.edge.fetching import EVERY_S
from naproxy.edge.keeper import Keeper
from naproxy.edge.x509 import CertificateError
from naproxy.server.inhibitors import CLOCK_SET_S
from ssh_server import Server, needs_sshd, serving
from test_keeper import Box

pytestmark = [*needs_haproxy, needs_sshd]
SECRET = "c2VjcmV0IGtleSBpbiB3aGF0IGlzIHByaW50ZWQ="


class Fetching(Box):
    """A keeper whose certificate is on a server, which may sleep."""

    awake = True
    server: Server

    def another(self) -> Keeper:
        made = Keeper(self.here, self, lambda: self.now_s, awake=lambda _: self.awake)
        made.take(self.config("box"))
        return made

    def config(self, mode: str, redirect: bool = False) -> Config:
        login = self.server.login()
        text = (
            f'[https]\nport = {self.box.port}\n[[server]]\nid = "web"\naddress = "127.0.0.1"\n'
            'mac = "02:00:00:00:00:01"\nhosts = ["one.example"]\n'
            f'[server.https]\nmode = "{mode}"\n[server.sleep]\ndriver = "ssh"\n'
            f'port = {login["port"]}\nuser = "{login["user"]}"\n'
            f'key_file = "{login["key_file"]}"\n'
            '[[certificate]]\nid = "main"\nsource = "server"\nserver = "web"\n'
            f'key_file = "{login["key_file"]}"\n'
        )
        return config.parse(text)

    def has(self, issued: Issued) -> None:
        """The server has another certificate: a folder as certbot makes it."""
        there = self.server.directory / "live"
        there.mkdir(exist_ok=True)
        (there / "cert.pem").write_bytes(issued.pem)
        (there / "fullchain.pem").write_bytes(self.box.authority.chain(issued))
        (there / "privkey.pem").write_bytes(issued.key)
        (there / "README").write_text("This directory contains your keys and certificates.\n")
        self.server.says(f"echo x >>{there}.asked; cat -- '{there}'/*")

    def asked(self) -> int:
        file = self.server.directory / "live.asked"
        return len(file.read_text()) // 2 if file.exists() else 0

    def later(self, seconds: float = 0.0) -> None:
        """Some time later, what is due is done, and put in force."""
        self.now_s += seconds

        async def pass_by() -> None:
            await self.keeper.once()
            self.keeper.renew_due()
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                await task
            await self.keeper.once()

        asyncio.run(pass_by())

    def shown(self) -> str | None:
        found: str | None = self.keeper.told()["certificates"][0]["fingerprint"]
        return found

    def problem(self) -> Reason | None:
        problem = self.keeper.told()["certificates"][0]["problem"]
        return reason_of(problem) if problem else None


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Fetching]:
    (tmp_path / "ssh").mkdir()
    with edge_box(tmp_path) as edge, serving(tmp_path / "ssh") as server:
        Fetching.server = server
        made = Fetching(edge)
        made.now_s = CLOCK_SET_S * 2
        made.has(edge.authority.issue("one.example", days=36500))
        yield made


def fingerprint(issued: Issued) -> str:
    said = openssl("x509", "-in", issued.file, "-noout", "-fingerprint", "-sha256").decode()
    return said.partition("=")[2].strip().replace(":", "").lower()


def test_it_is_fetched_and_taken_anew_when_it_changes_there(box: Fetching) -> None:
    box.now_s = time.time() + 60
    first = box.box.authority.issue("one.example")
    box.has(first)
    box.later()
    assert (box.shown(), box.problem()) == (fingerprint(first), None)
    generation = (box.box.folder / "current").readlink()
    box.later(EVERY_S + 1)
    assert (box.asked(), (box.box.folder / "current").readlink()) == (2, generation)
    second = box.box.authority.issue("one.example")
    box.has(second)
    box.later(EVERY_S / 2)
    assert (box.asked(), box.shown()) == (2, fingerprint(first))
    box.keeper = box.another()  # a restart makes nobody ask again
    box.later()
    assert box.asked() == 2
    box.later(EVERY_S / 2 + 1)
    assert (box.asked(), box.shown()) == (3, fingerprint(second))
    assert (box.box.folder / "current").readlink() != generation


def test_nobody_is_woken_for_it(box: Fetching) -> None:
    box.awake = False
    box.later()
    assert box.problem() == Reason("https.fetch_coming")
    with pytest.raises(CertificateError, match="not awake"):
        asyncio.run(box.keeper.renew("main"))
    assert box.asked() == 0
    assert box.keeper.told()["certificates"][0]["next_try_s"] is None


def test_a_trial_fetches_and_changes_nothing(box: Fetching) -> None:
    box.now_s = time.time() + 60
    box.has(box.box.authority.issue("one.example"))

    async def trial() -> None:
        await box.keeper.once()
        told = await box.keeper.trial("main", box.config("box"))
        assert told["names"] == ["one.example"]

    asyncio.run(trial())
    assert (box.asked(), box.keeper.store.ids()) == (1, [])


SAID = {
    f"echo '{SECRET}'; echo 'a password is required' >&2; exit 1": "a password is required",
    f"echo '{SECRET}'; exit 1": "printed no certificate",
    f"echo '{SECRET}'": "printed no certificate",
    "yes | head -c 10000000": "printed no certificate",
    f"echo '-----BEGIN CERTIFICATE-----'; echo '{SECRET}'": "not complete",
    "yes -- '-----BEGIN ' | head -c 10000000": "larger than",
}


def test_what_the_server_says_instead_becomes_a_reason_without_what_it_printed(
    box: Fetching, said: list[str]
) -> None:
    for script, words in SAID.items():
        box.server.says(script)
        box.later(2 * EVERY_S)
        problem = box.problem()
        assert problem is not None, script
        assert words in str(problem), script
        assert SECRET not in str(problem) + "".join(said), script
        assert box.keeper.store.ids() == [], script


def test_a_server_that_does_not_let_it_in_is_asked_again_after_an_hour(box: Fetching) -> None:
    keys = box.server.directory / "authorized_keys"
    line = keys.read_text()
    keys.write_text("")
    box.later()
    assert box.problem() == Reason("https.no_login", name=getpass.getuser())
    keys.write_text(line)
    box.later(EVERY_S / 2)
    assert box.asked() == 0
    box.later(EVERY_S)
    assert box.asked() == 1
