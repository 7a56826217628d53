"""The container with an address of its own on the office's network: compose.yaml's other way."""

import shutil
from collections.abc import Iterator

import pytest

from tests.container.box import Container, make_base, make_image
from tests.e2e.clients import PROGRAM, fresh
from tests.simulator.office import Office, Settings
from tests.simulator.office.box import HOST
from tests.simulator.office.namespace import ROOT

ADDRESS = "192.0.2.5"


@pytest.fixture(scope="module")
def made() -> Iterator[Container]:
    make_base()
    image = make_image("0.0.2")
    keep = ROOT / "build/container/log-own-address"
    with (
        Office(keep=keep, board=Settings(sleep_s=0.2, wake_s=0.2)) as office,
        Container(office, image, own_address=ADDRESS) as made,
    ):
        yield made


def visit(made: Container, path: str) -> str:
    """Ask as a program at the office; returns the body and the status."""
    agent = PROGRAM["User-Agent"]
    argv = ["curl", "-s", "-m", "60", "-A", agent, "-w", " %{http_code}", "--resolve"]
    argv += [f"{HOST}:80:{ADDRESS}", f"http://{HOST}{path}"]
    return made.office.client.run(argv, timeout_s=70).stdout


def test_it_answers_at_its_own_address_and_not_at_the_hosts(made: Container) -> None:
    assert visit(made, "/").endswith(" 503")
    for port in (80, 8443):
        assert not made.box.listens(port)


def test_a_visitor_wakes_the_server_from_there(made: Container) -> None:
    kept, server = made.root / "data/overlay/etc/naproxy", made.office.server
    for file in (server.private_key, server.known_hosts):
        shutil.copy(file, kept)
        (kept / file.name).chmod(0o600)
    login = {"key_file": f"/etc/naproxy/{server.private_key.name}"}
    made.box.reconfigure(server={"sleep": login})
    made.box.await_state("awake")
    made.box.sleep()
    assert server.board.state == "off"
    with made.office.capture(server, "ether proto 0x0842") as wire:
        assert visit(made, fresh("/robots.txt")).endswith(" 200")
        assert wire.wait(1)
    assert server.board.state == "on"
