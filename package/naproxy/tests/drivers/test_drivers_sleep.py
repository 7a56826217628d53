import asyncio
import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from driver_calls import out_of_time
from free_port import free_port
from naproxy import drivers
from naproxy.config import document as config
from naproxy.core import findings
from naproxy.core.reason import Reason, WrongError
from naproxy.core.schema import Problem, load
from naproxy.drivers import checks
from naproxy.drivers.meter import Fault, Site, ina219
from naproxy.drivers.openssh import Ssh, SshSettings
from naproxy.drivers.sleep import Past, SleepResult, none, ssh
from naproxy.server.jobs import Job
from naproxy.server.machine_io import Answer
from naproxy.server.services import Office, parse
from naproxy.setup import keys
from ssh_server import TARGET, Server, key, needs_sshd, serving


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("sshd")) as server:
        yield server


Quick = Callable[[str], SleepResult]


@pytest.fixture
def quick(sshd: Server) -> Quick:
    def run(script: str) -> SleepResult:
        sshd.says(script)
        return sshd.sleep()

    return run


@needs_sshd
def test_exit_status_0_is_accepted_whatever_is_said(quick: Quick) -> None:
    assert quick("exit 0") == SleepResult(Answer.ACCEPTED, Reason("sleep.accepted"))
    result = quick("echo around 443 3")
    assert (result.answer, result.past) == (Answer.ACCEPTED, None)


@needs_sshd
def test_another_exit_status_is_a_refusal_in_the_servers_words(quick: Quick) -> None:
    result = quick("echo 'backup is running' >&2; exit 3")
    assert (result.answer, result.reason.code) == (Answer.REFUSED, "sleep.refused")
    assert str(result.reason) == "the server refuses to sleep: backup is running"
    assert "exit status 7" in str(quick("exit 7").reason)


@needs_sshd
def test_a_refusal_for_visitors_past_the_box_names_the_port_and_their_number(quick: Quick) -> None:
    result = quick("echo around 443 3; exit 1")
    assert (result.answer, result.past) == (Answer.REFUSED, Past(443, 3))
    why = Reason("server.around_now", port=443, number=3)
    assert result.reason == Reason("sleep.refused", who=Reason("sleep.the_server"), words=why)


def refuses(*reasons: str) -> str:
    """As the agent says it."""
    return "; ".join(f"echo '{each}'" for each in ("naproxy-refuses", *reasons, "naproxy-end"))


@needs_sshd
def test_agent_s_reasons_are_told_all_whatever_the_login_prints(quick: Quick) -> None:
    reasons = ("port 443 is connected to 192.0.2.7 and 2 more", "rsync is running", "so be it")
    for noise in ("true", *NOISE, "; ".join(NOISE)):
        result = quick(f"{noise}; {refuses(*reasons)}; exit 1")
        assert (result.answer, result.past) == (Answer.REFUSED, Past(443, 3)), noise
        assert [each.code for each in result.reason.params["words"].parts()] == [
            *("server.around_now", "sleep.busy_running", "core.own_words")
        ], noise


@needs_sshd
def test_somebody_connected_elsewhere_did_not_come_past_the_box(quick: Quick) -> None:
    result = quick(f"{refuses('port 8443 is connected to 192.0.2.7')}; exit 1")
    assert (result.answer, result.past) == (Answer.REFUSED, None)
    assert result.reason.params["words"].code == "sleep.busy_port"


NOISE = (
    "printf 'Welcome to Debian!\\nYou have no mail.\\n'",
    "echo 'bash: warning: setlocale: LC_ALL: cannot change locale (de_CH.UTF-8)' >&2",
    "printf 'perl: warning: Setting locale failed.\\n\\tLC_ALL = (unset),\\n' >&2",
)
"""What a server may print at each login, beside sshd's banner."""


@needs_sshd
def test_what_a_server_prints_at_each_login_is_no_part_of_its_reason(quick: Quick) -> None:
    inhibited = (
        'echo \'Operation inhibited by "dump" (PID 7 "x", user root), reason is "copies".\' >&2;'
        " echo 'Please retry operation after closing inhibitors.' >&2"
    )
    for noise in ("true", *NOISE, "; ".join(NOISE)):
        result = quick(f"{noise}; echo around 443 3; exit 1")
        assert result.past == Past(443, 3), noise
        for says, reason in (
            ("echo rsync is running", Reason("sleep.busy_running", name="rsync")),
            (inhibited, Reason("sleep.busy_locked", who="dump", why="copies")),
        ):
            found = quick(f"{noise}; {says}; exit 1").reason.params["words"]
            assert found == reason, (noise, says)
    for noise in NOISE[1:]:
        assert str(quick(f"{noise}; echo not now >&2; exit 1").reason).endswith(": not now"), noise
        assert str(quick(f"{noise}; echo not now; exit 1").reason).endswith(": not now"), noise


@needs_sshd
def test_a_dry_run_says_by_the_way_of_the_order_what_refuses(sshd: Server) -> None:
    asked = '[ "$SSH_ORIGINAL_COMMAND" = "naproxy-sleep check appointments" ] || exit 9; '
    server = config.parse(
        '[[server]]\nid = "web"\naddress = "127.0.0.1"\nmac = "02:00:00:00:00:01"\n'
        '[server.sleep]\ndriver = "ssh"\n'
    ).server[0]
    for says, verdict, code in (
        ("echo naproxy-would-sleep", "ok", None),
        ("echo Welcome; echo naproxy-would-sleep", "ok", None),
        ("echo 'cannot sleep: suspend.target is masked'; exit 1", "problem", "sleep.busy_cannot"),
        ("echo 'sudo: a password is required' >&2; exit 1", "note", "core.own_words"),
        ("echo rsync is running; exit 1", "note", "sleep.busy_running"),
        ("echo around 443 2; exit 1", "note", "server.around_now"),
        (f"{refuses('rsync is running')}; exit 1", "note", "sleep.busy_running"),
        (f"{refuses('cannot sleep: it is masked')}; exit 1", "problem", "sleep.busy_cannot"),
        ("exit 127", "problem", "driver.exit_status"),
        ("echo naproxy-appointments 1; echo end", "not used", None),
        ("", "problem", "driver.exit_status"),
    ):
        sshd.says(asked + says if says else "exit 3")
        session = asyncio.run(ssh.attempt(sshd.settings(), TARGET))
        seen = checks.FromBox(server=server, tried=session)
        [found] = findings.look("box", (ssh.ssh_dry_run,), seen)
        assert found.verdict == verdict, (says, found)
        if code:
            assert found.what
            assert code in found.what.codes(), says


@needs_sshd
def test_what_only_resembles_that_line_is_the_servers_own_words(quick: Quick) -> None:
    for said in (
        *("around 443", "around 0 1", "around 443 0", "around 65536 1", "around 443 -1"),
        *("around 443 1 2", "Around 443 1", "around 443 12345678", "xaround 443 1"),
        *("around ٤٤٣ 1", "around 443 1\nbackup is running"),
    ):
        result = quick(f"cat <<'END'\n{said}\nEND\nexit 1")
        assert (result.answer, result.past) == (Answer.REFUSED, None), said
        assert str(result.reason) == f"the server refuses to sleep: {' '.join(said.split())}"


@needs_sshd
def test_the_servers_words_are_made_safe_and_cut(quick: Quick) -> None:
    result = quick(r"printf '\033[2J\nline two\r\n'; head -c 5000 /dev/zero | tr '\0' x; exit 1")
    said = str(result.reason)
    assert said.isprintable()
    assert "line two" in said
    assert len(said) < 400


@needs_sshd
def test_a_connection_that_dies_after_the_login_is_accepted(quick: Quick) -> None:
    assert quick("kill -9 $PPID").answer is Answer.ACCEPTED


@pytest.mark.long
@needs_sshd
def test_server_that_stalls_after_the_login_is_waited_for(sshd: Server) -> None:
    # As sshd does while PAM opens the session.
    sshd.says(
        "sshd=$PPID; until grep -q sshd /proc/$sshd/comm; do\n"
        "sshd=$(awk '/^PPid/ { print $2 }' /proc/$sshd/status); done\n"
        "kill -STOP $sshd; sleep 5; kill -CONT $sshd; echo rsync is running; exit 1"
    )
    assert sshd.sleep(timeout_s=60.0).answer is Answer.REFUSED


@needs_sshd
def test_a_command_that_does_not_end_is_left_to_observation(sshd: Server) -> None:
    begun = sshd.directory / "begun"
    sshd.says(f"touch {begun}; sleep 60")
    result = out_of_time(ssh.Driver(sshd.settings(), TARGET).sleep, begun.exists)
    assert result.answer is Answer.ACCEPTED


@needs_sshd
def test_a_command_that_is_not_there_failed(quick: Quick) -> None:
    result = quick("no-such-command")
    assert result.answer is Answer.FAILED
    assert "no-such-command" in str(result.reason)


@needs_sshd
def test_a_login_that_fails_says_why(sshd: Server) -> None:
    empty, changed, stranger = (sshd.directory / name for name in ("empty", "changed", "stranger"))
    empty.write_text("")
    changed.write_text(f"[127.0.0.1]:{sshd.port} {key(sshd.directory / 'other')}")
    key(stranger)
    name = sshd.settings().user
    for changes, why in (
        ({"known_hosts_file": str(changed)}, Reason("ssh.other_key", file=str(changed))),
        ({"known_hosts_file": str(empty)}, Reason("ssh.no_pin", file=str(empty))),
        (
            {"key_file": str(stranger)},
            Reason("ssh.not_let_in", name=name, key_file=str(stranger)),
        ),
    ):
        assert sshd.sleep(**changes) == SleepResult(Answer.FAILED, why)
    assert empty.read_text() == "", "a host key that is not pinned is not learned"


@needs_sshd
def test_a_server_that_is_not_reached_is_a_failure(sshd: Server) -> None:
    result = sshd.sleep(port=free_port())
    assert result.answer is Answer.FAILED
    assert result.reason.code == "ssh.not_reached"
    assert "refused" in str(result.reason)


@needs_sshd
def test_no_ssh_is_left_when_the_sleep_is_called_off(sshd: Server) -> None:
    sshd.says("sleep 20")

    async def play() -> str:
        children = Path(f"/proc/self/task/{os.getpid()}/children")
        before = children.read_text()
        task = asyncio.ensure_future(ssh.Driver(sshd.settings(), TARGET).sleep())
        while children.read_text() == before:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return children.read_text().removeprefix(before)

    assert asyncio.run(play()) == ""


def test_without_a_way_to_sleep_the_answer_is_no() -> None:
    result = asyncio.run(none.Driver(none.Settings(), TARGET).sleep())
    assert result.answer is Answer.REFUSED
    assert result.reason == Reason("sleep.no_way")


# What the server is going to do


TELLS = """
case "$SSH_ORIGINAL_COMMAND" in
*appointments)
	echo naproxy-appointments 1
	date '+now %s'
	echo 'timers [{"unit": "backup.timer", "next": '$(($(date +%s) + 3600))'000000}]'
	echo end ;;
*) echo "$SSH_ORIGINAL_COMMAND"; exit 1 ;;
esac
"""


Asked = Callable[[str], list[Job] | SleepResult | None]


@pytest.fixture
def asked(sshd: Server) -> Asked:
    def run(script: str) -> list[Job] | SleepResult | None:
        sshd.says(script)
        return asyncio.run(ssh.Driver(sshd.settings(), TARGET).asked())

    return run


@needs_sshd
def test_the_script_tells_what_the_server_is_going_to_do(asked: Asked) -> None:
    said = asked(TELLS)
    assert isinstance(said, list)
    assert [job.name for job in said] == ["backup.timer"]
    assert said[0].in_s == pytest.approx(3600, abs=2)


@needs_sshd
def test_a_script_from_before_takes_the_question_for_the_order(asked: Asked) -> None:
    assert asked("exit 0") == SleepResult(Answer.ACCEPTED, Reason("sleep.accepted"))
    said = asked("echo rsync is running; exit 1")
    assert isinstance(said, SleepResult)
    assert str(said.reason) == "the server refuses to sleep: rsync is running"


@needs_sshd
def test_who_does_not_tell_all_is_not_put_to_sleep(asked: Asked) -> None:
    for script in (
        "date '+now %s'",
        "date '+now %s'; exit 1",
        "yes '|* * * * * root x' | head -c 3000000; echo end",
        "head -c 10000 /dev/zero; echo; echo end",
    ):
        said = asked(f"echo naproxy-appointments 1; {script}")
        assert isinstance(said, SleepResult), script
        assert said.answer is Answer.REFUSED, script
        assert "sleep.appointments_unreadable" in said.reason.codes(), script


@needs_sshd
def test_another_command_is_not_asked(sshd: Server) -> None:
    settings = replace(sshd.settings(), command="systemctl suspend")
    assert asyncio.run(ssh.Driver(settings, TARGET).asked()) is None


@needs_sshd
def test_the_order_says_when_the_server_s_own_clock_is_to_wake_it(sshd: Server) -> None:
    sshd.says(TELLS)
    said = asyncio.run(ssh.Driver(sshd.settings(), TARGET).sleep(3600))
    assert str(said.reason) == f"the server refuses to sleep: naproxy-sleep {WATCH} alarm 3600"


WATCH = "watch 139/tcp 445/tcp 2049/tcp"
LISTENS = TELLS.replace("echo end", "echo 'listens flows 445/tcp/smbd 3306/tcp'\n	echo end")


def office(*choices: str) -> drivers.Target:
    return replace(TARGET, office=Office(choices, frozenset({"80/tcp"})))


@needs_sshd
def test_the_order_names_the_ports_that_the_script_told_and_the_office_wants_looked_at(
    sshd: Server,
) -> None:
    assert LISTENS != TELLS
    sshd.says(LISTENS)
    driver = ssh.Driver(sshd.settings(), office("smb ignore"))
    assert asyncio.run(driver.ports()) is None  # an older script would sleep
    assert isinstance(asyncio.run(driver.asked()), list)
    assert driver.listening == parse("flows 445/tcp/smbd 3306/tcp")
    assert asyncio.run(driver.ports()) == driver.listening
    said = asyncio.run(driver.sleep(60))
    order = "naproxy-sleep ignore 445/tcp watch 2049/tcp 3306/tcp alarm 60"
    assert str(said.reason).endswith(order)


@needs_sshd
def test_ports_that_are_garbled_or_too_many_keep_it_awake(asked: Asked) -> None:
    for line in ("445/tcp/\\033[2J", "445", "$(yes 1/tcp | head -c 20000 | tr '\\n' ' ')"):
        said = asked(TELLS.replace("echo end", f'printf "listens {line}\\n"\n\techo end'))
        assert isinstance(said, SleepResult), line
        assert said.answer is Answer.REFUSED, line
        assert "its list of ports" in str(said.reason)
        assert str(said.reason).isprintable()


def test_a_value_that_ssh_would_read_otherwise_is_refused(tmp_path: Path) -> None:
    """By the real ssh: what is accepted is one path, one user and one host for it."""
    for name, values in {
        "key_file": ODD_PATHS,
        "user": ("a b", "a\tb", "a\nb", 'a"b', "a'b", "a;b", "$(id)", "`id`", "%h", "-oX", "a\\"),
        "host": ("a b", "a\tb", "a\nb", 'a"b', "*", "a,b", "!a", "a?", "|1|x", "#", "-oX", "a\\"),
    }.items():
        for each in values:
            value = f"{tmp_path}{each}" if values is ODD_PATHS else each
            if values is ODD_PATHS:
                (tmp_path / each[1:].replace("/", "_")).touch()
            problems: list[Problem] = []
            settings = load(SshSettings, {name: value}, "", problems)
            if problems:
                continue
            argv = Ssh(settings, "192.0.2.1")._command("/dev/null", 5)
            done = subprocess.run(
                ["ssh", "-G", *argv[1:]], capture_output=True, text=True, check=False
            )
            if name == "user" and done.returncode == 255:
                continue  # ssh refuses it itself
            assert done.returncode == 0, (value, done.stderr)
            said = done.stdout
            lines = dict(line.split(" ", 1) for line in said.splitlines() if " " in line)
            assert lines["userknownhostsfile"] == settings.known_hosts, value
            if name == "key_file":
                assert f"identityfile {settings.key_file}" in said.splitlines(), value
            assert (lines["user"], lines["hostname"]) == (
                settings.user,
                settings.host or "192.0.2.1",
            )
    for name, value in {"key_file": "/etc/a b", "host": "fe80::1%eth0"}.items():
        problems = []
        load(SshSettings, {name: value}, "", problems)
        assert problems == [], value


ODD_PATHS = (
    *('/a" /etc/shadow "', "/a'b", "/a\\", "/a\nb", "/a\tb", "/%h", "/${HOME}", "/$HOME"),
    *("/a b", "/a\u2028b", "/a\x85b", "/~root", "/a=b", "/a,b", "/a#b"),
)


def test_a_pipe_or_device_in_the_place_of_a_file_of_ssh_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        for name in (str(tmp_path / "pipe"), "/dev/zero", str(tmp_path), str(tmp_path / "socket")):
            for settings in (SshSettings(key_file=name), SshSettings(known_hosts_file=name)):
                ssh = Ssh(settings, "192.0.2.1")
                for asked in (ssh.run("x", 60), ssh.look(60), ssh.fetch("x", 60, 100)):
                    with pytest.raises(WrongError, match="is not a file"):
                        asyncio.run(asked)
            with pytest.raises((WrongError, OSError)):
                keys.make(SshSettings(key_file=name))
            calibration = ina219.Settings(id="m", of="web", device="/dev/i2c-1", settings_file=name)
            with pytest.raises(Fault, match="is not a file"):
                asyncio.run(first(ina219.Driver(calibration, Site("192.0.2.1", lambda: None))))


async def first(driver: ina219.Driver) -> object:
    return await anext(aiter(driver.readings()))
