"""What else the server does: named by the doctor and for the guide, asked for, and looked at."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_doctor import doctor
from tests.patience import wait_for
from tests.simulator.office import Office
from tests.simulator.office.box import RefusedError
from tests.simulator.office.forced import forced, forced_before
from tests.simulator.office.office import CLIENT_ADDRESS as CLIENT
from tests.simulator.office.server import ADDRESS

LISTENS = """
import selectors, socket

ports = selectors.DefaultSelector()
for kind, address, port in (
    (socket.SOCK_DGRAM, "0.0.0.0", 53),
    (socket.SOCK_STREAM, "0.0.0.0", 445),
    (socket.SOCK_STREAM, "127.0.0.1", 3306),
):
    sock = socket.socket(socket.AF_INET, kind)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((address, port))
    if kind == socket.SOCK_STREAM:
        sock.listen()
    ports.register(sock, selectors.EVENT_READ)
print("up", flush=True)
taken = []
while True:
    for ready, _ in ports.select():
        if ready.fileobj.type == socket.SOCK_DGRAM:
            question, peer = ready.fileobj.recvfrom(512)
            ready.fileobj.sendto(question[:2] + b"\\x84\\x00" + question[4:], peer)
        else:
            taken.append(ready.fileobj.accept())
"""
"""An office's server: it answers for names, and has a folder that others open."""


@pytest.fixture(scope="module")
def serving(shared: Office) -> Iterator[None]:
    process = shared.server.popen_inside([sys.executable, "-c", LISTENS], log="listens")
    wait_for(lambda: shared.server.listens(445), "the listeners")
    yield
    process.kill()
    process.wait()


@pytest.fixture
def server(office: Office, serving: None) -> Iterator[Office]:
    """The server does this, and nothing is known or chosen; nor is it again afterwards."""
    yield office
    office.box.reconfigure(server={"sleep": {"port": 23}})
    office.box.reconfigure()
    office.box.await_state("awake")


def listed(office: Office) -> dict[str, tuple[str, str | None]]:
    """Return the guide's table: each service's proposal and the choice."""
    found = office.box.status()["services"]["list"]
    return {each["key"]: (each["proposal"], each["choice"]) for each in found}


def checked(office: Office, facts: str = "") -> dict[str, Any]:
    """Have the guide check, with the script's output on the server."""
    path = "/v1/servers/web/doctor"

    def begun() -> bool:
        # One that began a moment ago is not begun again.
        with contextlib.suppress(RefusedError):
            office.box.api("POST", path, {"facts": facts} if facts else {})
            return True
        return False

    wait_for(begun, "the check to begin")
    wait_for(lambda: office.box.api("GET", path)["state"] != "running", "the check", 60)
    done = office.box.api("GET", path)
    assert done["state"] == "done", done["error"]
    return {each["name"]: each for each in done["result"]["checks"]}


@pytest.mark.usefixtures("visited")
def test_the_doctor_names_what_answers_from_the_network(server: Office) -> None:
    status, found = doctor(server)
    assert status == 1
    assert list(found) == ["other_services"]
    said = found["other_services"]["what"]
    assert "answers for names (DNS) (53/udp): do not let it sleep" in said
    assert "shares folders (SMB, Windows) (445/tcp)" in said
    assert "database" not in said


def test_a_server_that_is_not_armed_waits_for_the_office_s_choice(server: Office) -> None:
    server.box.reconfigure(server={"armed": False})
    checked(server)
    with pytest.raises(RefusedError) as refused:
        server.box.api("POST", "/v1/servers/web/commission", {"cycles": 1})
    assert refused.value.answer["code"] == "server.unanswered"
    server.box.reconfigure(server={"armed": False, "awake": {"services": ["dns ignore"]}})
    server.box.api("POST", "/v1/servers/web/commission", {"cycles": 1})
    server.box.api("DELETE", "/v1/servers/web/commission")


def test_a_service_that_must_never_sleep_keeps_the_server_awake(server: Office) -> None:
    server.box.reconfigure(server={"awake": {"services": ["dns never"]}})
    with pytest.raises(RefusedError) as refused:
        server.box.api("POST", "/v1/servers/web/sleep", {})
    assert refused.value.answer["code"] == "server.never_sleeps"


@pytest.fixture
def script(server: Office) -> Iterator[Path]:
    """The command that the guide has people paste, and the agent; its folder of programs."""
    with forced(server.server) as programs:
        yield programs


def refusal(office: Office) -> list[str]:
    """Ask for sleep once, and return why it stays awake."""
    with contextlib.suppress(RefusedError):
        office.box.api("POST", "/v1/servers/web/sleep", {})
    wait_for(lambda: office.box.status()["state"] == "awake", "the answer")
    codes: list[str] = []

    def told() -> bool:
        for each in office.box.status()["inhibitors"]:
            codes.extend(_codes(each))
        return bool(codes)

    wait_for(told, "the refusal")
    return codes


def _codes(reason: Any) -> Iterator[str]:
    if isinstance(reason, dict) and "code" in reason:
        yield reason["code"]
        for each in reason["params"].values():
            yield from _codes(each)
    elif isinstance(reason, list):
        for each in reason:
            yield from _codes(each)


def test_the_pasted_script_reports_and_an_open_folder_keeps_the_server_awake(
    server: Office, script: Path
) -> None:
    with contextlib.closing(server.client.connect(ADDRESS, 445)):
        assert "sleep.busy_files" in refusal(server)
    server.box.sleep()
    services = server.box.status()["services"]
    assert services["told"]
    assert "445/tcp/python" in services["listens"]
    server.box.kill_controller()
    server.box.start_controller()
    server.box.await_state("asleep")
    assert server.box.status()["services"] == services
    server.box.wake()


def test_text_that_was_pasted_before_the_agent_lets_it_sleep_and_says_why_it_does_not(
    server: Office,
) -> None:
    server.box.reconfigure(server={"awake": {"services": ["ssh ignore", "smb used"]}})
    with forced_before(server.server):
        with contextlib.closing(server.client.connect(ADDRESS, 445)):
            assert "sleep.busy_files" in refusal(server)
        server.box.sleep()
        assert "445/tcp/python" in server.box.status()["services"]["listens"]
        server.box.wake()
    server.box.reconfigure()


@pytest.mark.long
def test_a_script_that_does_not_know_of_ports_keeps_it_awake_where_one_was_chosen(
    server: Office, script: Path
) -> None:
    command = server.server.directory / "naproxy-sleep"
    command.write_text(f"{command.read_text().rstrip()} | grep -v '^listens'\n")
    server.box.reconfigure(server={"awake": {"services": ["smb used"]}})
    assert "sleep.ports_unseen" in refusal(server)
    server.box.reconfigure()
    server.box.sleep()
    server.box.wake()


def test_the_connection_table_shows_clients_over_udp(server: Office, script: Path) -> None:
    chain = "chain input { type filter hook input priority 0; ct state new accept; }"
    rules = f"table inet seen {{ {chain}; }}"
    server.server.run(["nft", "-f", "-"], stdin=rules)
    try:
        server.box.reconfigure(server={"awake": {"services": ["dns used"]}})
        # The server's own queries to others do not count as use of its service.
        asks = "socket.socket(2, 2).sendto(b'12345678', (sys.argv[1], 53))"
        server.server.run([sys.executable, "-c", f"import socket, sys; {asks}", CLIENT])
        server.box.sleep()
        server.box.wake()
        assert server.box.status()["services"]["flows"]
        asks = "s = socket.socket(2, 2); s.sendto(b'12345678', (sys.argv[1], 53)); s.recv(99)"
        server.client.run([sys.executable, "-c", f"import socket, sys; {asks}", ADDRESS])
        assert "sleep.busy_udp" in refusal(server)
    finally:
        server.server.run(["nft", "delete", "table", "inet", "seen"])
