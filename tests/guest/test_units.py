"""The units for a Debian installed by hand, under a real systemd, as docs/debian.md has them."""

import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.guest.guest import Guest, GuestOffice
from tests.simulator.office.namespace import ROOT, wait_for

UNITS = [
    ROOT / "package/naproxy/naproxy-controller.service",
    ROOT / "package/naproxy/naproxy-edge.service",
    ROOT / "package/naproxy-through/naproxy-through.service",
    ROOT / "webui/naproxy-webui.service",
]
MODULES = (
    *("naproxy", "naproxy_webui", "tomlkit", "serial", "urllib3", "flask", "werkzeug"),
    *("jinja2", "markupsafe", "click", "itsdangerous", "blinker", "waitress"),
)
CONFIG = """
[box]
interface = "lo"
[[server]]
id = "web"
address = "127.0.0.1"
mac = "02:00:00:00:00:01"
"""
# No network there to install from: the modules are copied, and these take the place of pip's.
PROGRAM = """#!/bin/sh
export PYTHONPATH=/opt/naproxy/lib
exec python3 -B -c 'import sys; from {} import main; sys.exit(main())' "$@"
"""
ACCOUNTS = """
groupadd --system naproxy
groupadd --system varnish
useradd --system --gid naproxy --home-dir /nonexistent --shell /usr/sbin/nologin naproxy-webui
"""
ASK = """
import socket
line = socket.socket(socket.AF_UNIX)
line.connect("/run/naproxy-webui/http.sock")
line.sendall(b"GET /api/health HTTP/1.1\\r\\nHost: guest\\r\\nConnection: close\\r\\n\\r\\n")
answer = b""
while more := line.recv(65536):
    answer += more
print(answer.partition(b"\\r\\n\\r\\n")[2].decode())
"""
WRITE = """
import socket
text = open("/etc/naproxy/naproxy.toml").read()
text = text.replace("[box]", '[box]\\nnotice = "Hello"').encode()
line = socket.socket(socket.AF_UNIX)
line.connect("/run/naproxy/control.sock")
head = f"PUT /v1/config HTTP/1.1\\r\\nHost: guest\\r\\nContent-Length: {len(text)}\\r\\n\\r\\n"
line.sendall(head.encode() + text)
print(line.recv(1000).decode())
"""


@pytest.fixture(scope="module")
def installed(booted: GuestOffice, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    guest, root = booted.server, tmp_path_factory.mktemp("opt")
    for name in MODULES:
        spec = find_spec(name)
        assert spec
        assert spec.origin
        shutil.copytree(
            Path(spec.origin).parent,
            root / "lib" / name,
            ignore=shutil.ignore_patterns("__pycache__", "*.map"),
        )
    (root / "bin").mkdir()
    for name, module in (("naproxy", "naproxy.cli"), ("naproxy-webui", "naproxy_webui.main")):
        (root / "bin" / name).write_text(PROGRAM.format(module))
        (root / "bin" / name).chmod(0o755)
    for unit in UNITS:
        shutil.copy(unit, root / unit.name)
    (root / "naproxy.toml").write_text(CONFIG)
    (root / "ask.py").write_text(ASK)
    (root / "write.py").write_text(WRITE)
    guest.copy(root, "/opt/naproxy")
    guest.ssh(
        f"{ACCOUNTS}\nchmod -R a+rX /opt/naproxy; mkdir -p /etc/naproxy"
        "\ncp /opt/naproxy/naproxy.toml /etc/naproxy/"
        "\ncp /opt/naproxy/*.service /etc/systemd/system/"
        "\nsystemctl daemon-reload; systemctl --quiet enable --now naproxy-controller naproxy-webui"
    )
    wait_for(lambda: status(guest), "the controller")
    yield guest
    guest.ssh("systemctl --quiet disable --now naproxy-controller naproxy-webui")
    guest.ssh(
        "rm -rf /opt/naproxy /etc/naproxy /etc/systemd/system/naproxy-*; userdel naproxy-webui"
    )


def status(guest: Guest) -> str:
    return guest.ssh("/opt/naproxy/bin/naproxy status", check=False).stdout


def page(guest: Guest) -> str:
    return guest.ssh("stat -c %i /run/naproxy/page").stdout


def ask(guest: Guest, user: str) -> str:
    said = guest.ssh(f"runuser -u {user} -- python3 /opt/naproxy/ask.py 2>&1", check=False)
    return said.stdout.strip().rpartition("\n")[2]


def test_systemd_finds_nothing_wrong_with_them(installed: Guest) -> None:
    names = " ".join(f"/etc/systemd/system/{unit.name}" for unit in UNITS)
    said = installed.ssh(f"systemd-analyze verify --man=no {names} 2>&1")
    assert "naproxy" not in said.stdout


def test_the_controller_looks_after_the_server(installed: Guest) -> None:
    wait_for(lambda: "web  awake" in status(installed), "the server to be seen")


def test_the_page_that_varnish_has_mapped_survives_a_restart_and_a_stop(installed: Guest) -> None:
    before = page(installed)
    installed.ssh("systemctl restart naproxy-controller")
    wait_for(lambda: status(installed), "the controller")
    assert page(installed) == before
    installed.ssh("systemctl stop naproxy-controller")
    assert page(installed) == before
    installed.ssh("systemctl start naproxy-controller naproxy-webui")
    wait_for(lambda: status(installed), "the controller")


def test_a_controller_that_was_killed_is_started_again(installed: Guest) -> None:
    installed.ssh("systemctl kill --signal=KILL naproxy-controller")
    wait_for(lambda: status(installed), "the controller")


def test_a_reload_takes_the_file_as_it_is(installed: Guest) -> None:
    installed.ssh('sed -i \'s/id = "web"/id = "shop"/\' /etc/naproxy/naproxy.toml')
    installed.ssh("systemctl reload naproxy-controller")
    wait_for(lambda: "shop" in status(installed), "the new name")


def test_settings_can_be_written_though_the_rest_of_etc_cannot(installed: Guest) -> None:
    said = installed.ssh("python3 -B /opt/naproxy/write.py").stdout
    assert said.startswith("HTTP/1.1 200"), said
    assert 'notice = "Hello"' in installed.ssh("cat /etc/naproxy/naproxy.toml").stdout
    mounts = installed.ssh(
        "cat /proc/$(systemctl show -P MainPID naproxy-controller)/mounts"
    ).stdout
    assert any(line.split()[1:2] == ["/etc"] and " ro," in line for line in mounts.splitlines())


def test_the_web_interface_answers_lighttpds_group_and_nobody_else(installed: Guest) -> None:
    wait_for(lambda: "controller" in ask(installed, "www-data"), "the web interface", 120)
    assert "PermissionError" in ask(installed, "nobody")


def test_the_web_interface_reaches_the_controller_and_shows_its_claim_code(
    installed: Guest,
) -> None:
    wait_for(lambda: '"controller":true' in ask(installed, "www-data"), "both", 120)
    said = installed.ssh("journalctl -u naproxy-webui -o cat --no-pager").stdout
    assert "the claim code of this box is" in said
    assert "Traceback" not in said


def test_the_web_interface_may_read_the_history(installed: Guest) -> None:
    look = "from naproxy.history.read.queries import *; print(meters(open_history(Path(DATA))))"
    python = f"from pathlib import Path; DATA = '/var/lib/naproxy'; {look}"
    said = installed.ssh(
        "runuser -u naproxy-webui -g naproxy -- env PYTHONPATH=/opt/naproxy/lib"
        f' python3 -B -c "{python}"'
    )
    assert said.stdout == "[]\n"
