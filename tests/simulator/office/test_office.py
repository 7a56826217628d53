"""The office keeps its promises: silence is real, only good packets count, nothing is left."""

import contextlib
import hashlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.patience import wait_for
from tests.simulator.office import Office, Settings, magic
from tests.simulator.office.box import ADDRESS as BOX_ADDRESS
from tests.simulator.office.freezer import Freezer
from tests.simulator.office.namespace import NETNS, OfficeError, environment, ip, running
from tests.simulator.office.office import PREFIX, clean
from tests.simulator.office.server import ADDRESS, MAC, Site, paths_of
from tests.simulator.office.site import generate

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="an office needs root")

BROADCAST = "ff:ff:ff:ff:ff:ff"
QUICK = Settings(sleep_s=0.2, wake_s=0.1)


@pytest.fixture(scope="module")
def shared() -> Iterator[Office]:
    with Office(board=QUICK) as office:
        yield office


@pytest.fixture
def office(shared: Office) -> Iterator[Office]:
    board = shared.server.board
    yield shared
    board.reset(QUICK)
    wait_for(lambda: board.state not in ("suspending", "resuming"), "the board to settle")
    if board.state != "on":
        board.power_on()
        wait_for(lambda: board.state == "on", "the server to wake")
    # A lookup that began while the server slept may still be about to fail.
    shared.client.run(["ip", "neigh", "flush", "dev", "eth0", "nud", "all"])


@pytest.fixture
def asleep(office: Office) -> Office:
    put_to_sleep(office)
    return office


def put_to_sleep(office: Office) -> None:
    office.server.board.suspend()
    wait_for(lambda: office.server.board.state == "off", "the server to sleep")


def await_state(office: Office, state: str) -> None:
    wait_for(lambda: office.server.board.state == state, f"the server to be {state}")


def count(office: Office, kind: str) -> int:
    return int(office.server.board.report()["counts"][kind])


def send_frame(
    office: Office, payload: bytes, to: str = BROADCAST, ethertype: int = 0x0842
) -> None:
    """Send a frame from the box and wait until the server's card has counted it."""
    with office.box.entered():
        wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    with wire:
        wire.bind(("eth0", 0))
        source = wire.getsockname()[4]
        wire.send(magic.address(to) + source + ethertype.to_bytes(2, "big") + payload)


def wake_frame(
    office: Office, payload: bytes, to: str = BROADCAST, ethertype: int = 0x0842
) -> bool:
    """Send it and tell whether the server began to wake."""
    before: dict[str, int] = office.server.board.report()["counts"]
    send_frame(office, payload, to, ethertype)
    # A known wrong packet behind it: once that is counted, so is the first.
    send_frame(office, magic.packet(b"\2mark!"))
    wait_for(lambda: count(office, "wrong") > before["wrong"], "the card to hear")
    return count(office, "acted") > before["acted"]


def ping(office: Office) -> bool:
    argv = ["ping", "-c1", "-W1", ADDRESS]
    return office.client.run(argv, check=False).returncode == 0


def get(office: Office, path: str, timeout_s: float = 5.0) -> tuple[int, dict[str, str], bytes]:
    connection = HTTPConnection(ADDRESS)
    connection.sock = office.client.connect(ADDRESS, 80, timeout_s=timeout_s)
    with contextlib.closing(connection):
        connection.request("GET", path)
        answer = connection.getresponse()
        headers = {name.lower(): value for name, value in answer.getheaders()}
        return answer.status, headers, answer.read()


def ssh_argv(office: Office) -> list[str | Path]:
    options = ["BatchMode=yes", "StrictHostKeyChecking=yes"]
    options.append(f"UserKnownHostsFile={office.server.known_hosts}")
    flags = [word for option in options for word in ("-o", option)]
    return ["ssh", "-i", office.server.private_key, *flags, f"root@{ADDRESS}"]


def ssh(office: Office, *command: str) -> subprocess.CompletedProcess[str]:
    return office.box.run([*ssh_argv(office), *command], check=False)


class TestSilence:
    def test_no_frame_of_a_sleeping_server_is_seen_on_the_switch(self, asleep: Office) -> None:
        with (
            asleep.capture(asleep.client, f"ether src {MAC}") as theirs,
            asleep.capture(asleep.client, f"ether dst {MAC} or arp") as ours,
        ):
            ping(asleep)
            asleep.server.run(["ping", "-c1", "-W1", BOX_ADDRESS], check=False)
            ours.wait(1)
            assert theirs.frames() == []

    def test_a_new_connection_hangs_and_is_not_refused(self, office: Office) -> None:
        # A client that does not know the card's address gets "no route" instead.
        known = ["lladdr", MAC, "dev", "eth0", "nud", "permanent"]
        office.client.run(["ip", "neigh", "replace", ADDRESS, *known])
        put_to_sleep(office)
        with pytest.raises(TimeoutError):
            office.client.connect(ADDRESS, 80, timeout_s=1.0)

    def test_an_established_connection_hangs_and_goes_on_after_the_wake(
        self, office: Office
    ) -> None:
        with office.client.connect(ADDRESS, 80) as line:
            line.sendall(b"GET /robots.txt HTTP/1.1\r\nHost: office\r\n")
            put_to_sleep(office)
            line.sendall(b"Connection: close\r\n\r\n")
            line.settimeout(1.0)
            with pytest.raises(TimeoutError):
                line.recv(1)
            office.server.board.power_on()
            line.settimeout(10.0)
            assert line.recv(100).startswith(b"HTTP/1.1 200 OK")

    def test_every_process_of_the_server_is_frozen(self, asleep: Office) -> None:
        assert asleep.server.freezer is not None
        assert asleep.server.freezer.frozen()
        assert len(asleep.server.freezer.pids()) >= 4  # nginx and its worker, app, sshd

    def test_it_takes_its_time_to_sleep_and_to_wake(self, office: Office) -> None:
        office.server.board.configure(sleep_s=0.5, wake_s=0.3)
        put_to_sleep(office)
        office.server.board.power_on()
        await_state(office, "on")
        times = {t["state"]: t["t_s"] for t in office.server.board.report()["transitions"][-4:]}
        assert times["off"] - times["suspending"] >= 0.5
        assert times["on"] - times["resuming"] >= 0.3

    @pytest.mark.parametrize("hierarchy", Freezer.hierarchies(), ids=str)
    def test_each_kind_of_control_group_freezes(self, hierarchy: Path) -> None:
        with Office(board=QUICK, freezer_hierarchy=hierarchy) as office:
            put_to_sleep(office)
            with pytest.raises(TimeoutError):
                get(office, "/", timeout_s=0.5)
            office.server.board.power_on()
            assert get(office, "/")[0] == 200


class TestMagicPacket:
    def test_a_udp_broadcast_wakes_the_server(self, asleep: Office) -> None:
        with asleep.box.entered():
            sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with sender:
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            sender.sendto(magic.packet(magic.address(MAC)), ("192.0.2.255", 9))
        await_state(asleep, "on")

    def test_a_packet_counts_anywhere_in_a_frame_of_any_type(self, asleep: Office) -> None:
        payload = b"before" + magic.packet(magic.address(MAC)) + b"behind"
        assert wake_frame(asleep, payload, ethertype=0x88B5)

    def test_an_invalid_magic_packet_does_not_count(self, asleep: Office) -> None:
        card, other = magic.address(MAC), "02:00:5e:10:00:03"
        for name, payload, to in (
            ("another machine's", magic.packet(magic.address(other)), BROADCAST),
            ("fifteen repetitions", magic.SYNC + 15 * card, BROADCAST),
            ("five sync bytes", b"\0" + magic.packet(card)[1:], BROADCAST),
            ("a frame for another card", magic.packet(card), other),
        ):
            assert not wake_frame(asleep, payload, to), name

    def test_secureon_wants_its_password(self, asleep: Office) -> None:
        asleep.server.board.configure(secureon="0102030405ff")
        packet = magic.packet(magic.address(MAC))
        assert not wake_frame(asleep, packet)
        assert wake_frame(asleep, packet + bytes.fromhex("0102030405ff"))

    def test_a_packet_for_a_running_server_does_nothing(self, office: Office) -> None:
        assert not wake_frame(office, magic.packet(magic.address(MAC)))
        assert office.server.board.report()["packets"][-1]["effect"] == "none, on"

    def test_a_packet_while_it_falls_asleep_is_lost(self, office: Office) -> None:
        office.server.board.configure(sleep_s=3.0)
        office.server.board.suspend()
        assert not wake_frame(office, magic.packet(magic.address(MAC)))
        await_state(office, "off")

    def test_the_first_packets_can_be_lost(self, asleep: Office) -> None:
        asleep.server.board.configure(ignore_packets=2)
        packet = magic.packet(magic.address(MAC))
        assert [wake_frame(asleep, packet) for _ in range(3)] == [False, False, True]

    def test_it_can_be_told_never_to_wake(self, asleep: Office) -> None:
        asleep.server.board.configure(never_wake=True)
        assert not wake_frame(asleep, magic.packet(magic.address(MAC)))

    def test_a_refusal_comes_back_in_words(self, office: Office) -> None:
        office.server.board.configure(refuse="a backup is running")
        done = ssh(office, "naproxy-sleep")
        assert (done.returncode, done.stdout) == (1, "a backup is running\n")
        assert office.server.board.state == "on"

    def test_a_held_command_returns_after_the_next_wake(self, office: Office) -> None:
        office.server.board.configure(hold_command=True)
        command = office.box.popen(ssh_argv(office))
        await_state(office, "off")
        assert command.poll() is None
        office.server.board.power_on()
        assert command.wait(timeout=10) == 0


class TestMisbehaviour:
    def test_it_hangs_on_resume_with_its_link_up(self, asleep: Office) -> None:
        asleep.server.board.configure(hang=True)
        asleep.box.run(["etherwake", "-i", "eth0", MAC])
        await_state(asleep, "hung")
        wait_for(lambda: ping(asleep), "an answer to a ping")
        with pytest.raises(TimeoutError):
            get(asleep, "/", timeout_s=0.5)

    def test_it_refuses_to_sleep_twice(self, asleep: Office) -> None:
        with pytest.raises(OfficeError, match="the machine is off"):
            asleep.server.board.suspend()

    @pytest.mark.parametrize(
        ("setting", "words"),
        [({"sleep_s": "soon"}, "sleep_s"), ({"wake_s": -1.0}, "wake_s"), ({"colour": 1}, "colour")],
    )
    def test_a_wrong_setting_is_named(
        self, office: Office, setting: dict[str, object], words: str
    ) -> None:
        with pytest.raises(OfficeError, match=words):
            office.server.board.configure(**setting)


class TestSite:
    def test_the_site_is_the_same_every_time(self, tmp_path: Path) -> None:
        def digest(root: Path) -> str:
            generate(root)
            files = sorted(file for file in root.rglob("*") if file.is_file())
            return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()

        assert digest(tmp_path / "one") == digest(tmp_path / "two")

    def test_every_file_of_the_site_is_served(self, office: Office) -> None:
        assert len(office.server.paths) > 300
        assert {get(office, path)[0] for path in office.server.paths} == {200}

    def test_a_request_is_counted_once_its_answer_has_arrived(self, office: Office) -> None:
        path = "/app/reply?size=200000"
        connection = HTTPConnection(ADDRESS)
        connection.sock = office.client.connect(ADDRESS, 80)
        for count in range(1, 201):
            connection.request("GET", path, headers={"X-Request-Id": path})
            connection.getresponse().read()
            assert office.server.received()[path] == count
        connection.close()

    def test_a_site_can_follow_a_log(self, tmp_path: Path) -> None:
        log = tmp_path / "access.log"
        line = '192.0.2.9 - - [01/Jan/2024:00:00:00 +0000] "GET {} HTTP/1.1" {} {} "-" "-"\n'
        log.write_text(line.format("/here", 200, 1234) + line.format("/gone", 404, 10))
        assert paths_of(log) == {"/here": (200, 1234), "/gone": (404, 10)}
        with Office(site=Site(log=log)) as office:
            status, _, body = get(office, "/here")
            assert (status, len(body)) == (200, 1234)
            assert get(office, "/gone")[0] == 404
            assert get(office, "/unheard-of")[0] == 200


def traces() -> set[str]:
    """Return all that offices make, as far as it is there now."""
    groups = [group for root in Freezer.hierarchies() for group in root.glob(f"{PREFIX}*")]
    files = list(Path(tempfile.gettempdir()).glob(f"{PREFIX}*"))
    return {str(path) for path in [*NETNS.glob(f"{PREFIX}*"), *groups, *files]}


def host_network() -> str:
    nft = subprocess.run(
        ["nft", "--stateless", "list", "ruleset"], capture_output=True, text=True, check=True
    )
    return ip("link") + ip("addr") + ip("route", "show", "table", "all") + nft.stdout


def start_alone() -> tuple[subprocess.Popen[str], str]:
    """Start an office in a process of its own; returns it and the office's name."""
    process = subprocess.Popen(
        # What a shell starts in the background ignores interrupts.
        ["env", "--default-signal=INT", sys.executable, "-m", "tests.simulator.office", "up"],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    assert process.stdout
    name = process.stdout.readline().split()[1].rstrip(",")
    wait_for(lambda: any(name in trace for trace in traces()), name)
    return process, name


class TestCleanup:
    def test_an_office_leaves_nothing_though_its_server_sleeps(self) -> None:
        network = host_network()
        with Office(board=QUICK) as office:
            pids = {pid for machine in (office.box, office.server) for pid in machine.pids()}
            assert host_network() == network
            put_to_sleep(office)
        # Others may stand beside it, and come meanwhile.
        assert not any(office.name in trace for trace in traces())
        assert not any(running(pid) for pid in pids)

    def test_an_exception_leaves_nothing(self) -> None:
        office = Office()
        with pytest.raises(ZeroDivisionError), office:
            raise ZeroDivisionError
        assert not any(office.name in trace for trace in traces())

    def test_a_failed_start_leaves_nothing(self, tmp_path: Path) -> None:
        office = Office(freezer_hierarchy=tmp_path / "nowhere")
        with pytest.raises(OSError, match="nowhere"), office:
            pass
        assert not any(office.name in trace for trace in traces())

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_a_signal_leaves_nothing(self, number: signal.Signals) -> None:
        process, name = start_alone()
        process.send_signal(number)
        process.communicate(timeout=20)
        assert not any(name in trace for trace in traces())

    def test_a_killed_offices_traces_can_be_removed(self) -> None:
        process, name = start_alone()
        process.kill()
        process.communicate(timeout=20)
        assert any(name in trace for trace in traces())
        assert name in clean()
        assert not any(name in trace for trace in traces())

    def test_a_living_office_is_not_removed(self, office: Office) -> None:
        assert office.name not in clean()
        wait_for(lambda: ping(office), "an answer to a ping")
