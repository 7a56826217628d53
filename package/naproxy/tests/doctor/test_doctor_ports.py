"""What the doctor says of what else a server does, and how it looks from the network."""

from __future__ import annotations

import asyncio
import dataclasses
import socket
import threading
from collections.abc import Iterator

import pytest
from free_port import free_port
from naproxy.config import document as config
from naproxy.core import findings
from naproxy.core.findings import Finding
from naproxy.doctor import ports, readings
from naproxy.server.services import Listener

SERVER = '[[server]]\nid = "web"\naddress = "192.0.2.2"\nmac = "02:00:00:00:00:02"\n'


def look(
    known: str = "",
    *choices: str,
    driver: str = "ssh",
    told: bool = True,
    **more: object,
) -> Finding:
    """Return what the doctor says where the controller knows these ports."""
    text = f'{SERVER}[server.sleep]\ndriver = "{driver}"\n[server.awake]\nservices = {[*choices]}\n'
    status = {"services": {"told": told, "listens": known}}
    seen = readings.Seen(
        server=config.parse(text).server[0],
        interface="eth0",
        known=readings.Known(status, {}),
    )
    seen = dataclasses.replace(seen, **more)  # type: ignore[arg-type]
    [found] = [each for each in _looked(seen) if each.name == "other_services"]
    return found


def _looked(seen: readings.Seen) -> list[Finding]:
    return findings.look("box", ports.CHECKS, seen)


def test_a_service_that_others_need_is_a_problem_in_words() -> None:
    found = look("22/tcp/sshd 67/udp/dnsmasq 445/tcp/smbd")
    assert found.verdict == "problem"
    said = str(found.what)
    assert "gives out network addresses (DHCP) (67/udp): do not let it sleep" in said
    assert "shares folders (SMB, Windows) (445/tcp): it stays awake while somebody" in said
    assert '"dhcp never", "smb used"' in str(found.mend)
    many = look(" ".join(f"{port}/tcp" for port in range(10_000, 10_200)))
    assert len(str(many.what)) < 5000


def test_a_service_whose_users_are_seen_and_a_port_that_nobody_knows_are_notes() -> None:
    for port, words in (
        ("445/tcp/smbd", "SMB"),
        ("5000/tcp/python3", "it runs python3 (5000/tcp)"),
    ):
        found = look(port)
        assert (found.verdict, words in str(found.what)) == ("note", True), port


def test_what_the_office_chose_is_not_said_again() -> None:
    choices = ("dhcp never", "smb used", "5000/tcp ignore")
    assert look("67/udp 445/tcp 5000/tcp", *choices).verdict == "ok"


def test_a_way_to_sleep_that_cannot_look_is_told() -> None:
    found = look("445/tcp/smbd", driver="itself")
    assert "nobody looks who is connected" in str(found.what)


def test_a_use_of_udp_that_cannot_be_seen_is_a_problem() -> None:
    assert look("flows 51820/udp", "vpn used").verdict == "ok"
    found = look("51820/udp", "vpn used")
    assert found.verdict == "problem"
    assert "no table of connections" in str(found.what)
    assert "ct state" in str(found.mend)


def test_what_answers_from_the_network_counts_where_the_server_did_not_tell() -> None:
    assert look(told=False).verdict == "not seen"
    assert look(told=False, met=()).verdict == "ok"
    assert look(told=False, met=(Listener(53, "udp"),)).verdict == "problem"
    assert look("53/udp/named", "dns ignore", met=(Listener(53, "udp"),)).verdict == "ok"
    # What somebody brought from the server holds.
    assert look("67/udp", listens="22/tcp/sshd").verdict == "ok"


def test_what_is_garbled_or_too_long_is_told_and_shown_safely() -> None:
    for text in ("445/tcp/\x1b[2J", "x" * 9000, "445/tcp " * 300, "; rm -rf /"):
        found = look("", listens=text)
        assert found.verdict == "not seen", text
        assert found.what, text
        assert str(found.what).isprintable(), text
        assert len(str(found.what)) < 300, text


@pytest.fixture
def dns() -> Iterator[int]:
    """A server that answers one question as DNS does."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("127.0.0.1", 0))

    def answer() -> None:
        try:
            question, peer = sock.recvfrom(512)
        except OSError:
            return
        sock.sendto(question[:2] + b"\x81\x05" + question[4:], peer)

    threading.Thread(target=answer, daemon=True).start()
    yield sock.getsockname()[1]
    sock.close()


def test_ports_are_met_from_the_network(monkeypatch: pytest.MonkeyPatch, dns: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        monkeypatch.setattr(ports, "_TCP", (port, free_port()))
        monkeypatch.setattr(ports, "_DNS", dns)
        found = asyncio.run(ports.meet("127.0.0.1"))
    assert set(found) == {Listener(port, "tcp"), Listener(dns, "udp")}


def test_a_closed_port_of_udp_answers_no_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_TCP", ())
    monkeypatch.setattr(ports, "_DNS", free_port(socket.SOCK_DGRAM))
    assert asyncio.run(ports.meet("127.0.0.1")) == ()
