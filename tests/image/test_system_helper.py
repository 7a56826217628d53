"""`naproxy-system`, as the controller calls it: settings, and settings that mean harm."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.image.standin import StandIn
from tests.patience import wait_for
from tests.simulator.office.namespace import ip

STATIC = "method=static\naddress=192.0.2.9/24\ngateway=192.0.2.1\ndns=192.0.2.2 192.0.2.3\n"
WRITTEN = "find /tmp -xdev -type f"
"""Prints the files in the box's /tmp; if the tree lies in this machine's, it is there, too."""
STUB = 'echo "${0##*/} $*" >>/tmp/calls'
NETWORK = r"""
rm -f /run/naproxy-system/network-is
setsid /etc/service/network/run &
service=$!
tries=200
until [ -e /run/naproxy-system/network-is ] || ! kill -0 $service 2>/dev/null; do
	[ $((tries -= 1)) -gt 0 ] || break
	sleep 0.1
done
kill -9 -$service 2>/dev/null
"""
"""The network's service begins, and is ended when it has an address or has given up."""


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandIn]:
    """A box whose supervisor is a script: it starts the network, and writes its calls down."""
    box = StandIn(tmp_path_factory.mktemp("helper"))
    box.program("usr/bin/network", NETWORK)
    start = '[ "$*" != "restart network" ] || network >/dev/null 2>&1'
    box.program("usr/bin/sv", f"{STUB}\n{start}\nexit 0")
    for name in ("usr/bin/chronyc", "usr/sbin/reboot", "usr/bin/arping", "usr/sbin/arping"):
        box.program(name, STUB)
    box.program("usr/sbin/udhcpc", f"{STUB}; sleep 1")
    box.boot()
    ip("-n", box.net.name, "link", "add", "eth0", "type", "veth", "peer", "name", "other")
    ip("-n", box.net.name, "link", "set", "other", "up")
    box.sh("echo 0 >/proc/sys/net/ipv6/conf/other/accept_ra")
    yield box
    box.off()


IDLE = 2
"""So many processes are there in a box that does nothing."""


@pytest.fixture
def box(machine: StandIn) -> StandIn:
    # What the test before left behind would write among the calls of this one.
    wait_for(lambda: len(machine.net.pids()) == IDLE, "the box to be idle")
    machine.sh(f"{WRITTEN} -exec rm {{}} +")
    machine.sh("rm -rf /run/naproxy-system/* /data/naproxy/system/*; ip addr flush eth0")
    machine.sh("echo 1 >/proc/sys/net/ipv6/conf/eth0/disable_ipv6")
    return machine


def helper(box: StandIn, *arguments: str) -> tuple[int, str]:
    done = box.run("/usr/sbin/naproxy-system", *arguments)
    return done.returncode, done.stderr.strip()


def setting(box: StandIn, text: str, name: str = "network.try") -> str:
    file = f"/data/naproxy/system/{name}"
    box.run("sh", "-c", 'printf %s "$1" >"$2"', "sh", text, file)
    return file


def called(box: StandIn, call: str) -> None:
    """What comes after the answer: in two seconds."""
    wait_for(lambda: call in box.sh("cat /tmp/calls 2>/dev/null"), call)


def test_a_static_address_is_set(box: StandIn) -> None:
    assert helper(box, "apply", "network", setting(box, STATIC)) == (0, "")
    assert " 192.0.2.9/24 " in box.sh("ip -4 -o addr show dev eth0")
    assert "default via 192.0.2.1 dev eth0" in box.sh("ip route")
    assert box.sh("cat /etc/resolv.conf") == "nameserver 192.0.2.2\nnameserver 192.0.2.3\n"


def test_dhcp_is_asked_and_not_waited_for(box: StandIn) -> None:
    assert helper(box, "apply", "network", setting(box, "method=dhcp\n")) == (0, "")
    assert "udhcpc -f -i eth0" in box.sh("cat /tmp/calls")


STATIC6 = f"{STATIC}ipv6=static\naddress6=fd00:1::9/64\ngateway6=fe80::1\nvlan=\n"
ROUTER = r"""
import socket, struct
sock = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 255)
prefix = struct.pack("!BBBBIII", 3, 4, 64, 0xC0, 3600, 3600, 0) + socket.inet_pton(10, "fd00:2::")
sock.sendto(
    struct.pack("!BBHBBHII", 134, 0, 0, 64, 0, 1800, 0, 0) + prefix,
    ("ff02::1", 0, 0, socket.if_nametoindex("other")),
)
"""
"""A router that announces itself and a prefix (RFC 4861, 4.2 and 4.6.2), on the other end."""


def addresses6(box: StandIn) -> list[str]:
    said = box.sh("ip -6 -o addr show dev eth0 scope global")
    return [line.split()[3] for line in said.splitlines()]


def routes6(box: StandIn) -> str:
    return box.sh("ip -6 route show default")


def settled(box: StandIn) -> None:
    wait_for(lambda: "tentative" not in box.sh("ip -6 addr"), "the addresses")


def announce(box: StandIn) -> None:
    """As a router does; not before both ends know their own addresses for sure."""
    settled(box)
    said = box.run("python3", "-c", ROUTER)
    assert said.returncode == 0, said.stderr


def test_a_static_address_of_ipv6_is_the_only_one(box: StandIn) -> None:
    assert helper(box, "apply", "network", setting(box, STATIC6)) == (0, "")
    assert "default via fe80::1 dev eth0" in routes6(box)
    announce(box)
    time.sleep(0.2)
    assert addresses6(box) == ["fd00:1::9/64"]
    assert len(routes6(box).splitlines()) == 1
    assert " 192.0.2.9/24 " in box.sh("ip -4 -o addr show dev eth0")


def test_without_a_gateway_of_ipv6_the_router_that_announces_itself_is_taken(box: StandIn) -> None:
    alone = STATIC6.replace("gateway6=fe80::1", "gateway6=")
    assert helper(box, "apply", "network", setting(box, alone)) == (0, "")
    announce(box)
    wait_for(lambda: "default via fe80::" in routes6(box), "the router")
    assert addresses6(box) == ["fd00:1::9/64"]


def test_by_itself_the_box_takes_what_a_router_announces(box: StandIn) -> None:
    assert helper(box, "apply", "network", setting(box, STATIC6)) == (0, "")
    assert helper(box, "apply", "network", setting(box, STATIC)) == (0, "")
    assert (addresses6(box), routes6(box)) == ([], "")
    announce(box)
    wait_for(lambda: addresses6(box), "an address")
    assert addresses6(box)[0].startswith("fd00:2::")
    assert "default via fe80::" in routes6(box)


def test_without_ipv6_the_box_has_no_address_of_it(box: StandIn) -> None:
    assert helper(box, "apply", "network", setting(box, f"{STATIC}ipv6=off\n")) == (0, "")
    announce(box)
    time.sleep(0.2)
    assert box.sh("ip -6 -o addr show dev eth0") == ""


def test_settings_that_stay_end_no_connection_by_ipv6(box: StandIn) -> None:
    """Its service begins anew, as when DHCP's client dies."""
    assert helper(box, "apply", "network", setting(box, STATIC6)) == (0, "")
    box.sh("ip -6 addr add fd00:1::77/64 dev eth0; network")
    assert "fd00:1::77/64" in addresses6(box)


def test_an_address_of_ipv6_that_another_machine_has_is_not_taken(box: StandIn) -> None:
    assert helper(box, "apply", "network", setting(box, STATIC))[0] == 0
    box.sh("ip -6 addr add fd00:1::9/64 dev other")
    settled(box)
    try:
        status, words = helper(box, "apply", "network", setting(box, STATIC6))
    finally:
        box.sh("ip -6 addr del fd00:1::9/64 dev other")
    assert (status, words) == (
        1,
        "another machine has the address fd00:1::9/64; the settings before are used",
    )
    assert addresses6(box) == []


def test_a_gateway_of_ipv6_that_is_out_of_reach_leaves_what_was_before(box: StandIn) -> None:
    assert helper(box, "apply", "network", setting(box, STATIC6))[0] == 0
    away = STATIC6.replace("fe80::1", "fd00:9::1").replace("::9/64", "::8/64")
    status, words = helper(box, "apply", "network", setting(box, away))
    assert (status, words) == (1, "the address could not be set; the settings before are used")
    assert addresses6(box) == ["fd00:1::9/64"]


VLAN = STATIC6.replace("vlan=\n", "vlan=7\n")


def knows_vlans(box: StandIn) -> bool:
    return box.sh("ip link add link other name other.7 type vlan id 7") == ""


def test_a_vlan_is_the_interface_or_what_was_before_stays(box: StandIn) -> None:
    """The kernel of a machine for tests may know no VLANs: then nothing may be lost by one."""
    assert helper(box, "apply", "network", setting(box, STATIC6))[0] == 0
    known = knows_vlans(box)
    status, words = helper(box, "apply", "network", setting(box, VLAN.replace(".9/", ".7/")))
    if known:
        assert (status, words) == (0, "")
        said = box.sh("cat /proc/net/vlan/config").replace(" ", "")
        assert "eth0|7|wire0" in said
        assert "wire0" in box.sh("ip -o link show eth0")
        assert box.sh("ip -o addr show dev wire0") == ""
        assert addresses6(box) == ["fd00:1::9/64"]
        assert helper(box, "apply", "network", setting(box, STATIC6)) == (0, "")
        box.sh("ip link del other.7")
    else:
        assert (status, words) == (1, "the address could not be set; the settings before are used")
    assert "wire0" not in box.sh("ip -o link")
    assert " 192.0.2.9/24 " in box.sh("ip -4 -o addr show dev eth0")
    assert addresses6(box) == ["fd00:1::9/64"]


def test_a_card_that_was_left_on_its_way_to_a_vlan_is_found_again(box: StandIn) -> None:
    """A service may be killed between two steps."""
    box.sh("ip link set eth0 down; ip link set eth0 name wire0")
    assert helper(box, "apply", "network", setting(box, STATIC)) == (0, "")


def test_an_address_that_cannot_be_set_leaves_the_one_before(box: StandIn) -> None:
    assert helper(box, "apply", "network", setting(box, STATIC))[0] == 0
    unreachable = STATIC.replace("192.0.2.9/24", "192.0.2.10/24").replace(
        "192.0.2.1\n", "198.51.100.1\n"
    )
    status, words = helper(box, "apply", "network", setting(box, unreachable))
    assert (status, words) == (1, "the address could not be set; the settings before are used")
    assert " 192.0.2.9/24 " in box.sh("ip -4 -o addr show dev eth0")


def test_at_a_start_only_what_was_kept_counts(box: StandIn) -> None:
    setting(box, STATIC)
    setting(box, STATIC.replace(".9/", ".77/"), "network.conf")
    box.sh("network")
    assert " 192.0.2.77/24 " in box.sh("ip -4 -o addr show dev eth0")


def test_without_settings_or_with_wrong_ones_the_box_asks_dhcp(box: StandIn) -> None:
    setting(box, STATIC.replace("192.0.2.9", "192.0.2.999"), "network.conf")
    said = box.sh("network")
    assert "is not used: address: must be as 192.168.1.5/24" in said
    assert "udhcpc -f -i eth0" in box.sh("cat /tmp/calls")


HARM = (
    "$(touch /tmp/spy)",
    "`touch /tmp/spy`",
    "x; touch /tmp/spy",
    "a'b",
    "--help",
    "*",
    "\x1b[2J",
)


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("network", "method=HARM\n"),
        ("network", "method=static\naddress=HARM/24\n"),
        ("network", "method=static\naddress=192.0.2.9/HARM\n"),
        ("network", "method=static\naddress=192.0.2.9/24\ngateway=HARM\n"),
        ("network", "method=dhcp\ndns=HARM\n"),
        ("network", "method=dhcp\nipv6=HARM\n"),
        ("network", "method=dhcp\nipv6=static\naddress6=HARM/64\n"),
        ("network", "method=dhcp\nipv6=static\naddress6=fd00::5/HARM\n"),
        ("network", "method=dhcp\nipv6=static\naddress6=fd00::5/64\ngateway6=HARM\n"),
        ("network", "method=dhcp\nvlan=HARM\n"),
        ("time", "time_zone=HARM\n"),
        ("time", "time_zone=Europe/Zurich\nntp=HARM x\n"),
        ("name", "name=HARM\n"),
    ],
)
def test_settings_that_mean_harm_are_refused_and_change_nothing(
    what: str, text: str, box: StandIn
) -> None:
    look = (
        "hostname; readlink /run/localtime; cat /run/chrony.d/*; ip addr; cat /run/naproxy-system/*"
    )
    before = box.sh(look)
    for harm in HARM:
        status, words = helper(box, "apply", what, setting(box, text.replace("HARM", harm)))
        assert (status, bool(words), harm in words) == (1, True, False), harm
    assert box.sh(look) == before
    assert box.sh(WRITTEN) == ""


def test_time_zone_and_servers(box: StandIn) -> None:
    chosen = setting(
        box, "time_zone=Europe/Zurich\nntp=192.0.2.1 ntp.office.example\n", "time.conf"
    )
    assert helper(box, "apply", "time", chosen) == (0, "")
    assert box.sh("readlink -f /etc/localtime") == "/usr/share/zoneinfo/Europe/Zurich\n"
    servers = "server 192.0.2.1 iburst\nserver ntp.office.example iburst\n"
    assert box.sh("cat /run/chrony.d/chosen.sources") == servers
    assert "chronyc reload sources" in box.sh("cat /tmp/calls")


def test_without_chosen_servers_the_image_has_its_own(box: StandIn) -> None:
    helper(box, "apply", "time", setting(box, "time_zone=Europe/Zurich\nntp=\n", "time.conf"))
    assert box.sh("cat /run/chrony.d/chosen.sources") == "pool pool.ntp.org iburst\n"


def test_a_name(box: StandIn) -> None:
    assert helper(box, "apply", "name", setting(box, "name=front-door\n", "name.conf")) == (0, "")
    assert box.sh("hostname") == "front-door\n"
    assert "sv restart mdnsd" in box.sh("cat /tmp/calls")
    called(box, "sv restart lighttpd")


def test_what_is_not_in_the_contract_is_refused(box: StandIn) -> None:
    for arguments in (
        (),
        ("apply",),
        ("apply", "network"),
        ("apply", "other", "/tmp/x"),
        ("apply", "network", "/tmp/none"),
        ("apply", "network", "/tmp"),
        ("restart",),
        ("restart", "controller"),
        ("restart", "varnish webui"),
        ("restart", "../../etc"),
        ("reboot", "now"),
        ("reset", "x"),
        ("apply network", "x"),
    ):
        status, words = helper(box, *arguments)
        assert (status, bool(words)) == (1, True), arguments
    assert box.sh(WRITTEN) == ""


@pytest.mark.parametrize("service", ["varnish", "edge"])
def test_a_restart_of_what_visitors_meet_is_done_before_the_answer(
    service: str, box: StandIn
) -> None:
    assert helper(box, "restart", service) == (0, "")
    assert box.sh("cat /tmp/calls") == f"sv restart {service}\n"


def test_a_restart_of_what_carries_the_answer_comes_after_it(box: StandIn) -> None:
    said = box.sh("naproxy-system restart lighttpd && echo answered; cat /tmp/calls 2>/dev/null")
    assert said == "answered\n"
    called(box, "sv restart lighttpd")


def test_a_reset_is_written_down_before_the_restart(box: StandIn) -> None:
    assert helper(box, "reset") == (0, "")
    assert box.sh("ls /data/.reset; rm /data/.reset") == "/data/.reset\n"
    called(box, "reboot")


def test_a_reset_that_cannot_be_written_down_is_refused(box: StandIn) -> None:
    box.sh("mount -o remount,ro /data")
    try:
        assert helper(box, "reset") == (1, "nothing can be written on /data")
    finally:
        box.sh("mount -o remount,rw /data")
    # It would have been asked for two seconds later: who had to do so would be there until then.
    wait_for(lambda: len(box.net.pids()) == IDLE, "the box to be idle")
    assert "reboot" not in box.sh("cat /tmp/calls 2>/dev/null")


OFFER = {"interface": "eth0", "ip": "192.0.2.9", "mask": "24", "router": "192.0.2.1 192.0.2.8"}


def dhcp(box: StandIn, event: str, **offer: str) -> str:
    done = box.run("/usr/libexec/naproxy-dhcp", event, env=offer)
    return done.stdout + done.stderr


def test_what_a_dhcp_server_offers_is_used(box: StandIn) -> None:
    said = dhcp(box, "bound", **OFFER, dns="192.0.2.2", ntpsrv="192.0.2.3")
    assert said == "address 192.0.2.9/24 by DHCP\n"
    assert "default via 192.0.2.1" in box.sh("ip route")
    assert box.sh("cat /etc/resolv.conf") == "nameserver 192.0.2.2\n"
    assert box.sh("cat /run/chrony.d/dhcp.sources") == "server 192.0.2.3 iburst\n"


def test_an_address_is_announced_once(box: StandIn) -> None:
    for event in ("bound", "renew", "renew"):
        dhcp(box, event, **OFFER)
    said = wait_for(lambda: box.sh("grep arping /tmp/calls"), "the announcement")
    assert said == "arping -q -U -c 1 -I eth0 192.0.2.9\n"


def test_chosen_name_servers_go_before_those_of_dhcp(box: StandIn) -> None:
    setting(box, "method=dhcp\ndns=198.51.100.1\n", "network.conf")
    dhcp(box, "bound", **OFFER, dns="192.0.2.2")
    assert box.sh("cat /etc/resolv.conf") == "nameserver 198.51.100.1\n"


def test_a_dhcp_server_that_means_harm_gets_nowhere(box: StandIn) -> None:
    for harm in HARM:
        offer = OFFER | {"router": harm, "dns": f"{harm} 192.0.2.2", "ntpsrv": f"{harm} 192.0.2.3"}
        dhcp(box, "bound", **offer, domain=harm)
        assert "default" not in box.sh("ip route"), harm
        assert box.sh("cat /etc/resolv.conf") == "nameserver 192.0.2.2\n", harm
        assert box.sh("cat /run/chrony.d/dhcp.sources") == "server 192.0.2.3 iburst\n", harm
    assert "spy" not in box.sh(WRITTEN)


def test_an_address_that_is_none_is_not_taken(box: StandIn) -> None:
    for harm in HARM:
        said = dhcp(box, "bound", **(OFFER | {"ip": harm}))
        assert said == "the DHCP server offered no usable address\n", harm
    assert "inet " not in box.sh("ip -4 addr show dev eth0")


def test_a_lease_that_ends_takes_the_address_away(box: StandIn) -> None:
    dhcp(box, "bound", **OFFER)
    dhcp(box, "deconfig", interface="eth0")
    assert "inet " not in box.sh("ip -4 addr show dev eth0")


def test_the_helper_is_where_the_controller_looks_for_it() -> None:
    top = Path(__file__).resolve().parents[2]
    from naproxy.config.installation import Installation  # noqa: PLC0415

    assert (top / "overlay" / Installation().helper.lstrip("/")).stat().st_mode & 0o111
