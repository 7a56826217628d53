"""What the guide asks to paste on the server, run as a whole.

In a mount namespace whose /etc takes the changes, so that this machine stays as it is. Only sudo,
its checker, ss and pgrep are doubles: what else runs on this machine is no matter.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from datetime import UTC
from pathlib import Path

import pytest
from naproxy.api.jobs import JobError
from naproxy.config import document as config
from naproxy.core.hours import zone
from naproxy.drivers import busy
from naproxy.drivers.sleep import ssh
from naproxy.server import jobs, services
from naproxy.setup import access

LINE = 'restrict,command="/usr/local/bin/naproxy-sleep" ssh-ed25519 AAAAC3Nza naproxy'
PREPARED = """
mount -t tmpfs tmpfs /usr/local/bin
mount -t tmpfs tmpfs /usr/local/sbin
mkdir "$1/etc" "$1/lib"
mount -t tmpfs tmpfs "$1/etc"
mkdir "$1/etc/changed" "$1/etc/work"
mount -t overlay -o "lowerdir=/etc,upperdir=$1/etc/changed,workdir=$1/etc/work" overlay /etc
mount --bind "$1/lib" /var/lib
mkdir -p /etc/sudoers.d
printf '#!/bin/sh\\nprintf "%%s\\\\n" "$*"\\n' >/usr/local/bin/sudo
printf '#!/bin/sh\\n' | tee /usr/local/bin/visudo >/usr/local/bin/ss
printf '#!/bin/sh\\nexit 1\\n' >/usr/local/bin/pgrep
chmod 755 /usr/local/bin/sudo /usr/local/bin/visudo /usr/local/bin/ss /usr/local/bin/pgrep
sh "$1/pasted"
"""
TWICE = """
echo "ssh-ed25519 AAAAC3Other somebody" >>/var/lib/naproxy/.ssh/authorized_keys
sh "$1/pasted"
stat -c '%U %a' /var/lib/naproxy/.ssh /var/lib/naproxy/.ssh/authorized_keys /etc/sudoers.d/naproxy
cat /var/lib/naproxy/.ssh/authorized_keys /etc/sudoers.d/naproxy
/usr/local/bin/naproxy-sleep
"""
LINKED = """
echo precious >"$1/roots" && chmod 600 "$1/roots"
ln -sf "$1/roots" /var/lib/naproxy/.ssh/authorized_keys
sh "$1/pasted"
cat "$1/roots" /var/lib/naproxy/.ssh/authorized_keys
"""
FINISHED = "Done. The box may now put this server to sleep."


CERTIFICATE = """
echo "ssh-ed25519 AAAAC3Other somebody" >>/var/lib/naproxy/.ssh/authorized_keys
sh "$1/pasted"
stat -c '%U %a' /var/lib/naproxy/.ssh/authorized_keys /etc/sudoers.d/naproxy-certificate-main
grep -v ' ssh-ed25519 ' /etc/sudoers.d/naproxy-certificate-main
sed 's/ssh-ed25519 [^ ]*/KEY/' /var/lib/naproxy/.ssh/authorized_keys
/usr/local/bin/naproxy-certificate-main
"""
SERVER = '[[server]]\nid = "web"\naddress = "192.0.2.2"\nmac = "02:00:00:00:00:02"\n'


def script(more: str = 'state = "off"', server: str = "") -> str:
    """What lets the box put the server to sleep."""
    text = f'{SERVER}{server}[server.sleep]\ndriver = "ssh"\n{more}\n'
    made = config.parse(text).server[0]
    return access._script(made, made.sleep, LINE)


def pasted(folder: Path, what: str) -> list[str]:
    """Paste what lets the box put the server to sleep; see `run`."""
    return run(folder, script(), what)


def run(folder: Path, text: str, what: str) -> list[str]:
    """Run the text, and then `what`; the lines that were printed."""
    if os.geteuid() != 0:
        pytest.skip("a mount namespace needs root")
    (folder / "pasted").write_text(text)
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-ec", PREPARED + what, "sh", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def program(name: str, body: str) -> str:
    """Put a program on the server that does this."""
    file = f"/usr/local/bin/{name}"
    return f"cat >{file} <<'PROGRAM'\n#!/bin/sh\n{body}\nPROGRAM\nchmod 755 {file}\n"


def answers(folder: Path, situations: Sequence[str], text: str = "") -> list[list[str]]:
    """What the box hears that asks for sleep, in each of these situations, made by shell."""
    asks = '/usr/local/bin/naproxy-sleep || echo "exit $?"'
    what = "".join(f"(\n{each}\n{asks}\n)\necho --\n" for each in situations)
    finished, *said = run(folder, text or script(), what)
    assert finished == FINISHED
    found: list[list[str]] = [[]]
    for line in said:
        if line == "--":
            found.append([])
        else:
            found[-1].append(line)
    return found[:-1]


def test_the_pasted_text_lets_the_box_in_for_this_one_thing_and_can_be_pasted_twice(
    tmp_path: Path,
) -> None:
    command = "/usr/bin/setpriv --ruid {} /usr/bin/systemctl poweroff --check-inhibitors=yes"
    assert pasted(tmp_path, TWICE) == [
        *(FINISHED, FINISHED),
        *("naproxy 700", "naproxy 600", "root 440"),
        *("ssh-ed25519 AAAAC3Other somebody", LINE),
        f"naproxy ALL=(root) NOPASSWD: {command.format('naproxy')}",
        "naproxy ALL=(root) NOPASSWD: /usr/local/sbin/naproxy-appointments",
        f"-n {command.format('root')}",
    ]


def test_a_link_that_the_user_has_laid_leads_root_nowhere(tmp_path: Path) -> None:
    assert pasted(tmp_path, LINKED) == [FINISHED, FINISHED, "precious", LINE]


ASLEEP = "-n /usr/bin/setpriv --ruid root /usr/bin/systemctl poweroff --check-inhibitors=yes"
CLIENT = 'export SSH_CLIENT="{} 40000 22"\n'


def connected(peers: str, box: str = "192.0.2.1") -> str:
    """The box asks while these are connected, `port local peer` a line."""
    rows: dict[str, str] = {}
    for port, local, peer in (line.split() for line in peers.splitlines()):
        rows[port] = rows.get(port, "") + f'echo "0 0 {local} {peer}"; '
    cases = "".join(f'"sport = :{port}") {echoes} ;;\n' for port, echoes in rows.items())
    # Arguments that ss does not have are an error, as they are for ss.
    ss = f'[ "$*" = "-Htn state established $4" ] || exit 1\ncase "$4" in\n{cases}esac'
    return CLIENT.format(box) + program("ss", ss)


def test_neither_the_box_nor_the_server_itself_keeps_it_awake(tmp_path: Path) -> None:
    cases = (
        ("192.0.2.1", "192.0.2.1:50000"),
        ("192.0.2.1", "[::ffff:192.0.2.1]:50000"),
        ("2001:db8::1", "[2001:db8::1]:50000"),
        ("fe80::1%eth0", "[fe80::1]%eth0:50000"),
        ("192.0.2.1", "127.0.0.1:50000"),
        ("192.0.2.1", "[::1]:50000"),
        ("192.0.2.1", "[::ffff:127.0.0.1]:50000"),
        ("192.0.2.1", "192.0.2.2:50000"),
    )
    said = answers(tmp_path, [connected(f"443 192.0.2.2:443 {peer}", box) for box, peer in cases])
    assert dict(zip(cases, said, strict=True)) == {case: [ASLEEP] for case in cases}


def test_visitors_who_come_past_the_box_are_counted_and_keep_it_awake(tmp_path: Path) -> None:
    peers = ("192.0.2.10:1", "192.0.2.10:2", "192.0.2.1:3", "192.0.2.11:4")
    cases = {
        f"{port} 192.0.2.2:{port} {peer}:50000": f"around {port} 1"
        for port in (80, 443)
        for peer in ("192.0.2.10", "[2001:db8::10]", "[::ffff:192.0.2.10]")
    }
    cases["\n".join(f"443 192.0.2.2:443 {peer}" for peer in peers)] = "around 443 2"
    said = answers(tmp_path, [connected(rows) for rows in cases])
    assert dict(zip(cases, said, strict=True)) == {k: [v, "exit 1"] for k, v in cases.items()}


def test_who_has_a_shared_folder_open_keeps_it_awake(tmp_path: Path) -> None:
    several = "\n".join(f"445 192.0.2.2:445 192.0.2.{n}:1" for n in (7, 8, 7, 9))
    cases = {
        "445 192.0.2.2:445 192.0.2.9:50000": "port 445 is connected to 192.0.2.9",
        "2049 192.0.2.2:2049 [2001:db8::9]:800": "port 2049 is connected to 2001:db8::9",
        "139 192.0.2.2:139 192.0.2.9:1\n443 192.0.2.2:443 192.0.2.8:1": "around 443 1",
        several: "port 445 is connected to 192.0.2.7 and 2 more",
    }
    said = answers(tmp_path, [connected(rows) for rows in cases])
    assert dict(zip(cases, said, strict=True)) == {k: [v, "exit 1"] for k, v in cases.items()}
    assert busy.reason(cases[several]).params["number"] == 3


FLOWS = (
    r"0 0 192.0.2.2:51820 192.0.2.9:4\n0 0 192.0.2.2:51820 192.0.2.1:5\n"
    r"0 0 9.9.9.9:51820 192.0.2.2:6"
)


def watched(ports: str, sudo: str, ss: str = "") -> str:
    """The box names these ports in its order; `sudo` is what the helper of root does."""
    order = f'export SSH_ORIGINAL_COMMAND="naproxy-sleep watch {ports} alarm 60"\n'
    ip = program("ip", "echo 2: eth0 inet 192.0.2.2/24 brd 192.0.2.255")
    return CLIENT.format("192.0.2.1") + order + program("ss", ss) + program("sudo", sudo) + ip


def test_ports_that_the_box_names_keep_it_awake_while_they_are_used(tmp_path: Path) -> None:
    peer = '[ "$4" = "sport = :{0}" ] && echo 0 0 192.0.2.2:{0} 192.0.2.9:5; exit 0'
    flows = f'[ "$3" = flows ] && printf "{FLOWS}"'
    only_web = 'case "$4" in "sport = :80" | "sport = :443") ;; *) echo "$4"; exit 9 ;; esac'
    tcp, udp = "port 3306 is connected to 192.0.2.9", "udp port 51820 is used by 192.0.2.9"
    untracked = "udp port 51820 cannot be watched: this server tracks no connections"
    cases = {
        watched("3306/tcp", "exit 1", peer.format(3306)): [tcp, "exit 1"],
        # Of shared folders only those count that the box names if it names any.
        watched("2049/tcp", 'echo "$*"', peer.format(445)): [ASLEEP],
        watched("445/tcp 51820/udp", flows): [udp, "exit 1"],
        watched("51820/udp", "exit 3"): [untracked, "exit 1"],
        # What is no port is not looked at.
        watched("/tcp x/tcp */udp -1/udp 80", 'echo "$*"', only_web): [ASLEEP],
    }
    said = answers(tmp_path, list(cases))
    assert dict(zip(cases, said, strict=True)) == cases
    assert busy.reason(udp).code == "sleep.busy_udp"
    assert busy.reason(untracked).code == "sleep.busy_untracked"


INSTALLING = """
mkdir /var/lib/dpkg && touch /var/lib/dpkg/lock-frontend /var/lib/dpkg/lock
/usr/local/bin/naproxy-sleep
flock /var/lib/dpkg/lock /usr/local/bin/naproxy-sleep || echo "exit $?"
/usr/local/bin/naproxy-sleep
"""


def test_packages_that_are_installed_keep_it_awake_until_that_is_done(tmp_path: Path) -> None:
    said = pasted(tmp_path, INSTALLING)[1:]
    locked = "packages are being installed (/var/lib/dpkg/lock is locked)"
    assert said == [ASLEEP, locked, "exit 1", ASLEEP]
    assert busy.reason(locked).code == "sleep.busy_packages"


def test_an_array_that_is_rebuilt_keeps_it_awake(tmp_path: Path) -> None:
    check, recovery = "check = 12.6% (1/8) finish=1min", "recovery =  0.4% (1/8)"
    cases = {
        f"[=>...]  {check}": ["md1 is being rebuilt (check, 12.6 % done)", "exit 1"],
        f"[>....]  {recovery}": ["md1 is being rebuilt (recovery, 0.4 % done)", "exit 1"],
        "  resync=PENDING": [ASLEEP],
        "  bitmap: 0/8 pages [0KB], 65536KB chunk": [ASLEEP],
    }
    mdstat = tmp_path / "mdstat"
    head = "Personalities : [raid1]\nmd1 : active raid1 sda1[0]\n"
    said = answers(
        tmp_path,
        [f"cat >{mdstat} <<'END'\n{head}      {row}\nEND\n" for row in cases],
        script().replace("/proc/mdstat", str(mdstat)),
    )
    assert dict(zip(cases, said, strict=True)) == cases
    for rebuilt in (each for each in said if each != [ASLEEP]):
        assert busy.reason(rebuilt[0]).code == "sleep.busy_raid"


def test_a_program_that_copies_keeps_it_awake(tmp_path: Path) -> None:
    said = answers(tmp_path, [program("pgrep", '[ "$*" = "-x borg" ]')])[0]
    assert said == ["borg is running", "exit 1"]
    assert busy.reason(said[0]).code == "sleep.busy_running"


def test_a_server_that_cannot_say_who_is_connected_stays_awake(tmp_path: Path) -> None:
    broken = program("ss", "echo Cannot open netlink socket; exit 255")
    assert answers(tmp_path, [CLIENT.format("192.0.2.1") + broken]) == [["exit 1"]]


OWN = {"Name": "root", "RemoteHost": "box.lan", "Service": "sshd", "Type": "tty", "Class": "user"}
"""The box's own session, by a server that knows it by its name. The tests' user is root."""


def logged_in(*others: dict[str, str], own: bool = True) -> str:
    """The box asks for sleep while logind has its session and these others."""
    cases = ""
    sessions = [*([OWN] if own else []), *others]
    for number, session in enumerate(sessions, 1):
        rows = "\n".join(f"{name}={value}" for name, value in session.items())
        cases += f'"show-session {number}") cat <<END\n{rows}\nEND\n;;\n'
    listed = "".join(f"echo ' {n} 0 name'\n" for n in (*range(1, len(sessions) + 1), "gone"))
    loginctl = f"""
case "$*" in
"--no-legend list-sessions") {listed} ;;
"show-session 1 --property=RemoteHost --value") echo box.lan ;;
{cases}
*) exit 1 ;;
esac
"""
    session = f"export XDG_SESSION_ID={1 if own else ''}\n"
    return CLIENT.format("192.0.2.1") + session + program("loginctl", loginctl)


ANNA = {**OWN, "Name": "anna", "RemoteHost": "192.0.2.7"}
COCKPIT = {**ANNA, "Type": "web", "RemoteHost": "", "Service": "cockpit"}
DESK = {"Name": "anna", "Seat": "seat0", "TTY": "tty2", "Type": "wayland", "Class": "user"}


def test_person_who_is_logged_in_keeps_it_awake(tmp_path: Path) -> None:
    cases = (
        (ANNA, "logged in: anna from 192.0.2.7"),
        ({**ANNA, "TTY": "pts/0"}, "logged in: anna from 192.0.2.7"),
        ({**ANNA, "Class": "user-early"}, "logged in: anna from 192.0.2.7"),
        (DESK, "logged in: anna at tty2"),
        ({**DESK, "TTY": "", "Type": "x11"}, "logged in: anna at seat0"),
        (COCKPIT, "logged in: anna at cockpit"),
        ({**ANNA, "State": "closing"}, "anna has logged out, but left programs running"),
        # A person who uses the box's user.
        ({**OWN, "TTY": "pts/0"}, "logged in: root from box.lan"),
        ({**OWN, "RemoteHost": "192.0.2.7"}, "logged in: root from 192.0.2.7"),
    )
    said = answers(tmp_path, [logged_in(session) for session, _ in cases])
    for (session, words), heard in zip(cases, said, strict=True):
        assert heard == [words, "exit 1"], session
        assert busy.reason(words).code in ("sleep.busy_user", "sleep.busy_left"), session


def test_session_that_is_not_a_person_does_not_keep_it_awake(tmp_path: Path) -> None:
    sessions = (
        OWN,
        {**OWN, "State": "closing"},
        {**ANNA, "Class": "manager"},
        {**ANNA, "Class": "manager-early"},
        {**DESK, "Class": "greeter"},
        {**DESK, "Class": "background", "Type": "unspecified"},
        {**ANNA, "Type": "unspecified"},
    )
    said = answers(tmp_path, [logged_in(session) for session in sessions])
    for session, heard in zip(sessions, said, strict=True):
        assert heard == [ASLEEP], session


def test_box_without_a_session_is_known_by_its_address(tmp_path: Path) -> None:
    asks = logged_in({**OWN, "RemoteHost": "192.0.2.1"}, own=False)
    assert answers(tmp_path, [asks]) == [[ASLEEP]]


TIMERS = '[{"unit": "x.timer", "next": null}]'
HELPER = "/usr/local/sbin/naproxy-appointments"
ASKED_WHAT_IT_WILL_DO = """
SSH_ORIGINAL_COMMAND="naproxy-sleep appointments" /usr/local/bin/naproxy-sleep
/usr/local/bin/naproxy-sleep appointments
"""
TELLS = f"""
rm -rf /etc/cron*
mkdir -p /etc/cron.daily /etc/cron.d
touch /etc/cron.daily/backup /etc/cron.daily/not-run /etc/cron.daily/old.dpkg-old
chmod 755 /etc/cron.daily/backup /etc/cron.daily/old.dpkg-old
printf '# m h\\n\\n25 6 * * * root cd / && run-parts --report /etc/cron.daily\\n' >/etc/crontab
printf '0 3 * * 6 root /usr/sbin/mysqlcheck\\n' >/etc/cron.d/check
printf 'no line of cron\\n' >/etc/cron.d/check~
mkdir -p /var/spool/cron/crontabs
printf '0 3 * * * /usr/local/bin/nightly\\n' >/var/spool/cron/crontabs/max.muster
printf 'no line of cron\\n' >/var/spool/cron/crontabs/tmp.Xy12
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system
cp "$1/systemctl" /usr/local/bin/systemctl
chmod 755 /usr/local/bin/systemctl
{HELPER}
"""
LISTENS = """
rm -rf /etc/cron*
printf '#!/bin/sh\\n[ "$*" = "-Htulnp" ] && cat "%s"\\n' "$1/rows" >/usr/local/bin/ss
printf '#!/bin/sh\\n[ "$*" = "-L" ] && cat "%s"\\n' "$1/tracked" >/usr/local/bin/conntrack
chmod 755 /usr/local/bin/conntrack
/usr/local/sbin/naproxy-appointments | grep ^listens
/usr/local/sbin/naproxy-appointments flows || echo "exit $?"
"""
ROWS = """\
udp UNCONN 0 0 0.0.0.0:67 0.0.0.0:* users:(("dnsmasq",pid=7,fd=4))
udp UNCONN 0 0 127.0.0.53%lo:53 0.0.0.0:* users:(("systemd-resolve",pid=8,fd=4))
udp UNCONN 0 0 0.0.0.0:51820 0.0.0.0:*
udp UNCONN 0 0 [fe80::1]%eth0:546 [::]:* users:(("networkd",pid=9,fd=4))
tcp LISTEN 0 50 [::1]:25 [::]:* users:(("master",pid=10,fd=4))
tcp LISTEN 0 50 *:445 *:* users:(("smbd",pid=11,fd=4))
tcp LISTEN 0 50 0.0.0.0:445 0.0.0.0:* users:(("smbd",pid=11,fd=5))
tcp LISTEN 0 50 [::ffff:127.0.0.1]:8005 *:* users:(("java",pid=12,fd=4))
tcp LISTEN 0 50 0.0.0.0:5000 0.0.0.0:* users:(("evil \x1b[2J / name",pid=13,fd=4))
"""
TRACKED = """\
tcp      6 431999 ESTABLISHED src=192.0.2.1 dst=192.0.2.2 sport=4 dport=22 src=192.0.2.2
udp      17 28 src=192.0.2.9 dst=192.0.2.2 sport=4 dport=51820 [UNREPLIED] src=192.0.2.2 sport=51820
"""


def told_ports(folder: Path, rows: str, tracked: str) -> list[str]:
    (folder / "rows").write_text(rows)
    (folder / "tracked").write_text(tracked)
    text = script().replace("/proc/net/nf_conntrack", str(folder / "none"))
    return run(folder, text, LISTENS)[1:]


def test_its_ports_that_others_reach_are_told_as_the_box_reads_them(tmp_path: Path) -> None:
    listens, *flows = told_ports(tmp_path, ROWS, TRACKED)
    assert services.parse(listens.removeprefix("listens")).text() == (
        "flows 67/udp/dnsmasq 445/tcp/smbd 546/udp/networkd 5000/tcp/evil___2J___nam 51820/udp"
    )
    assert flows == ["0 0 192.0.2.2:51820 192.0.2.9:4"]


def test_a_server_without_a_table_of_connections_tells_its_ports_without_it(tmp_path: Path) -> None:
    assert told_ports(tmp_path, ROWS.splitlines()[0], "") == ["listens 67/udp/dnsmasq", "exit 3"]


def test_of_thousands_of_ports_it_tells_the_first_and_how_many_there_are(tmp_path: Path) -> None:
    rows = (f'tcp LISTEN 0 5 *:{n} *:* users:(("{"x" * 40}",pid=1,fd=2))' for n in range(1, 4001))
    listens, *_ = told_ports(tmp_path, "\n".join(rows), "")
    told = services.parse(listens.removeprefix("listens"))
    assert [each.port for each in told.listeners] == list(range(1, 76))
    assert told.more == 4000 - 75


ALARM = f"""
printf '#!/bin/sh\\necho rtcwake "$*"\\n' >/usr/local/bin/rtcwake
chmod 755 /usr/local/bin/rtcwake
{HELPER} 3600
for wrong in '' -1 '1 2' x 1m; do {HELPER} "$wrong" || echo "exit $?"; done
"""


def test_it_is_asked_what_the_server_will_do_and_does_not_sleep(tmp_path: Path) -> None:
    assert pasted(tmp_path, ASKED_WHAT_IT_WILL_DO)[1:] == [f"-n {HELPER}"] * 2


def test_what_the_server_will_do_is_told_as_the_box_reads_it(tmp_path: Path) -> None:
    (tmp_path / "systemctl").write_text(f"#!/bin/sh\ncat <<'END'\n{TIMERS}\nEND\n")
    said = pasted(tmp_path, TELLS)[1:]
    assert "parts /etc/cron.daily backup" in said
    text, listens = ssh._apart("\n".join(said))
    found = jobs.parse(text, UTC, zone)
    assert listens is not None
    expected = {"cron.daily/backup", "cron.d/check", "max.muster: nightly"}
    assert {each.name for each in found} == expected
    assert not any("not-run" in each or "old" in each for each in said)


def test_the_server_s_own_clock_is_set_to_a_number_and_nothing_else(tmp_path: Path) -> None:
    assert pasted(tmp_path, ALARM)[1:] == ["rtcwake --mode no --seconds 3600", *["exit 2"] * 5]


def test_an_order_with_an_alarm_sleeps_also_if_the_clock_cannot_be_set(tmp_path: Path) -> None:
    order = 'SSH_ORIGINAL_COMMAND="naproxy-sleep alarm 60" /usr/local/bin/naproxy-sleep'
    no_clock = f"printf '#!/bin/sh\\n[ $2 != {HELPER} ] && echo \"$*\"' >/usr/local/bin/sudo"
    assert pasted(tmp_path, f"{no_clock}\n{order}\n")[1:] == [ASLEEP]


def test_the_ports_of_the_office_s_own_web_server_are_looked_at_too() -> None:
    assert "for port in 80 443 8080 $tcp; do" in script(server="port = 8080\n")


def test_the_guide_by_hand_has_the_same_script() -> None:
    guide = (Path(__file__).parents[4] / "docs/server.md").read_text()
    begin, end = "#!/bin/sh\n", "\nEND\n"
    for number in (1, 2):
        told = guide.split(begin)[number].split(end)[0]
        assert told == script("").split(begin)[number].split(end)[0]


def certificate_script(folder: Path, there: str) -> str:
    text = f'{SERVER}[server.sleep]\ndriver = "ssh"\n[[certificate]]\nid = "main"\n'
    text += f'source = "server"\nserver = "web"\nkey_file = "{folder}/etc-box/key"\n'
    parsed = config.parse(text)
    made = asyncio.run(
        access.certificate_key(parsed.certificate[0], parsed.server[0], there, folder / "etc-box")
    )
    return str(made["script"])


def test_the_pasted_text_lets_the_box_fetch_one_certificate_and_can_be_pasted_twice(
    tmp_path: Path,
) -> None:
    there = Path(tempfile.mkdtemp(prefix="naproxy-test-"))
    try:
        (there / "fullchain.pem").write_text("the chain\n")
        (there / "privkey.pem").write_text("-----BEGIN PRIVATE KEY-----\n")
        finished = "Done. The box may now fetch the certificate."
        command = "/usr/local/bin/naproxy-certificate-main"
        assert run(tmp_path, certificate_script(tmp_path, f"{there}/"), CERTIFICATE) == [
            *(finished, finished, "naproxy 600", "root 440"),
            f'naproxy ALL=(root) NOPASSWD: {command} ""',
            "KEY somebody",
            f'restrict,command="sudo -n {command}" KEY naproxy-certificate-main',
            *("the chain", "-----BEGIN PRIVATE KEY-----"),
        ]
    finally:
        shutil.rmtree(there)


def test_a_folder_that_a_shell_would_read_gets_no_script(tmp_path: Path) -> None:
    hostile = ["/a b", "/a'b", "/$(reboot)", "/`x`", "/a;b", "/a\nb", "/a|b", '/a"b', "/@USER@"]
    for folder in ("", "/", "relative", "/a//b", "/ü", *hostile):
        with pytest.raises(JobError, match="path of a folder"):
            certificate_script(tmp_path, folder)
        assert not (tmp_path / "etc-box").exists(), folder


def test_a_graphics_processor_that_computes_keeps_it_awake(tmp_path: Path) -> None:
    busy_gpu = "GPU nvidia1 is 97 % busy"
    cases = {
        (r"0, 3\n1, 97\n", 0): [busy_gpu, "exit 1"],
        (r"0, 3\n1, [N/A]\n", 0): [ASLEEP],
        (r"No devices were found\n", 6): [ASLEEP],
        ("failed", 9): ["the gpus cannot be read: nvidia-smi: failed", "exit 1"],
    }
    tools = [program("nvidia-smi", f"printf '{text}'; exit {code}") for text, code in cases]
    said = answers(tmp_path, [CLIENT.format("192.0.2.1") + each for each in tools])
    assert dict(zip(cases, said, strict=True)) == cases
    assert busy.reason(busy_gpu).code == "sleep.busy_gpu"


def tried(folder: Path, situations: Sequence[str], more: str = "") -> list[list[str]]:
    """What the doctor hears that asks for a dry run, in each of these situations."""
    asked = 'export SSH_ORIGINAL_COMMAND="naproxy-sleep watch 445/tcp check appointments"\n'
    # sudo runs what is allowed, and says of the order only whether it is.
    sudo = 'shift; [ "$1" != -l ] || exit 0; SUDO_UID=7 exec "$@"'
    fine = (
        program("sudo", sudo)
        + program("systemctl", 'case "$1" in show) echo loaded ;; *) echo "Would $*" >&2 ;; esac')
        + program("busctl", "echo 's \"yes\"'")
        + program("setpriv", 'shift 2; exec "$@"')
    )
    return answers(folder, [asked + fine + each for each in situations], script(more))


def test_a_dry_run_says_what_would_refuse_the_order_and_orders_nothing(tmp_path: Path) -> None:
    inhibited = 'Operation inhibited by "dump" (PID 7 "x", user root), reason is "copies".'
    cases = (
        ("", ["naproxy-would-sleep"]),
        (
            program("systemctl", '[ "$1" != show ] || echo masked'),
            [
                "cannot sleep: sleep.target is masked:"
                " systemctl unmask sleep.target allows it again",
                "exit 1",
            ],
        ),
        (
            program("busctl", "echo 's \"na\"'"),
            ["cannot sleep: logind says that this server does not offer it", "exit 1"],
        ),
        (
            program("sudo", 'case "$2" in -l) exit 1 ;; esac'),
            ["cannot sleep: sudo does not allow the order", "exit 1"],
        ),
        (
            program("setpriv", "echo 'Call to Suspend failed: Access denied' >&2; exit 1"),
            ["cannot sleep: Call to Suspend failed: Access denied", "exit 1"],
        ),
        (program("setpriv", f"echo '{inhibited}' >&2; exit 1"), [inhibited, "exit 1"]),
        (
            program("setpriv", 'echo "$*"; exit 1'),
            [
                "cannot sleep: --ruid 7 systemctl suspend --check-inhibitors=yes --dry-run",
                "exit 1",
            ],
        ),
        (program("pgrep", '[ "$2" = rsync ]'), ["rsync is running", "exit 1"]),
    )
    found = tried(tmp_path, [change for change, _ in cases], 'state = "ram"')
    for (change, expected), said in zip(cases, found, strict=True):
        assert said == expected, change
