"""The whole box but for its kernel: firewall, DHCP, Varnish, controller, web interface, supervised.

Daemons are Debian's, the project's own run from its tree. chronyd and mdnsd are not in Debian's
packages of the tests, klogd would read this machine's kernel: they are for `make test-image`.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.image.standin import START, TOP, Disk, StandIn
from tests.image.test_system_rights import PEOPLE, SERVICES, of
from tests.patience import wait_for
from tests.simulator.office.box import vmods_of_varnish
from tests.simulator.office.namespace import Namespace, ip

ADDRESS = "192.0.2.50"
ADDRESS6 = "fd00::50"
LAN = "192.0.2.1"
MAC = "02:00:5e:00:00:01"
PASSWORD = "a long and good sentence"
CLEARED = "\x1b[H\x1b[2J\x1b[3J"
"""What a terminal is sent to forget what it shows: console_codes(4)."""
LEFT_OUT = ("klogd", "mdev", "chrony", "mdnsd")
LOOKS = "/run/asked"
"""Where the box notes that it looks whether settings are good."""
NOT_WANTED = ("hawkbit", "health", "mqtt", "rauc", "watchdog")
RIGHTS = (
    "chown dac_override dac_read_search fowner fsetid kill setgid setuid setpcap linux_immutable"
    " net_bind_service net_broadcast net_admin net_raw ipc_lock ipc_owner sys_module sys_rawio"
    " sys_chroot sys_ptrace sys_pacct sys_admin sys_boot sys_nice sys_resource sys_time"
    " sys_tty_config mknod lease audit_write audit_control setfcap mac_override mac_admin syslog"
    " wake_alarm block_suspend audit_read perfmon bpf checkpoint_restore"
)
"""As the kernel numbers them (capabilities(7))."""
SERVER = f"""
[[server]]
id = "web"
address = "{LAN}"
mac = "{MAC}"
default = true
[server.ready]
kind = "tcp"
[server.https]
mode = "box"
"""
ASK_BY_HTTPS = r"""
import socket, sys
sock = socket.socket(socket.AF_UNIX)
sock.connect(sys.argv[1])
sock.sendall(b"PROXY TCP4 203.0.113.7 192.0.2.50 1 443\r\nGET /page HTTP/1.0\r\n\r\n")
print(sock.makefile().read())
"""
UDHCPD = """
start {address}
end {address}
interface lan0
lease_file {folder}/leases
pidfile {folder}/pid
option subnet 255.255.255.0
option router {lan}
option dns {lan}
"""


def lay_out(box: StandIn) -> None:
    """Put the daemons where the image has them, and VCL compiled as for the image."""
    system = vmods_of_varnish()
    ours, theirs = box.files / "usr/lib/naproxy/vmods", box.files / system.lstrip("/")
    share = box.files / "usr/share"
    ours.mkdir(parents=True)
    shutil.copy(TOP / "build/libvmod-naproxy/libvmod_naproxy.so", ours)
    shutil.copytree(system, theirs)
    subprocess.run(["make", "-sC", TOP / "varnish-vcl", f"OUT={share}/naproxy/vcl"], check=True)
    for name in ("varnishd.args", "varnishd.env"):
        shutil.copy(TOP / "varnish-vcl" / name, share / "naproxy")
    vmods = f"/usr/lib/naproxy/vmods:{system}"
    vcl = "/usr/share/naproxy/vcl/naproxy.vcl"
    subprocess.run(
        [TOP / "board/common/vcl-precompile", box.files, "varnishd", vmods, vcl, "gcc", "-O0"],
        check=True,
    )
    shutil.rmtree(theirs)  # Debian's own is beneath
    compiler = "-p 'cc_command=/usr/libexec/naproxy-vcl-cc %s %o'"
    box.program("usr/sbin/vinyld", f'exec varnishd {compiler} -p vmod_path={vmods} "$@"')
    box.program("usr/bin/naproxy-webui", f"exec '{TOP}/.venv/bin/naproxy-webui' \"$@\"")
    noted = f'[ "$1 $2" != "config check" ] || echo "$@" >>{LOOKS}'
    box.program("usr/bin/naproxy", f"{noted}\nexec '{TOP}/.venv/bin/naproxy' \"$@\"")
    chores = box.files / "etc/service/chores/run"
    chores.write_text(chores.read_text().replace("sleep 5", "sleep 1"))
    built = box.files / "usr/sbin"
    make = ("make", "-sC", TOP / "package/naproxy-through", f"BUILD={box.files.parent}/through")
    subprocess.run(make, check=True)
    shutil.copy(box.files.parent / "through/naproxy-through", built)
    (share / "naproxy-webui").mkdir()
    (share / "naproxy-webui/static").symlink_to(TOP / "webui/src/naproxy_webui/static")
    for name in LEFT_OUT:
        shutil.rmtree(box.files / "etc/service" / name)


class Office:
    """The box, and a machine beside it that has a DHCP server and a web server."""

    def __init__(self, folder: Path) -> None:
        folder.chmod(0o755)
        disk = Disk(folder / "disk", START + 64 * 2048, 64 * 2048)
        disk.format()
        self.box = StandIn(folder / "box", disk, pages_s=30)
        lay_out(self.box)
        first = self.box.files / "usr/share/naproxy/first.toml"
        first.write_text(first.read_text() + SERVER)
        self.lan = Namespace(f"{self.box.net.name[:28]}lan", folder)
        self.folder = folder

    def start(self) -> None:
        ip("netns", "add", self.lan.name)
        self.box.boot()
        card = ("link", "add", "eth0", "netns", self.box.net.name, "type", "veth")
        # The server's own card: else the box takes it for another machine, and requests wait.
        ip(*card, "peer", "name", "lan0", "address", MAC, "netns", self.lan.name)
        self.lan.run(["ip", "addr", "add", f"{LAN}/24", "dev", "lan0"])
        self.lan.run(["ip", "link", "set", "lan0", "up"])
        (self.folder / "leases").touch()
        conf = self.folder / "udhcpd.conf"
        conf.write_text(UDHCPD.format(address=ADDRESS, lan=LAN, folder=self.folder))
        self.lan.popen(["busybox", "udhcpd", "-f", conf], log="udhcpd")
        site = self.folder / "site"
        site.mkdir()
        (site / "page").write_text("from outside")
        self.lan.popen(["busybox", "httpd", "-f", "-p", f"{LAN}:80", "-h", site], log="httpd")
        self.box.net.popen(
            [*self.box.enter(), "env", "SVDIR=/run/service", "runsvdir", "-P", "/run/service"],
            log="runsvdir",
        )

    def end(self) -> None:
        self.box.off()
        self.lan.end()
        ip("netns", "delete", self.lan.name)

    def ask(self, url: str) -> str:
        """Ask from the other machine; status and body, or nothing."""
        argv = ["curl", "-sk", "-m", "3", "-w", " %{http_code}", url]
        return self.lan.run(argv, check=False).stdout

    def pid(self, service: str) -> int:
        """Process id of a service that runs, or 0."""
        said = self.box.sh(f"cat /run/service/{service}/supervise/pid 2>/dev/null").strip()
        return int(said or 0)


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    made = Office(tmp_path_factory.mktemp("office"))
    try:
        made.start()
        page = f"http://{ADDRESS}/page"
        wait_for(lambda: made.ask(page) == "from outside 200", "a page through the box")
        wait_for(
            lambda: "200" in made.ask(f"https://{ADDRESS}:8443/claim"), "the web interface", 60
        )
        yield made
    finally:
        made.end()


@pytest.fixture(autouse=True)
def _told(office: Office) -> Iterator[None]:
    """A test that fails shows what the box said."""
    yield
    print(
        office.box.sh("SVDIR=/run/service sv status /run/service/*; tail -n 60 /var/log/messages")
    )
    print(office.box.kmsg()[-3000:])


def test_a_page_comes_by_the_way_of_https_for_one_group_only(office: Office) -> None:
    place = "/run/naproxy/edge/jail"
    said = office.box.sh(f"stat -c '%U %G %a' {place} {place}/varnish.sock")
    assert said.splitlines() == ["root naproxy-edge 750", "root naproxy-edge 660"]
    ask = f"python3 -c '{ASK_BY_HTTPS}' {place}/varnish.sock"
    wait_for(lambda: office.box.sh(ask).endswith("\n\nfrom outside\n"), "a page", 60)


def test_keys_are_roots_and_the_program_that_meets_visitors_is_not_root(office: Office) -> None:
    assert office.box.sh("stat -c '%U %a' /var/lib/naproxy-edge/") == "root 700\n"
    assert office.box.sh("find /data/naproxy-edge -type f ! -perm 600") == ""
    master = wait_for(lambda: office.pid("edge"), "edge")

    def settled() -> list[str]:
        """Its workers, once none is left that was started a moment ago and still is root."""
        found = office.box.sh(f"cat /proc/{master}/task/{master}/children").split()
        owners = {office.box.sh(f"stat -c %U:%G /proc/{each} || true") for each in found}
        return found if owners == {"naproxy-edge:naproxy-edge\n"} else []

    for each in wait_for(settled, "workers that are not root"):
        assert office.box.sh(f"grep CapEff /proc/{each}/status").split()[1] == "0" * 16
        assert office.box.sh(f"ls /proc/{each}/root") == "through\nvarnish.sock\n"


def await_served(office: Office, at: str) -> None:
    page = "from outside 200"
    wait_for(lambda: office.ask(f"http://{at}/page") == page, "a page")
    wait_for(lambda: office.ask(f"https://{at}/page") == page, "a page by HTTPS")
    wait_for(lambda: office.ask(f"http://{at}:8080/").endswith(" 308"), "the way there")
    wait_for(lambda: "200" in office.ask(f"https://{at}:8443/claim"), "the web interface")


def test_all_that_is_served_is_served_by_ipv4_and_ipv6(office: Office) -> None:
    """Varnish, haproxy and lighttpd, through the firewall."""
    office.box.sh(f"ip -6 addr add {ADDRESS6}/64 dev eth0")
    office.lan.run(["ip", "addr", "add", "fd00::1/64", "dev", "lan0", "nodad"])
    for at in (ADDRESS, f"[{ADDRESS6}]"):
        await_served(office, at)


def test_every_service_runs(office: Office) -> None:
    def running() -> bool:
        lines = office.box.sh("SVDIR=/run/service sv status /run/service/*").splitlines()
        return len(lines) >= 8 and all(line.startswith("run: ") for line in lines)

    wait_for(running, "every service")


def test_what_needs_no_rights_has_none(office: Office) -> None:
    users = {"webui": "naproxy-webui", "lighttpd": "www-data", "through": "naproxy-through"}
    for service, user in users.items():
        pid = office.pid(service)
        assert office.box.sh(f"stat -c %U /proc/{pid}") == f"{user}\n", service
        assert office.box.sh(f"grep CapEff /proc/{pid}/status").split()[1] == "0" * 16, service


def rights(office: Office, pid: int) -> tuple[set[str], str]:
    """Names of the rights that a process may ever have, and whether it can get none."""
    said = dict(
        line.split(":\t", 1)
        for line in office.box.sh(f"cat /proc/{pid}/status").splitlines()
        if ":\t" in line
    )
    bound = int(said["CapBnd"], 16)
    return {name for n, name in enumerate(RIGHTS.split()) if bound >> n & 1}, said["NoNewPrivs"]


def test_a_service_runs_with_the_rights_it_is_given(office: Office) -> None:
    for service in {run.parent.name for run in SERVICES} - {*LEFT_OUT, *PEOPLE, *NOT_WANTED}:
        pid = wait_for(partial(office.pid, service), service)
        assert rights(office, pid) == (of(service), "1"), service


def since_s(office: Office, service: str) -> int:
    """Seconds for which a service has run."""
    said = office.box.sh(f"sv status /run/service/{service}")
    found = re.match(r"run: \S+: \(pid \d+\) (\d+)s", said)
    return int(found[1]) if found else 0


@pytest.mark.parametrize(
    "service", ["controller", "varnish", "edge", "through", "lighttpd", "syslogd"]
)
def test_a_daemon_that_dies_is_started_again(service: str, office: Office) -> None:
    # One that ended within its first second would be waited for.
    wait_for(lambda: since_s(office, service) > 1, service)
    before = office.pid(service)
    office.box.sh(f"kill -9 {before}")
    wait_for(lambda: office.pid(service) not in (0, before), f"{service} again")
    wait_for(lambda: "ended: status -1" in office.box.sh("cat /var/log/messages"), "the log")


def console(office: Office) -> str:
    """What is shown first, which ends with the certificate."""
    show = "timeout 2 /usr/libexec/naproxy-console"
    return wait_for(
        lambda: said if "certificate" in (said := office.box.sh(show)) else "", "the console"
    )


def test_the_claim_code_is_on_the_boot_partition_and_on_the_console(office: Office) -> None:
    code = office.box.sh("cat /data/naproxy-webui/claim-code").strip()
    assert len(code) == 14
    note = wait_for(lambda: office.box.sh("cat /bootpart/naproxy-claim.txt 2>/dev/null"), "it")
    assert f"Claim code of naproxy-c0ffee: {code}\n" in note
    said = console(office)
    assert f"Claim code: {code}\n" in said
    assert f"https://{ADDRESS}:8443" in said
    fingerprint = office.box.sh("cat /data/naproxy-webui-tls/fingerprint").strip()
    assert fingerprint in said


def test_the_claim_code_goes_when_it_was_used(office: Office) -> None:
    code = office.box.sh("cat /data/naproxy-webui/claim-code").strip()
    url = f"https://{ADDRESS}:8443"
    form = {"code": code, "name": "anna", "password": PASSWORD, "password_again": PASSWORD}
    argv = ["curl", "-sk", "-o", "/dev/null", "-w", "%{http_code}", "-H", f"Origin: {url}"]
    for key, value in form.items():
        argv += ["--data-urlencode", f"{key}={value}"]
    # A terminal at which nobody types.
    office.box.sh("(sleep 300 | /usr/libexec/naproxy-console >/tmp/screen 2>&1) >/dev/null 2>&1 &")
    wait_for(lambda: code in office.box.sh("cat /tmp/screen"), "the code on the screen")
    assert office.lan.run([*argv, f"{url}/claim"]).stdout == "303"
    gone = "ls /bootpart/naproxy-claim.txt 2>/dev/null"
    wait_for(lambda: office.box.sh(gone) == "", "the note to go")
    assert "Claim code" not in console(office)
    screen = wait_for(
        lambda: said if CLEARED in (said := office.box.sh("cat /tmp/screen")) else "",
        "the screen to be cleared",
    )
    assert code not in screen.rpartition(CLEARED)[2]


def test_the_settings_have_a_spare_copy_on_the_boot_partition(office: Office) -> None:
    spare = "cmp /data/etc/naproxy.toml /bootpart/naproxy-settings.toml && echo same"
    wait_for(lambda: office.box.sh(spare) == "same\n", "the copy")
    office.box.sh("cp -p /data/etc/naproxy.toml /data/good")

    def looks() -> int:
        return office.box.sh(f"cat {LOOKS}").count("config check")

    # When it looks at the second one, it has done with the first.
    for _ in range(2):
        before = looks()
        office.box.sh("echo broken >>/data/etc/naproxy.toml")
        wait_for(lambda: looks() > before, "the look")  # noqa: B023 - called at once
    assert "broken" not in office.box.sh("cat /bootpart/naproxy-settings.toml")
    office.box.sh("mv /data/good /data/etc/naproxy.toml")


def test_pages_need_no_controller_after_a_start(office: Office) -> None:
    """Its page is remembered: Varnish knows the servers, and takes them for awake."""
    box = office.box
    box.sh("export SVDIR=/run/service; sv -w 60 stop controller varnish; rm /run/naproxy/*")
    box.sh("install -m 660 -g varnish /data/naproxy/page /run/naproxy/page")
    box.sh("export SVDIR=/run/service; sv up varnish")
    try:
        page = f"http://{ADDRESS}/page"
        wait_for(lambda: office.ask(page) == "from outside 200", "a page")
        assert office.pid("controller") == 0
    finally:
        box.sh("export SVDIR=/run/service; sv up controller")
    healthy = "naproxy status web >/dev/null 2>&1 && echo healthy"
    wait_for(lambda: box.sh(healthy) == "healthy\n", "the controller")
    assert "set aside" not in box.sh("tail -n 5 /var/log/messages")


def test_settings_that_are_refused_give_way_to_those_that_worked(office: Office) -> None:
    """A clean stop is enough to keep them."""
    box = office.box
    status = "naproxy status 2>/dev/null"
    wait_for(lambda: "web" in box.sh(status), "the controller")
    box.sh("export SVDIR=/run/service; sv -w 60 stop controller")
    wait_for(lambda: box.sh("ls /data/etc/naproxy.worked-*.toml 2>/dev/null"), "the copy")
    box.sh("cp -p /data/etc/naproxy.toml /data/good; echo broken >>/data/etc/naproxy.toml")
    box.sh("export SVDIR=/run/service; sv up controller")
    wait_for(lambda: "are not used" in box.sh(status), "the controller")
    assert "web" in box.sh(status)
    assert "broken" in box.sh("cat /data/etc/naproxy.toml")
    box.sh("mv /data/good /data/etc/naproxy.toml")
    box.sh(f"kill -HUP {office.pid('controller')}")
    wait_for(lambda: "are not used" not in box.sh(status), "the good ones")


POSTS = """
import socket, ssl, sys, time
context = ssl._create_unverified_context()
open = []
for _ in range(48):
    raw = socket.create_connection((sys.argv[1], 8443), timeout=60)
    open.append(context.wrap_socket(raw))
    head = b"POST /claim HTTP/1.1\\r\\nHost: box\\r\\nContent-Length: 2000000\\r\\n\\r\\n"
    try:
        open[-1].sendall(head + bytes(1_900_000))
    except OSError:
        pass
print("sent", flush=True)
time.sleep(60)
"""


def test_bodies_that_strangers_send_do_not_fill_what_others_write_to(office: Office) -> None:
    posts = office.lan.popen([sys.executable, "-c", POSTS, ADDRESS], log="posts")
    try:
        wait_for(lambda: "sent" in (office.folder / "posts.log").read_text(), "the bodies")
        written = "dd if=/dev/zero of=/run/other bs=1M count=32 2>&1 && echo written; rm /run/other"
        assert "written" in office.box.sh(written)
    finally:
        posts.kill()


def test_the_log_has_a_copy_that_stays(office: Office) -> None:
    office.box.sh("logger -t test 'a word for later'")
    wait_for(lambda: "a word for later" in office.box.sh("cat /data/log/current"), "the copy")


def test_dhcp_has_told_the_name_servers(office: Office) -> None:
    assert office.box.sh("cat /etc/resolv.conf") == f"nameserver {LAN}\n"


def listen(office: Office, port: int) -> None:
    office.box.net.popen([sys.executable, "-m", "http.server", str(port)])
    wait_for(lambda: f":{port:04X} " in office.box.sh("cat /proc/net/tcp"), "it")


def test_a_port_that_is_not_served_is_closed(office: Office) -> None:
    listen(office, 2323)
    argv = ["curl", "-s", "-m", "2", f"http://{ADDRESS}:2323/"]
    assert office.lan.run(argv, check=False).returncode == 28  # no answer, not even a refusal


def test_a_port_is_open_when_it_is_in_the_set(office: Office) -> None:
    listen(office, 2424)
    office.box.sh("nft add element inet naproxy open '{ 2424 }'")
    wait_for(lambda: office.ask(f"http://{ADDRESS}:2424/").endswith(" 200"), "an answer")


def test_the_box_answers_pings(office: Office) -> None:
    assert office.lan.run(["ping", "-c", "1", "-W", "2", ADDRESS], check=False).returncode == 0


def test_what_the_box_serves_is_not_tracked(office: Office) -> None:
    rules = office.box.sh("nft list chain inet naproxy untracked")
    assert "tcp dport { 80, 443, 8080, 8443 } notrack" in rules


def test_the_box_is_named_though_the_controller_has_no_right_to(office: Office) -> None:
    box = office.box
    kept = " ".join(sorted(of("controller")))
    box.sh("mkdir -p /data/naproxy/system; echo name=frontdesk >/data/naproxy/system/name.conf")
    named = "naproxy-system apply name /data/naproxy/system/name.conf && echo named"
    said = box.sh(f'. /usr/lib/naproxy/common.sh; bounded "{kept}" root sh -c "{named}"')
    assert said.endswith("named\n"), said
    assert box.sh("hostname") == "frontdesk\n"


def test_a_shutdown_lets_go_of_the_data(office: Office) -> None:
    """The last test here: nothing runs afterwards."""
    office.box.sh("/etc/init.d/rcK")
    assert office.box.sh("umount /data && echo clean") == "clean\n"
