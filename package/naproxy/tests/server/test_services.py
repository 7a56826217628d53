"""What else a server does: what it tells of its ports, what they are, and what becomes of them."""

from __future__ import annotations

from datetime import UTC

import pytest
from hypothesis import given
from hypothesis import strategies as st
from naproxy.config import document
from naproxy.core.reason import Reason, WrongError
from naproxy.core.schema import ConfigError
from naproxy.server import services
from naproxy.server.inhibitors import Guard, Readings, Settings
from naproxy.server.services import IGNORE, NEVER, USED, Known, Listener, Listening, Office, parse

OFFICE = "flows 22/tcp/sshd 53/udp/dnsmasq 67/udp/dnsmasq 80/tcp/nginx 139/tcp/smbd 445/tcp/smbd"
SERVER = '[[server]]\nid = "web"\naddress = "192.0.2.2"\nmac = "02:00:00:00:00:02"\n'


def found(text: str, *choices: str) -> dict[str, str]:
    """Return what holds for each service of these ports."""
    office = Office(choices, frozenset({"80/tcp"}))
    return {each.key: each.effect for each in office.services(parse(text).listeners)}


def test_a_report_is_read_and_written_again() -> None:
    told = parse(f"{OFFICE} more/3")
    assert told.flows
    assert told.more == 3
    assert told.listeners[1] == Listener(53, "udp", "dnsmasq")
    assert parse(told.text()) == told


def test_a_port_that_is_told_twice_is_one_with_its_program() -> None:
    assert parse("445/tcp 445/tcp/smbd 445/tcp").listeners == (Listener(445, "tcp", "smbd"),)


GARBLED = (
    *("445", "0/tcp", "65536/tcp", "445/sctp", "٤٤٥/tcp", "445/tcp/\x1b[2J", "445/tcp/a/b"),
    *("445/tcp/" + "x" * 16, "more/x", "445/tcp/sm\u0308bd", "-1/udp", "flows=yes"),
)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        *((f"22/tcp/sshd {word} 80/tcp", "bad word") for word in GARBLED),
        ("1/tcp " * 257, "too long"),
        ("x" * 8193, "too long"),
    ],
)
def test_a_garbled_or_overlong_report_is_rejected(text: str, why: str) -> None:
    with pytest.raises(services.UnreadableError, match=why) as refused:
        parse(text)
    assert str(refused.value).isprintable()


@given(st.text(max_size=400))
def test_any_report_is_read_or_rejected(text: str) -> None:
    try:
        told = parse(text)
    except services.UnreadableError:
        return
    assert parse(told.text()) == told
    Office().services(told.listeners)


def test_an_office_server_s_ports_are_named() -> None:
    said = [str(each.name) for each in Office().services(parse(OFFICE).listeners)]
    assert said[:3] == [
        "gives out network addresses (DHCP)",
        "answers for names (DNS)",
        "shares folders (SMB, Windows)",
    ]


KNOWN = {
    "67/udp": {"dhcp": NEVER},
    "53/tcp": {"dns": NEVER},
    "1194/udp": {"vpn": NEVER},
    "51820/udp": {"vpn": NEVER},
    "4500/udp": {"vpn": NEVER},
    "25/tcp/master": {"mail": NEVER},
    "88/tcp 389/tcp": {"directory": NEVER},
    "5060/udp": {"phones": NEVER},
    "554/tcp": {"cameras": NEVER},
    "3493/tcp": {"ups": NEVER},
    "1883/tcp": {"mqtt": NEVER},
    "8123/tcp": {"home": NEVER},
    "3478/udp": {"calls": NEVER},
    "8443/tcp/java 8080/tcp/java 3478/udp/java": {"wlan": NEVER},
    "445/tcp": {"smb": USED},
    "2049/tcp": {"nfs": USED},
    "5432/tcp": {"database": USED},
    "3389/tcp": {"desktop": USED},
    "32400/tcp": {"media": USED},
    "8096/tcp": {"media": USED},
    "631/tcp": {"print": USED},
    "9100/tcp": {"print": USED},
    "9100/tcp/node_exporter": {"watched": IGNORE},
    "873/tcp": {"backup": USED},
    "8007/tcp": {"backup": USED},
    "123/udp": {"time": IGNORE},
    "11940/udp/openvpn": {"vpn": NEVER},
    "5000/tcp/python3": {"5000/tcp": USED},
    "8443/tcp/nginx": {"8443/tcp": USED},
    "20000/udp/odd": {"20000/udp": IGNORE},
    # Ports of UDP that Linux gives to whoever asks.
    "40000/udp/chronyd 45000/udp/odd 45000/tcp/odd": {"time": IGNORE, "45000/tcp": USED},
}


def test_a_service_is_known_by_its_ports_or_its_program() -> None:
    for ports, proposals in KNOWN.items():
        assert found(ports) == proposals, ports


def test_the_boxs_own_ports_are_not_other_services() -> None:
    told = f'{SERVER}[server.sleep]\ndriver = "agent"\nport = 47000\n'
    office = document.office_of(document.parse(told).server[0])
    assert office.services(parse("80/tcp 443/tcp 47000/udp/python3").listeners) == []


def test_the_offices_choice_holds_and_of_two_the_stronger() -> None:
    choices = ("dns ignore", "smb never", "smb ignore", "5000/tcp ignore")
    assert found("53/udp 445/tcp 5000/tcp", *choices) == {
        "dns": IGNORE,
        "smb": NEVER,
        "5000/tcp": IGNORE,
    }


@pytest.mark.parametrize(
    "choice", ["dsn never", "dns", "dns  never", "0/tcp used", "70000/tcp used", "53 never", ""]
)
def test_an_invalid_choice_is_rejected(choice: str) -> None:
    with pytest.raises(WrongError) as refused:
        services.chosen(choice)
    assert "dns never" in str(refused.value)


def test_connections_count_where_nothing_was_chosen_and_of_udp_where_it_was() -> None:
    told = parse("137/udp 445/tcp 53/udp 1900/udp 8200/tcp 51820/udp 5000/tcp 5353/udp").listeners
    assert Office().watched(()) == ["139/tcp", "445/tcp", "2049/tcp"]
    assert Office().watched(told) == ["139/tcp", "445/tcp", "2049/tcp", "8200/tcp", "5000/tcp"]
    chosen = Office(("smb ignore", "vpn used", "dns never", "media used"))
    assert chosen.watched(told) == ["2049/tcp", "51820/udp", "8200/tcp", "5000/tcp"]
    assert chosen.ignored(told) == ["137/udp", "445/tcp"]


def test_a_server_that_must_never_sleep_does_not_by_hand_either() -> None:
    guard = Guard(Settings(services=("dhcp never", "5000/tcp never", "smb used")), UTC)
    said = guard.inhibitors(Readings(wall_s=2e9), by_hand=True)
    assert said == [
        Reason("server.never_sleeps", service=Reason("serves.dhcp")),
        Reason("server.never_sleeps", service=Reason("serves.port", port="5000/tcp")),
    ]


def test_a_way_to_sleep_that_cannot_look_takes_no_service_that_is_to_be_looked_at() -> None:
    way = '[server.sleep]\ndriver = "command"\nprogram = "sleep-web"\n'
    told = '[server.awake]\nservices = ["{}"]\n'
    document.parse(f'{SERVER}[server.sleep]\ndriver = "ssh"\n{told.format("smb used")}')
    with pytest.raises(ConfigError, match="services: only ssh and the agent"):
        document.parse(SERVER + way + told.format("smb used"))


def test_the_last_report_holds_and_the_network_adds_answering_ports() -> None:
    known = Known()
    known.meet([Listener(53, "udp"), Listener(445, "tcp")])
    known.tell(parse("445/tcp/smbd 3306/tcp/mariadbd"), by_itself=True)
    assert known.all.text() == "53/udp 445/tcp/smbd 3306/tcp/mariadbd"
    known.tell(parse("flows 445/tcp/smbd"), by_itself=False)
    again = Known()
    again.load(known.dump())
    assert again.all == known.all == parse("flows 53/udp 445/tcp/smbd")
    assert again.by_itself


def test_invalid_kept_values_are_ignored() -> None:
    good = {"told": "x", "met": ""}
    for saved in ({}, {**good, "told": 5}, good, {"told": None, "met": "\x00"}):
        known = Known()
        known.load(saved)
        assert known.all == Listening(), saved
        assert not known.by_itself, saved
