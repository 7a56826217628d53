"""A machine of each release: installed, claimed, used, upgraded, removed, purged; in order."""

import re
import shlex
from collections.abc import Iterator

import pytest

from tests.deb.machine import BEFORE, Machine
from tests.patience import wait_for

OURS = (
    *("naproxy-controller", "naproxy-edge", "naproxy-through", "naproxy-webui"),
    *("naproxy-lighttpd", "varnish"),
)
CONFIG = """
[box]
interface = "lo"
[[server]]
id = "web"
hosts = ["www.example.org"]
address = "127.0.0.1"
port = 9000
mac = "02:00:00:00:00:01"
[server.https]
mode = "box"
"""
MQTT = '\n[mqtt]\nhost = "127.0.0.1"\npassword = "hidden"\n'
WRITE = """
import socket
text = open("/etc/naproxy/naproxy.toml").read()
text = text.replace("[box]", '[box]\\nnotice = "Hello"').encode()
line = socket.socket(socket.AF_UNIX)
line.connect("/run/naproxy/control.sock")
head = f"PUT /v1/config HTTP/1.1\\r\\nHost: box\\r\\nContent-Length: {len(text)}\\r\\n\\r\\n"
line.sendall(head.encode() + text)
print(line.recv(1000).decode())
"""
IMPORT_ALL = """
import importlib, pkgutil, naproxy, naproxy_meter, naproxy_webui
FOR_A_PICO = {"naproxy_meter.pico"}
for package in naproxy, naproxy_meter, naproxy_webui:
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not module.name.endswith("__main__") and module.name not in FOR_A_PICO:
            importlib.import_module(module.name)
"""
ALL = "/old/naproxy_*.deb /old/naproxy-meter_*.deb /old/naproxy-webui_*.deb"


@pytest.fixture(scope="module", params=["bookworm", "trixie"])
def machine(request: pytest.FixtureRequest) -> Iterator[Machine]:
    with Machine(request.param) as machine:
        machine.run(f"apt-get -q -y install {ALL}")
        yield machine


def page(machine: Machine, path: str, more: str = "") -> str:
    """Ask the web interface as a browser would; returns head and body."""
    return machine.run(f"curl -ksi --max-time 20 {more} https://localhost:8443{path}", check=False)


def claim_code(machine: Machine) -> str:
    def said() -> str:
        return machine.run("journalctl -u naproxy-webui -o cat --no-pager")

    wait_for(lambda: "claim code" in said(), "the claim code", 60)
    found = re.findall(r"claim code of this box is (\S+)", said())
    return str(found[-1])


def fingerprint(machine: Machine) -> str:
    """Return the SHA-256 of what port 8443 shows."""
    return machine.run(
        "openssl s_client -connect localhost:8443 </dev/null 2>/dev/null"
        " | openssl x509 -noout -fingerprint -sha256 2>/dev/null | cut -d= -f2",
        check=False,
    ).strip()


def configure(machine: Machine, text: str) -> None:
    machine.write("/etc/naproxy/naproxy.toml", text)
    machine.run("chmod 600 /etc/naproxy/naproxy.toml; systemctl reload naproxy-controller")


def status(machine: Machine) -> str:
    return machine.run("naproxy status", check=False)


def test_the_machine_leads_to_the_claim_page(machine: Machine) -> None:
    wait_for(lambda: "/claim" in page(machine, "/"), "the claim page", 60)
    said = page(machine, "/claim")
    assert said.startswith("HTTP/2 200")
    assert 'name="code"' in said


def test_all_of_it_runs_and_nothing_has_failed(machine: Machine) -> None:
    for unit in OURS:
        assert machine.run(f"systemctl is-active {unit}").strip() == "active"
        if unit != "varnish":
            assert machine.run(f"systemctl is-enabled {unit}").strip() == "enabled"
    assert machine.state() == "running", machine.run("systemctl --failed --no-pager")


def test_the_services_that_came_with_it_serve_nothing_of_their_own(machine: Machine) -> None:
    listening = machine.run("ss -Htln | grep -v '127.0.0.1:\\|::1]:'")
    ports = {int(number) for number in re.findall(r"[\]*0-9]:(\d+) ", listening)}
    assert ports == {80, 8080, 8443}, listening
    for unit in ("haproxy", "lighttpd", "varnishncsa"):
        assert machine.run(f"systemctl is-active {unit}", check=False).strip() == "inactive"


def test_systemd_finds_nothing_wrong_with_the_units(machine: Machine) -> None:
    units = machine.run("dpkg -L naproxy naproxy-webui | grep 'system/naproxy-.*[.]'").split()
    assert len(units) > 6
    said = machine.run(f"systemd-analyze verify --man=no {' '.join(units)} varnish.service 2>&1")
    assert "naproxy" not in said


def test_all_modules_can_be_imported_with_debians(machine: Machine) -> None:
    machine.write("/root/all.py", IMPORT_ALL)
    assert machine.run("python3 -I /root/all.py") == ""


def test_visitors_read_that_the_box_is_not_set_up(machine: Machine) -> None:
    said = machine.run("curl -si http://localhost/")
    assert said.startswith("HTTP/1.1 503")
    assert ":8443" in said


def test_files_of_the_page_are_compressed_and_http_leads_to_https(machine: Machine) -> None:
    style = re.search(r'href="(/static/[^"]+[.]css)"', page(machine, "/claim"))
    assert style
    said = page(machine, style[1], "--compressed --http1.1")
    assert "Content-Encoding: gzip" in said
    said = machine.run("curl -si http://localhost:8080/claim")
    assert "308" in said.splitlines()[0]
    assert "Location: https://localhost:8443/claim" in said


def test_the_agent_is_handed_out(machine: Machine) -> None:
    packed = "https://localhost:8443/agent/naproxy-agent.tar.gz"
    listed = machine.run(f"curl -ks {packed} | tar -tz")
    assert {"naproxy-agent/install", "naproxy-agent/src/naproxy_agent.py"} <= set(listed.split())


def test_lighttpd_has_no_rights_of_root(machine: Machine) -> None:
    found = machine.run("cat /proc/$(systemctl show -P MainPID naproxy-lighttpd)/status")
    assert re.search(r"^CapBnd:\s+0+$", found, re.M)
    number = machine.run("id -u naproxy-lighttpd").strip()
    assert re.search(rf"^Uid:\s+{number}\s+{number}", found, re.M)


def test_only_our_lighttpd_may_speak_to_the_web_interface(machine: Machine) -> None:
    ask = "curl -so /dev/null -w '%{http_code}' -H 'X-Forwarded-For: 192.0.2.66'"
    ask += " --unix-socket /run/naproxy-webui/http.sock http://localhost/claim"
    assert machine.run(f"runuser -u naproxy-lighttpd -- {ask}") == "200"
    assert machine.run(f"runuser -u www-data -- {ask}", check=False) == "000"


def test_the_claim_code_makes_the_first_user(machine: Machine) -> None:
    form = {"code": claim_code(machine), "name": "anna"}
    form |= dict.fromkeys(("password", "password_again"), "paper boats on grey water")
    fields = " ".join(
        f"--data-urlencode {shlex.quote(f'{name}={value}')}" for name, value in form.items()
    )
    jar = "-b /root/jar -c /root/jar"
    said = page(machine, "/claim", f"{jar} -H 'Origin: https://localhost:8443' {fields}")
    assert said.startswith(("HTTP/2 302", "HTTP/2 303")), said
    assert "/login" in page(machine, "/claim")
    guide = page(machine, "/", f"{jar} -L -o /dev/null -w '%{{http_code}} %{{url_effective}}'")
    assert guide.endswith("200 https://localhost:8443/setup/welcome"), guide


def test_a_server_is_served_through_varnish(machine: Machine) -> None:
    machine.run(
        "mkdir /srv/site; echo Hello there >/srv/site/index.html;"
        " systemd-run -q --unit=site python3 -m http.server -d /srv/site -b 127.0.0.1 9000"
    )
    configure(machine, CONFIG)
    wait_for(lambda: "web  awake" in status(machine), "the server to be seen", 60)
    said = machine.run("curl -si -H 'Host: www.example.org' http://localhost/")
    assert "Hello there" in said
    assert "X-Naproxy" in said


def test_it_is_served_by_https_with_a_certificate_that_was_sent(machine: Machine) -> None:
    machine.run(
        "cd /root; openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 9"
        " -subj /CN=www.example.org -addext subjectAltName=DNS:www.example.org"
        " -keyout key.pem -out pem.pem 2>/dev/null;"
        " naproxy certificate put main --pem pem.pem --key key.pem"
    )
    ask = (
        "curl -s --cacert /root/pem.pem --resolve www.example.org:443:127.0.0.1"
        " https://www.example.org/"
    )
    wait_for(lambda: "Hello there" in machine.run(ask, check=False), "HTTPS", 60)


def test_home_assistant_is_told_as_long_as_the_settings_say_so(machine: Machine) -> None:
    def runs() -> bool:
        return machine.run("systemctl is-active naproxy-mqtt", check=False).strip() == "active"

    assert not runs()
    before = machine.run("cat /etc/naproxy/naproxy.toml")
    configure(machine, before + MQTT)
    wait_for(runs, "the settings to take effect", 60)
    wait_for(
        lambda: "is not reached yet" in machine.run("journalctl -u naproxy-mqtt -o cat"),
        "its words of the broker",
        60,
    )
    assert "Traceback" not in machine.run("journalctl -u naproxy-mqtt -o cat")
    configure(machine, before)
    wait_for(lambda: not runs(), "it to end", 60)


def test_settings_can_be_written_though_the_rest_of_etc_cannot(machine: Machine) -> None:
    machine.write("/root/write.py", WRITE)
    said = machine.run("python3 /root/write.py")
    assert said.startswith("HTTP/1.1 200"), said
    assert 'notice = "Hello"' in machine.run("cat /etc/naproxy/naproxy.toml")
    mounts = machine.run("cat /proc/$(systemctl show -P MainPID naproxy-controller)/mounts")
    assert any(line.split()[1:2] == ["/etc"] and " ro," in line for line in mounts.splitlines())


def test_the_page_that_varnish_has_mapped_survives_a_restart_and_a_stop(machine: Machine) -> None:
    look = "stat -c %i /run/naproxy/page"
    before = machine.run(look)
    machine.run("systemctl restart naproxy-controller")
    wait_for(lambda: status(machine), "the controller", 60)
    assert machine.run(look) == before
    machine.run("systemctl stop naproxy-controller")
    assert machine.run(look) == before
    assert "Hello there" in machine.run("curl -s -H 'Host: www.example.org' http://localhost/")
    machine.run("systemctl start naproxy-controller naproxy-webui")


def test_a_controller_that_was_killed_is_started_again(machine: Machine) -> None:
    wait_for(lambda: "web  awake" in status(machine), "the controller", 60)
    machine.run("systemctl kill --signal=KILL naproxy-controller")
    wait_for(lambda: "web  awake" in status(machine), "the controller", 60)


def test_the_web_interface_may_read_the_history(machine: Machine) -> None:
    look = "from naproxy.history.read.queries import *; print(meters(open_history(Path(DATA))))"
    python = f"from pathlib import Path; DATA = '/var/lib/naproxy'; {look}"
    said = machine.run(f'runuser -u naproxy-webui -- python3 -c "{python}"')
    assert said == "[]\n"


def test_a_new_name_of_the_machine_gets_a_new_certificate(machine: Machine) -> None:
    before = fingerprint(machine)
    assert before
    timers = machine.run("systemctl list-timers --no-pager naproxy-certificate.timer")
    assert "naproxy-certificate.service" in timers
    machine.run("hostname another-name; systemctl start naproxy-certificate")
    wait_for(lambda: fingerprint(machine) not in ("", before), "lighttpd to show the new one", 60)
    kept = machine.run("cat /var/lib/naproxy-webui-tls/fingerprint").strip()
    assert fingerprint(machine) == kept


def test_everything_is_there_again_after_a_restart(machine: Machine) -> None:
    machine.reboot()
    for unit in OURS:
        assert machine.run(f"systemctl is-active {unit}").strip() == "active"
    wait_for(lambda: "/login" in page(machine, "/"), "the web interface", 60)
    assert machine.state() == "running", machine.run("systemctl --failed --no-pager")


def test_upgrades_of_lighttpd_and_haproxy_reach_what_runs(machine: Machine) -> None:
    def stale(unit: str) -> bool:
        program = f"/proc/$(systemctl show -P MainPID {unit})/exe"
        return "(deleted)" in machine.run(f"readlink {program}", check=False)

    machine.run("cd /var/cache/apt/archives; dpkg -i lighttpd_*.deb haproxy_*.deb")
    for unit in ("naproxy-lighttpd", "naproxy-edge"):
        wait_for(lambda: not stale(unit), f"the new program of {unit}", 60)  # noqa: B023 - at once
    assert "/login" in page(machine, "/")
    https = "curl -s --cacert /root/pem.pem --connect-to ::127.0.0.1: https://www.example.org/"
    wait_for(lambda: machine.run(https, check=False), "HTTPS", 60)


def test_a_port_that_is_taken_is_named_and_varnish_pauses_between_its_starts(
    machine: Machine,
) -> None:
    machine.run("systemctl stop varnish; systemd-run -q --unit=other python3 -m http.server 80")
    wait_for(lambda: ":80 " in machine.run("ss -Htln"), "the other program", 60)
    machine.run("systemctl start varnish", check=False)
    count = "systemctl show -P NRestarts varnish"
    wait_for(lambda: int(machine.run(count)) >= 3, "Varnish to fail a few times", 60)
    machine.run("sleep 14")
    assert int(machine.run(count)) < 12
    said = machine.run("naproxy doctor", check=False)
    assert "port 80 is taken by python3" in said
    said = machine.run("dpkg-reconfigure naproxy 2>&1 || true")
    assert "Naproxy: front door http: port 80 is taken by python3" in said
    machine.run("systemctl stop other; systemctl restart varnish")
    wait_for(lambda: "no problems" in machine.run("naproxy doctor", check=False), "Varnish", 90)


def test_an_upgrade_asks_nothing_and_keeps_settings_users_and_certificates(
    machine: Machine,
) -> None:
    machine.run("systemd-run -q --unit=site python3 -m http.server -d /srv/site -b 127.0.0.1 9000")
    varnish = machine.run("systemctl show -P MainPID varnish")
    settings = machine.run("cat /etc/naproxy/naproxy.toml")
    assert BEFORE in machine.run("dpkg-query -W -f '${Version}' naproxy")
    machine.run("apt-get -q -y install $(echo /new/naproxy*.deb | sed 's/[^ ]*-agent_[^ ]*//')")
    assert BEFORE not in machine.run("dpkg-query -W -f '${Version}' naproxy naproxy-webui")
    assert machine.run("systemctl show -P MainPID varnish") != varnish
    assert machine.run("cat /etc/naproxy/naproxy.toml") == settings
    wait_for(lambda: "web  awake" in status(machine), "the controller", 60)
    wait_for(lambda: "/login" in page(machine, "/"), "the web interface", 60)
    https = "curl -s --cacert /root/pem.pem --connect-to ::127.0.0.1: https://www.example.org/"
    wait_for(lambda: "Hello there" in machine.run(https, check=False), "HTTPS", 60)
    assert machine.state() == "running", machine.run("systemctl --failed --no-pager")


def test_once_removed_varnish_is_debians_and_the_settings_are_kept(machine: Machine) -> None:
    said = machine.run("apt-get -q -y remove naproxy naproxy-webui")
    assert "is not awake" not in said
    wait_for(lambda: ":6081 " in machine.run("ss -Htln"), "Varnish on its own port", 60)
    assert not re.search(r":(80|443|8443|8080) ", machine.run("ss -Htln"))
    assert machine.run("pgrep -fa '[/]naproxy'", check=False) == ""
    assert machine.run("ls /etc/naproxy/naproxy.toml /var/lib/naproxy/history.db")


def test_once_purged_nothing_is_left_but_users_and_the_log(machine: Machine) -> None:
    machine.run("apt-get -q -y purge 'naproxy*'")
    left = machine.run(
        "find / -xdev -iname '*naproxy*' ! -path '/proc/*' ! -path '/sys/*'"
        " ! -path '/new/*' ! -path '/old/*' ! -path '/tmp/systemd-private-*'"
        " ! -path '/var/tmp/systemd-private-*' ! -path '/var/cache/apt/*'"
    )
    assert left == ""
    assert "naproxy-webui" in machine.run("getent passwd naproxy-webui")


def test_the_agent_runs_with_a_key_of_its_own_until_it_is_purged(machine: Machine) -> None:
    machine.run("apt-get -q -y install /new/naproxy-agent_*.deb")
    wait_for(
        lambda: machine.run("systemctl is-active naproxy-agent", check=False) == "active\n",
        "the agent",
    )
    assert machine.run("stat -c %a /etc/naproxy-agent /etc/naproxy-agent/key") == "700\n600\n"
    assert re.fullmatch(r"[0-9a-f]{64}\n", machine.run("cat /etc/naproxy-agent/key"))
    assert machine.run("naproxy-agent --check", check=False)
    machine.run("apt-get -q -y purge naproxy-agent")
    assert not machine.run("ls -d /etc/naproxy-agent 2>/dev/null", check=False)
