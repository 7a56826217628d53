"""What the guide asks to paste on the server, run as a whole, with the agent that is in it.

In namespaces whose /etc takes the changes, and where nothing else runs, so that this machine stays
as it is. Only sudo, its checker, and what speaks to systemd are doubles.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
from datetime import UTC
from pathlib import Path

import pytest
from naproxy.api.jobs import JobError
from naproxy.config import document as config
from naproxy.core.hours import zone
from naproxy.drivers import busy
from naproxy.drivers.sleep import ssh
from naproxy.server import jobs, services
from naproxy.setup import access, agent_files, keys

LINE = 'restrict,command="/usr/local/bin/naproxy-sleep" ssh-ed25519 AAAAC3Nza naproxy'
PREPARED = """
for each in bin sbin lib; do mount -t tmpfs tmpfs /usr/local/$each; done
mkdir "$1/etc" "$1/lib"
mount -t tmpfs tmpfs "$1/etc"
mkdir "$1/etc/changed" "$1/etc/work"
mount -t overlay -o "lowerdir=/etc,upperdir=$1/etc/changed,workdir=$1/etc/work" overlay /etc
mount --bind "$1/lib" /var/lib
mount -t tmpfs tmpfs /var/spool
mount -t tmpfs tmpfs /run
mkdir -p /etc/sudoers.d /run/systemd/system
cat >/usr/local/bin/sudo <<'END'
#!/bin/sh
# What the rule allows, and nothing else.
rule="$USER_THERE ALL=(root) NOPASSWD: $(shift; echo "$*")"
[ "$1" = -n ] && grep -qxF "$rule" /etc/sudoers.d/naproxy ||
	{ echo "sudo: a password is required" >&2; exit 1; }
shift
SUDO_USER=naproxy exec "$@"
END
cat >/usr/local/bin/busctl <<'END'
#!/bin/sh
case "$*" in
*ListSessions*) echo '{"type":"a(susso)","data":[[]]}' ;;
*ListInhibitors*) echo '{"type":"a(ssssuu)","data":[[]]}' ;;
*Can*) echo 's "yes"' ;;
*) exit 1 ;;
esac
END
cat >/usr/local/bin/systemctl <<'END'
#!/bin/sh
case "$*" in
*show*) printf 'LoadState=loaded\\nActiveState=inactive\\n' ;;
*list-timers*) echo '[{"unit": "x.timer", "next": null}]' ;;
*--dry-run | *restart*) ;;
*) echo "$*" >>/run/ordered ;;
esac
END
cat >/usr/local/bin/systemd-run <<'END'
#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
exec "$@"
END
printf '#!/bin/sh\necho "rtcwake $*" >>/run/ordered\n' >/usr/local/bin/rtcwake
printf '#!/bin/sh\n' | tee /usr/local/bin/visudo >/usr/local/bin/ss
chmod 755 /usr/local/bin/*
export USER_THERE=naproxy
sh "$1/pasted"
"""
TWICE = """
echo "ssh-ed25519 AAAAC3Other somebody" >>/var/lib/naproxy/.ssh/authorized_keys
touch /usr/local/sbin/naproxy-appointments
sh "$1/pasted"
stat -c '%U %a' /var/lib/naproxy/.ssh /var/lib/naproxy/.ssh/authorized_keys /etc/sudoers.d/naproxy
cd /usr/local && stat -c '%U %a' bin/naproxy-sleep sbin/naproxy-agent lib/naproxy-agent
cat /var/lib/naproxy/.ssh/authorized_keys /etc/sudoers.d/naproxy
grep '^server' /etc/naproxy-agent/naproxy-agent.conf
ls /etc/naproxy-agent /usr/local/sbin
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


ALONE = ("unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc")


def run(folder: Path, text: str, what: str) -> list[str]:
    """Run the text, and then `what`; the lines that were printed."""
    if os.geteuid() != 0:
        pytest.skip("a mount namespace needs root")
    (folder / "pasted").write_text(text)
    done = subprocess.run(
        [*ALONE, "sh", "-ec", PREPARED + what, "sh", str(folder)],
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


def asked(*commands: str) -> str:
    """Log in as the box does, with each of these commands; what was ordered comes last."""
    login = 'export SSH_CLIENT="192.0.2.1 40000 22"\n'
    asks = "SSH_ORIGINAL_COMMAND='{}' /usr/local/bin/naproxy-sleep || echo \"exit $?\"\n"
    return login + "".join(asks.format(each) for each in commands) + "cat /run/ordered\n"


CALM = "sed -i 's/^#load-above.*/load-above = any/' /etc/naproxy-agent/naproxy-agent.conf\n"
"""The load of this machine does not count."""


def test_pasted_text_lets_the_box_in_for_this_one_thing_and_can_be_pasted_twice(
    tmp_path: Path,
) -> None:
    assert pasted(tmp_path, TWICE) == [
        *(FINISHED, FINISHED),
        *("naproxy 700", "naproxy 600", "root 440"),
        *("root 755", "root 755", "root 755"),
        *("ssh-ed25519 AAAAC3Other somebody", LINE),
        "naproxy ALL=(root) NOPASSWD: /usr/local/sbin/naproxy-agent --once off",
        "server = web",
        *("/etc/naproxy-agent:", "naproxy-agent.conf", "", "/usr/local/sbin:", "naproxy-agent"),
    ]


def test_a_link_that_the_user_has_laid_leads_root_nowhere(tmp_path: Path) -> None:
    assert pasted(tmp_path, LINKED) == [FINISHED, FINISHED, "precious", LINE]


def refused(folder: Path, text: str, before: str) -> str:
    """Paste a text that stops; return what it says. It has changed nothing."""
    (folder / "pasted").write_text(text)
    done = subprocess.run(
        [
            *(*ALONE, "sh", "-ec"),
            PREPARED.replace('sh "$1/pasted"', f'{before}\nsh "$1/pasted" || echo "exit $?"')
            + "find /usr/local/sbin /usr/local/lib /etc/sudoers.d/naproxy -type f",
            *("sh", str(folder)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines()[-1] == "exit 1", done.stdout + done.stderr
    assert not list((folder / "lib").iterdir())
    return done.stdout + done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="a mount namespace needs root")
def test_text_that_cannot_work_there_says_so_and_changes_nothing(tmp_path: Path) -> None:
    lines = script().splitlines(keepends=True)
    lost = "".join(lines[:20] + lines[21:])
    for number, (text, before, said) in enumerate(
        (
            (lost, "", "did not arrive whole"),
            (script(), "rmdir /run/systemd/system", "does not run systemd"),
            (script(), "mount --bind /bin/false $(readlink -f /usr/bin/python3)", "other way"),
        )
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert said in refused(folder, text, before), said


def test_box_asks_what_comes_and_orders_sleep_with_an_alarm(tmp_path: Path) -> None:
    steps = ("check appointments", "watch 445/tcp", "ignore 22/tcp watch 445/tcp alarm 3600")
    said = pasted(tmp_path, CALM + asked(*(f"naproxy-sleep {each}" for each in steps)))
    assert said == [
        *(FINISHED, "naproxy-would-sleep"),
        *("poweroff", "rtcwake --mode no --seconds 3600", "poweroff"),
    ]


def test_hostile_commands_order_nothing(tmp_path: Path) -> None:
    hostile = ("sh", "naproxy-sleep; reboot", "naproxy-sleep $(reboot)", "scp -f /etc/shadow")
    hostile += (
        "naproxy-sleep --config /tmp/x",
        "naproxy-sleep alarm -1",
        "naproxy-sleep " + "x" * 9000,
    )
    said = pasted(tmp_path, CALM + ": >/run/ordered\n" + asked(*hostile))
    assert said == [FINISHED, *["exit 2"] * len(hostile)]


def test_rule_of_sudo_allows_no_other_state_and_no_other_option(tmp_path: Path) -> None:
    tries = ("mem", "off --config /tmp/x", "off off", "")
    what = "".join(f"sudo -n /usr/local/sbin/naproxy-agent --once {t} || echo $?\n" for t in tries)
    assert pasted(tmp_path, what) == [FINISHED, *["1"] * len(tries)]


LOCKED = """
mkdir /var/lib/dpkg && : >/var/lib/dpkg/lock; : >/run/ordered
flock /var/lib/dpkg/lock sh -c '/usr/local/bin/naproxy-sleep || echo "exit $?"'
/usr/local/bin/naproxy-sleep; cat /run/ordered
"""


def test_packages_that_are_installed_keep_it_awake_until_that_is_done(tmp_path: Path) -> None:
    said = pasted(tmp_path, CALM + LOCKED)[1:]
    reason = "packages are being installed (/var/lib/dpkg/lock is locked)"
    assert said == ["naproxy-refuses", reason, "naproxy-end", "exit 1", "poweroff"]
    assert busy.reason(reason).code == "sleep.busy_packages"


TELLS = """
rm -rf /etc/cron*
mkdir -p /etc/cron.daily /etc/cron.d
touch /etc/cron.daily/backup /etc/cron.daily/not-run
chmod 755 /etc/cron.daily/backup
printf '# m h\\n\\n25 6 * * * root cd / && run-parts --report /etc/cron.daily\\n' >/etc/crontab
printf '0 3 * * 6 root /usr/sbin/mysqlcheck\\n' >/etc/cron.d/check
SSH_ORIGINAL_COMMAND='naproxy-sleep watch 445/tcp appointments' /usr/local/bin/naproxy-sleep
"""


def test_appointments_are_told_as_the_box_reads_them(tmp_path: Path) -> None:
    said = pasted(tmp_path, CALM + TELLS)[1:]
    text, listens = ssh._apart("\n".join(said))
    found = jobs.parse(text, UTC, zone)
    assert {each.name for each in found} == {"cron.daily/backup", "cron.d/check"}
    assert listens is not None
    assert services.parse(listens).text() == ""


def test_command_of_one_s_own_gets_a_line_and_no_text() -> None:
    more = 'command = "/bin/sh -c \\"echo off >/run/state\\""'
    assert script(more) == ""
    settings = config.parse(f'{SERVER}[server.sleep]\ndriver = "ssh"\n{more}\n').server[0].sleep
    assert isinstance(settings, ssh.Settings)
    there = r'restrict,command="/bin/sh -c \"echo off >/run/state\"" ssh-ed25519 AAAA naproxy'
    assert keys.line(settings, "ssh-ed25519 AAAA") == there


def test_text_has_the_agent_that_the_box_hands_out() -> None:
    assert script().count(agent_files.digest()) == 2


def test_shells_find_nothing_wrong_with_the_text(tmp_path: Path) -> None:
    inner = script().partition("<<'NAPROXY'\n")[2].rpartition("NAPROXY\n")[0]
    stub = inner.partition("naproxy-sleep <<'END'\n")[2].partition("END\n")[0]
    for name, text in (("inner", f"#!/bin/sh\n{inner}"), ("stub", stub)):
        (tmp_path / name).write_text(text)
        subprocess.run(["shellcheck", tmp_path / name], check=True)


def test_the_guide_by_hand_has_the_same_command_and_rule() -> None:
    guide = (Path(__file__).parents[4] / "docs/server.md").read_text()
    text = script("")
    for begin, end in (("#!/bin/sh\n# The box's key", "\nEND\n"), ("naproxy ALL=(root)", "\n")):
        part = begin + text.split(begin)[1].split(end)[0]
        assert part in guide


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
