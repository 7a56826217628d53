"""The doctor's script, in a shell, with what real machines printed to their owners.

The programs are stand-ins that print a transcript; where each is from is said with it.
"""

import subprocess
from pathlib import Path

import pytest
from naproxy.config import document as config
from naproxy.core.findings import Finding
from naproxy.doctor import server as on_server

MAC = "d0:8e:79:bb:95:91"
BOX = "192.0.2.1"

# Broadcom BCM5720 (tg3), ethtool on Linux 6.8-rc: netdev@vger.kernel.org, February 2024, a report
# about "tg3: convert EEE handling to use linkmode bitmaps".
BCM5720 = """Settings for eno8403:
\tSupported ports: [ TP ]
\tSupports auto-negotiation: Yes
\tSpeed: Unknown!
\tDuplex: Unknown! (255)
\tPHYAD: 2
\tTransceiver: internal
\tSupports Wake-on: g
\tWake-on: d
\tCurrent message level: 0x000000ff (255)
\tLink detected: no
"""
BCM5720_EEE = """EEE settings for eno8403:
\tEEE status: enabled - inactive
\tTx LPI: 2047 (us)
\tSupported EEE link modes:  100baseT/Full
\t                           1000baseT/Full
\tLink partner advertised EEE link modes:  Not reported
"""
# wiki.mbirth.de/know-how/software/linux/wake-on-lan.html
PREPARED = BCM5720.replace("Wake-on: d", "Wake-on: g")
# Intel e1000, lspci -vv: linux-kernel@vger.kernel.org, 20 April 2004, "[2.6][NETFILTER][e1000
# w/NAPI] repeatable deadlock in uP & SMP".
E1000_PM = """\tCapabilities: [dc] Power Management version 2
\t\tFlags: PMEClk- DSI+ D1- D2- AuxCurrent=0mA PME(D0+,D1-,D2-,D3hot+,D3cold-)
\t\tStatus: D0 PME-Enable- DSel=0 DScale=1 PME-
"""
# linuxhint.com/ufw_status
UFW = """Status: active

To                         Action      From
--                         ------      ----
22/tcp                     ALLOW       Anywhere
22/tcp (v6)                ALLOW       Anywhere (v6)
"""
# Red Hat Enterprise Linux 9, "Configuring firewalls and packet filters": zone public as installed.
FIREWALLD = """case "$*" in
--state) echo running ;;
--get-zone-of-interface=*) echo public ;;
*--list-services) echo 'cockpit dhcpv6-client ssh' ;;
esac
"""


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Make a /sys with one card, and an empty directory of programs."""
    device = tmp_path / "sys/devices/pci0000:00/0000:03:00.1"
    (device / "power").mkdir(parents=True)
    (device / "power/wakeup").write_text("disabled\n")
    card = tmp_path / "sys/class/net/eno8403"
    card.mkdir(parents=True)
    (card / "address").write_text(f"{MAC}\n")
    (card / "device").symlink_to(device)
    (tmp_path / "sys/power").mkdir()
    (tmp_path / "sys/power/state").write_text("freeze mem disk\n")
    (tmp_path / "bin").mkdir()
    return tmp_path


def install(machine: Path, name: str, script: str) -> None:
    """Put a program there; `script` is what it does, in a shell."""
    program = machine / "bin" / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def prints(text: str) -> str:
    return f"cat <<'END'\n{text}END"


def look(machine: Path, driver: str = "agent") -> dict[str, Finding]:
    """Run the script there and return what the checks say that is not well."""
    server = config.parse(
        f'[[server]]\nid = "web"\naddress = "192.0.2.2"\nmac = "{MAC}"\n'
        f'[server.sleep]\ndriver = "{driver}"\n'
    ).server[0]
    done = subprocess.run(
        ["sh"],
        input=on_server.script(server, BOX).encode(),
        env={
            "PATH": f"{machine}/bin:/usr/bin:/bin",
            "SYS": str(machine / "sys"),
            "LOGS": str(machine / "log"),
            "ETC": str(machine / "etc"),
        },
        capture_output=True,
        check=True,
        timeout=30,
    )
    seen = on_server.Seen({**on_server.parse(done.stdout), "root": "yes"}, server)
    return {f.name: f for f in on_server.look(seen) if f.verdict not in ("ok", "not used")}


def ethtool(settings: str = BCM5720, eee: str = BCM5720_EEE) -> str:
    return f'if [ "$1" = --show-eee ]; then\n{prints(eee)}\nelse\n{prints(settings)}\nfi'


def command(machine: Path, order: str) -> None:
    """Make `order` what naproxy's key runs there."""
    install(machine, "getent", f"echo naproxy:x:99:99::{machine}/home:/bin/sh")
    install(machine, "naproxy-sleep", order)
    keys = machine / "home/.ssh/authorized_keys"
    keys.parent.mkdir(parents=True, exist_ok=True)
    keys.write_text(f'restrict,command="{machine}/bin/naproxy-sleep" ssh-ed25519 AAAA naproxy\n')


def verdict(machine: Path, check: str, driver: str) -> str | None:
    found = look(machine, driver).get(check)
    return found.verdict if found else None


COMBINED = '{} - - [23/Nov/2026:05:00:00 +0000] "GET / HTTP/1.1" 200 5 "-" "{}"\n'
"""As Apache and nginx write it by default, with the client and the User-Agent."""


def log(machine: Path, name: str, text: str) -> None:
    """Put a log of requests there."""
    file = machine / "log" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_a_log_that_has_the_box_as_the_client_is_a_note(machine: Path) -> None:
    log(machine, "nginx/access.log", COMBINED.format(BOX, "Firefox") * 60)
    log(machine, "apache2/access.log", COMBINED.format("2001:db8::7", "Firefox") * 50)
    found = look(machine)["logs_client"]
    assert (found.verdict, BOX in str(found.what)) == ("note", True)


def test_a_log_that_has_the_visitors_is_well_and_the_probes_do_not_count(machine: Path) -> None:
    probes = COMBINED.format(BOX, "naproxy/1.0 (readiness)") * 150
    log(machine, "nginx/access.log", probes + COMBINED.format("192.0.2.7", "Firefox") * 20)
    assert "logs_client" not in look(machine)


def test_a_log_of_all_sites_begins_with_the_site(machine: Path) -> None:
    lines = "www.example.org:80 " + COMBINED.format(BOX, "curl")
    log(machine, "apache2/other_vhosts_access.log", lines * 20)
    assert look(machine)["logs_client"].verdict == "note"


def test_an_agent_that_ignores_visitors_is_found_by_its_configuration(machine: Path) -> None:
    config = machine / "etc/naproxy-agent/naproxy-agent.conf"
    config.parent.mkdir(parents=True)
    for line, expected in (
        ("#connections-except-ports =", None),
        ("connections-except-ports = 80 443", "note"),
        ("connections-except-ports=all", "note"),
    ):
        config.write_text(f"[stay-awake]\n{line}\nprocesses = rsync\n")
        assert verdict(machine, "agent_sees_visitors", "agent") == expected, line


def test_a_command_of_an_earlier_version_is_found_by_what_it_lacks(machine: Path) -> None:
    for check, order, expected in (
        ("command_sees_visitors", 'echo "around $port $number"', None),
        ("command_sees_visitors", "exit 0", "note"),
        ("command_tells", "sudo -n /usr/local/sbin/naproxy-appointments", None),
        ("command_tells", "", "note"),
    ):
        command(machine, order)
        assert verdict(machine, check, "ssh") == expected, (check, order)
        assert verdict(machine, "forced_command", "ssh") is None, order


OLD_ORDER = "exec sudo -n systemctl suspend --check-inhibitors=yes"
NEW_ORDER = OLD_ORDER.replace("systemctl", '/usr/bin/setpriv --ruid "$(id -un)" /usr/bin/systemctl')
SEES_LOGINS = "session\toptional\tpam_systemd.so\n"


def test_command_that_counts_the_box_s_own_login_is_found(machine: Path) -> None:
    (machine / "etc/pam.d").mkdir(parents=True)
    for case, order, pam, expected in (
        ("earlier version", OLD_ORDER, SEES_LOGINS, "problem"),
        ("this version", NEW_ORDER, SEES_LOGINS, None),
        ("logind sees no logins", OLD_ORDER, f"# {SEES_LOGINS}", None),
        ("own way", "exec sudo -n /usr/local/sbin/our-own-way", SEES_LOGINS, None),
    ):
        command(machine, order)
        (machine / "etc/pam.d/common-session").write_text(pam)
        assert verdict(machine, "command_counts_box", "ssh") == expected, case


def test_wake_on_lan_that_is_off_is_found(machine: Path) -> None:
    install(machine, "ethtool", ethtool())
    found = look(machine)
    assert found["energy_efficient_ethernet"].verdict == "note"
    assert found["wake_on_lan"].verdict == "problem"
    assert str(found["wake_on_lan"].what) == "it is off: Wake-on: d"
    assert "ethtool -s eno8403 wol g" in str(found["wake_on_lan"].mend)
    install(machine, "ethtool", ethtool(PREPARED))
    assert "wake_on_lan" not in look(machine)


def test_a_card_whose_driver_knows_no_wake_on_lan_is_told(machine: Path) -> None:
    settings = "".join(x for x in BCM5720.splitlines(True) if "Wake-on" not in x)
    install(machine, "ethtool", ethtool(settings))
    assert "knows no wake-on-LAN" in str(look(machine)["wake_on_lan"].what)


def test_a_kernel_that_does_not_let_the_card_wake_is_told(machine: Path) -> None:
    assert "power/wakeup of the card is disabled" in str(look(machine)["device_wakeup"].what)


def test_a_card_without_power_in_deep_sleep_is_told(machine: Path) -> None:
    install(machine, "lspci", f'[ "$3" = 0000:03:00.1 ] || exit 1\n{prints(E1000_PM)}')
    found = look(machine)["firmware"]
    assert (found.verdict, "D3cold-" in str(found.what)) == ("note", True)
    assert "ErP" in str(found.mend)


def test_ufw_that_names_ssh_only_is_told_with_each_port_that_is_missing(machine: Path) -> None:
    install(machine, "ufw", prints(UFW))
    found = look(machine)["firewall"]
    assert "port 80 proto tcp, port 47809 proto udp" in str(found.what)


def test_firewalld_as_it_is_installed_keeps_the_box_out(machine: Path) -> None:
    install(machine, "firewall-cmd", FIREWALLD)
    found = look(machine)["firewall"]
    assert "firewalld's zone public does not name 80/tcp 47809/udp" in str(found.what)
    assert "--zone=public --add-port=80/tcp --add-port=47809/udp" in str(found.mend)


def test_a_masked_sleep_target_is_told_though_suspend_is_not_masked(machine: Path) -> None:
    # systemctl show -p LoadState --value, systemd 252, after `systemctl mask sleep.target`.
    install(machine, "systemctl", "case $* in *sleep.target) echo masked;; *) echo loaded;; esac")
    found = look(machine)["sleep_target"]
    assert str(found.what) == "masked: sleep.target"
    assert str(found.mend) == "systemctl unmask sleep.target"


def test_a_sleep_that_systemd_was_told_not_to_offer_is_told(machine: Path) -> None:
    install(machine, "systemctl", "echo loaded")
    # org.freedesktop.login1(5): CanSuspend returns na, yes, no or challenge.
    install(machine, "busctl", """[ "$6" = CanSuspend ] && echo '{"type":"s","data":["na"]}'""")
    assert "AllowSuspend=no" in str(look(machine)["sleep_target"].mend)
