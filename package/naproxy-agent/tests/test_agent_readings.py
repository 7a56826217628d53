"""What keeps a server awake: judged from readings, and read from a server's files and tools."""

import fcntl
import ipaddress
import json
import os
import subprocess
import sys

import pytest

from naproxy_agent import (
    BEEN_ESTABLISHED,
    Config,
    Connection,
    Inhibitor,
    Readings,
    Rules,
    Unit,
    Watched,
    dry_run,
    plain_address,
    read,
    read_flows,
    read_inhibitors,
    read_installing,
    read_jobs,
    read_listening,
    read_processes,
    read_rebuilding,
    read_tcp,
    read_units,
    read_users,
    reasons,
)

RULES = Rules(processes=frozenset({"rsync", "borg"}))


BOX = frozenset({"192.0.2.250", "2001:db8::250"})


def why(rules=RULES, state="mem", **readings):
    return reasons(Readings(**readings), rules, state, BOX)


def lock(what, mode="block"):
    return Inhibitor(frozenset(what.split(":")), "backup", "copying", mode)


def unit(active, load="loaded"):
    return Unit("b.service", load, active)


@pytest.mark.parametrize(
    ("readings", "expected"),
    [
        ({"users": ("logged in: anna from 192.0.2.7",)}, "logged in: anna from 192.0.2.7"),
        ({"processes": frozenset({"rsync", "nginx"})}, "rsync is running"),
        ({"unreadable": ("the load cannot be read",)}, "the load cannot be read"),
        (
            {"arrays": (("md0", "recovery, 12.6 % done"),)},
            "md0 is being rebuilt (recovery, 12.6 % done)",
        ),
        (
            {"packages": ("/var/lib/dpkg/lock-frontend", "/var/lib/dpkg/lock")},
            "packages are being installed (/var/lib/dpkg/lock-frontend is locked)",
        ),
        *(
            ({"inhibitors": (lock(what, mode),)}, "inhibited by backup: copying")
            for what, mode in (
                *(("sleep", "block"), ("idle", "block"), ("shutdown:sleep", "block")),
                ("sleep", "block-weak"),  # newer systemd
            )
        ),
        *(
            ({"units": (unit(active),)}, f"b.service is {active}")
            for active in ("active", "activating", "deactivating", "reloading")
        ),
    ],
)
def test_what_is_at_work_is_a_reason(readings, expected):
    assert why(**readings) == (expected,)


def test_what_is_at_rest_is_none():
    for readings in (
        {},
        *({"inhibitors": (lock(what),)} for what in ("shutdown", "handle-lid-switch")),
        {"inhibitors": (lock("sleep", "delay"),)},
        *({"units": (unit(active),)} for active in ("inactive", "failed")),
    ):
        assert why(**readings) == (), readings


def test_power_off_minds_locks_on_shutdown():
    assert why(state="off", inhibitors=(lock("shutdown"),))
    assert not why(state="off", inhibitors=(lock("sleep"),))


def test_a_unit_that_does_not_exist_is_a_reason_not_a_blessing():
    assert "no such unit" in why(units=(unit("inactive", "not-found"),))[0]


def test_visitors_past_the_box_are_a_reason_at_any_port_also_beside_the_box_s_own():
    for port in (22, 80, 443, 8443):
        own = tuple(Connection(port, box) for box in BOX)
        assert why(connections=own) == ()
        visited = (*own, Connection(port, "192.0.2.9"))
        assert why(connections=visited) == (f"port {port} is connected to 192.0.2.9",)


def test_connections_to_ports_that_are_excepted_are_none():
    at_22 = (Connection(22, f"192.0.2.{host}") for host in (8, 7, 7))
    of_the_web = (Connection(80, "192.0.2.1"), Connection(443, "192.0.2.1"))
    connections = (*of_the_web, Connection(445, "192.0.2.9"), *at_22)
    rules = Rules(connections_except_ports=frozenset({80, 443}))
    assert why(rules, connections=connections) == (
        "port 22 is connected to 192.0.2.7 and 1 more",
        "port 445 is connected to 192.0.2.9",
    )
    assert why(Rules(connections_except_ports=None), connections=connections) == ()


def test_load_above_its_limit_is_a_reason():
    for load, limit, expected in ((1.0, 1.0, 0), (1.01, 1.0, 1), (9, None, 0)):
        assert len(why(Rules(load_above=limit), load=load)) == expected, (load, limit)


def test_a_masked_target_is_a_reason_with_its_cure():
    said = why(target=Unit("suspend.target", "masked", "inactive"))
    assert "systemctl unmask suspend.target" in said[0]


# ------------------------------------------------------------------------- reading


def hex_address(text, port):
    packed = ipaddress.ip_address(text).packed
    words = (packed[i : i + 4] for i in range(0, len(packed), 4))
    digits = "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words)
    return f"{digits}:{port:04X}"


def tcp_table(*rows):
    lines = ["  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid"]
    for i, (local, remote, status) in enumerate(rows):
        lines.append(
            f"  {i:2}: {hex_address(*local)} {hex_address(*remote)} {status} 00000000:00000000 "
            "00:00000000 00000000     0        0 17325 1 0000000000000000 100 0 0 10 0"
        )
    return "\n".join(lines) + "\n"


@pytest.fixture
def root(tmp_path):
    (tmp_path / "proc/net").mkdir(parents=True)
    (tmp_path / "proc/loadavg").write_text("0.31 0.20 0.10 1/100 1234\n")
    (tmp_path / "proc/net/tcp").write_text(tcp_table())
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    return tmp_path


def test_only_established_connections_from_elsewhere_to_a_listening_port_count(root):
    (root / "proc/net/tcp").write_text(
        tcp_table(
            (("0.0.0.0", 22), ("0.0.0.0", 0), "0A"),
            (("127.0.0.1", 3306), ("0.0.0.0", 0), "0A"),
            (("192.0.2.2", 22), ("192.0.2.7", 40000), "01"),
            (("192.0.2.2", 22), ("192.0.2.8", 40000), "06"),  # TIME_WAIT
            (("127.0.0.1", 3306), ("127.0.0.1", 50000), "01"),
            (("192.0.2.2", 22), ("192.0.2.2", 50000), "01"),  # from the server itself
            (("192.0.2.2", 51000), ("198.51.100.1", 443), "01"),  # made by the server
        )
    )
    assert read_tcp(root) == (Connection(22, "192.0.2.7"),)


def test_connections_that_ended_a_moment_ago_are_visits_and_half_made_ones_are_none(root):
    (root / "proc/net/tcp").write_text(
        tcp_table(
            (("0.0.0.0", 80), ("0.0.0.0", 0), "0A"),
            *(
                (("192.0.2.2", 80), (f"192.0.2.{int(status, 16) + 100}", 40000), status)
                for status in ("01", "02", "03", "04", "05", "06", "07", "08", "09", "0B")
            ),
        )
    )
    peers = {one.peer for one in read_tcp(root, BEEN_ESTABLISHED)}
    # Not SYN_SENT, SYN_RECV and CLOSE: anybody can make such rows with an invented address.
    assert peers == {f"192.0.2.{each + 100}" for each in (1, 4, 5, 6, 8, 9, 11)}


def test_connections_over_ipv6_and_mapped_ones_count_too(root):
    (root / "proc/net/tcp6").write_text(
        tcp_table(
            (("::", 445), ("::", 0), "0A"),
            (("2001:db8::2", 445), ("2001:db8::7", 40000), "01"),
            (("::ffff:192.0.2.2", 445), ("::ffff:192.0.2.9", 40000), "01"),
            (("::ffff:127.0.0.1", 445), ("::ffff:127.0.0.1", 40000), "01"),
        )
    )
    assert set(read_tcp(root)) == {Connection(445, "2001:db8::7"), Connection(445, "192.0.2.9")}


def test_who_sends_a_datagram_is_written_as_who_is_connected():
    for sender, peer in (
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8::1", "2001:db8::1"),
        ("fe80::1%eth0", "fe80::1"),
    ):
        assert plain_address(sender) == peer


def test_processes_have_the_kernel_s_name_the_program_s_and_the_script_s(root):
    for pid, comm, cmdline in (
        ("10", "mariadb-dump-lo", "/usr/bin/mariadb-dump-long\0--all\0"),
        ("11", "python3", "python3\0/usr/local/bin/nightly\0x\0"),
        ("12", "kworker/0:1", ""),
        ("13", "rsync", "rsync: \xff\0"),
    ):
        directory = root / "proc" / pid
        directory.mkdir()
        (directory / "comm").write_text(comm + "\n")
        (directory / "cmdline").write_text(cmdline, encoding="latin-1")
    (root / "proc/14").mkdir()  # ended meanwhile
    names = read_processes(root)
    assert {"mariadb-dump-lo", "mariadb-dump-long", "nightly", "rsync", "kworker/0:1"} <= names
    assert "" not in names
    assert "--all" not in names


MDSTAT = """\
Personalities : [raid1] [raid6]
md1 : active raid1 sdb1[1] sda1[0]
      976630336 blocks super 1.2 [2/2] [UU]
      [==>..................]  check = 12.6% (123456789/976630336) finish=66.1min speed=1234K/sec
      bitmap: 0/8 pages [0KB], 65536KB chunk

md2 : active raid1 sdd1[2] sdc1[0]
      976630336 blocks super 1.2 [2/1] [U_]
      [>....................]  recovery =  0.4% (3704396/976630336) finish=99.9min speed=99K/sec
md3 : active (auto-read-only) raid1 sde1[1] sdf1[0]
      976630336 blocks super 1.2 [2/2] [UU]
        resync=PENDING

unused devices: <none>
"""


def test_arrays_at_work_are_found_and_those_that_wait_are_not(root):
    assert read_rebuilding(root) == ()
    (root / "proc/mdstat").write_text("Personalities : \nunused devices: <none>\n")
    assert read_rebuilding(root) == ()
    (root / "proc/mdstat").write_text(MDSTAT)
    assert read_rebuilding(root) == (
        ("md1", "check, 12.6 % done"),
        ("md2", "recovery, 0.4 % done"),
    )


@pytest.fixture
def locks(root):
    """Dpkg's files for locks, where this machine's kernel says who holds them."""
    assert read_installing(root) == (), "without a package manager nothing is installed"
    (root / "var/lib/dpkg").mkdir(parents=True)
    for name in ("lock-frontend", "lock"):
        (root / "var/lib/dpkg" / name).touch()
    (root / "proc/locks").symlink_to("/proc/locks")
    return root / "var/lib/dpkg"


def test_a_package_manager_that_holds_its_lock_is_seen_until_it_lets_go(root, locks):
    assert read_installing(root) == ()
    with (locks / "lock").open("r+") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        assert read_installing(root) == ("/var/lib/dpkg/lock",)
    assert read_installing(root) == ()


def row_of(device, inode):
    return f"1: POSIX  ADVISORY  WRITE 812 {device}:{inode} 0 EOF\n"


def test_another_disks_file_of_the_same_inode_is_no_lock_of_dpkg(root, locks):
    file = (locks / "lock").stat()
    own = f"{os.major(file.st_dev):02x}:{os.minor(file.st_dev):02x}"
    (root / "proc/locks").unlink()
    (root / "proc/locks").write_text(row_of(own, file.st_ino))
    assert read_installing(root) == ("/var/lib/dpkg/lock",)
    (root / "proc/locks").write_text(row_of(own, f"1{file.st_ino}"))
    assert read_installing(root) == ()
    if os.major(file.st_dev):
        (root / "proc/locks").write_text(row_of("ff:ff", file.st_ino))
        assert read_installing(root) == ()


def test_a_table_of_locks_that_is_none_keeps_it_awake(root, locks):
    (root / "proc/locks").unlink()
    (root / "proc/locks").write_text("nonsense\n")
    said = reasons(read(config(), "mem", quiet, root), config().rules, "mem")
    assert said == ("the packages cannot be read: IndexError: list index out of range",)


def logind(**answers):
    """Busctl as Debian 12 has it; sessions by their path."""

    def run(command):
        assert command[:2] == ["busctl", "--json=short"]
        if command[2] == "get-property":
            values = answers[command[4]]
            return "".join(json.dumps({"type": "s", "data": value}) + "\n" for value in values)
        return json.dumps({"type": "a(...)", "data": [answers[command[-1]]]})

    return run


def test_inhibitors_are_logind_s():
    run = logind(ListInhibitors=[["shutdown:sleep", "backup", "copying", "block", 0, 99]])
    assert read_inhibitors(run) == (lock("shutdown:sleep"),)


def test_users_without_logind_are_those_of_who():
    who = "anna     pts/0        2024-01-01 10:00 (192.0.2.7)\n"
    without = read_users(lambda _: who, systemd=False)
    assert without == ("logged in: anna pts/0 2024-01-01 10:00 (192.0.2.7)",)


def test_units_come_in_the_order_asked_for_and_all_of_them():
    units = "a.service", "b.service"
    said = "LoadState=loaded\nActiveState=activating\n\nLoadState=not-found\nActiveState=inactive\n"
    assert read_units(lambda _: said, units) == (
        Unit("a.service", "loaded", "activating"),
        Unit("b.service", "not-found", "inactive"),
    )
    with pytest.raises(ValueError, match="every unit"):
        read_units(lambda _: "LoadState=loaded\nActiveState=active\n", units)


def config(**rules):
    return Config("web", rules=Rules(**rules), commands={"mem": ("systemctl", "suspend")})


def quiet(command):
    """A server where logind and systemd have nothing to tell."""
    if command[0] == "systemctl":
        return "LoadState=loaded\nActiveState=inactive\n"
    return '{"data": [[]]}'


def test_an_idle_server_gives_no_reason(root):
    readings = read(config(processes=frozenset({"rsync"})), "mem", quiet, root)
    assert readings.load == 0.31
    assert readings.target == Unit("suspend.target", "loaded", "inactive")
    assert reasons(readings, config().rules, "mem") == ()


def broken(error):
    def run(_command):
        raise error

    return run


def test_a_server_that_cannot_be_asked_stays_awake(root):
    for error in (
        FileNotFoundError("busctl"),
        subprocess.TimeoutExpired("busctl", 5),
        subprocess.CalledProcessError(1, ["busctl"], stderr="Failed to connect to bus\n"),
    ):
        why = reasons(read(config(), "mem", broken(error), root), Rules(), "mem")
        unknown = [reason.partition(" cannot")[0] for reason in why]
        assert unknown == ["the inhibitors", "the users", "the target"], error


def test_a_tool_that_talks_nonsense_keeps_it_awake(root):
    for said in ("", "{}", "null", '{"data": []}', '{"data": [[["x"]]]}', "[1]"):
        readings = read(config(), "mem", lambda _, said=said: said, root)
        assert reasons(readings, Rules(), "mem"), said


@pytest.mark.parametrize("file", ["proc/loadavg", "proc/net/tcp"])
def test_a_file_of_nonsense_keeps_it_awake(root, file):
    (root / file).write_text("header\nnonsense\n")
    [why] = reasons(read(config(), "mem", quiet, root), Rules(), "mem")
    assert "cannot be read" in why


def test_what_is_switched_off_is_not_read(root):
    (root / "proc/loadavg").unlink()
    (root / "proc/net/tcp").unlink()
    quiet_rules = {
        "inhibitors": False,
        "logged_in_users": False,
        "load_above": None,
        "connections_except_ports": None,
    }
    own = Config("web", rules=Rules(**quiet_rules), commands={"mem": ("/sbin/my-sleep",)})
    assert read(own, "mem", broken(AssertionError("asked")), root) == Readings()


# What the server is going to do


NOW_S = 1_795_449_600.0


def serve(root, **files):
    for name, text in files.items():
        file = root / name.replace("__", "/").replace("_DOT_", ".")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def names(root, timers="[]"):
    return {job.name for job in read_jobs(lambda _: timers, root, NOW_S)}


def test_users_crontabs_are_read_and_those_of_the_system_but_not_what_editors_left(tmp_path):
    serve(
        tmp_path,
        etc__crontab="0 2 * * * root /usr/bin/first\n",
        etc__cron_DOT_d__second="0 2 * * * root x\n",
        var__spool__cron__crontabs__joe="0 2 * * * third\n",
    )
    for name in ("x~", "x.dpkg-old", ".x.swp"):
        (tmp_path / "etc/cron.d" / name).write_text("0 2 * * * root x\n")
    assert names(tmp_path) == {"root: first", "cron.d/second", "joe: third"}


def test_crontab_of_a_user_with_a_dot_is_read_but_not_what_crontab_and_editors_left(tmp_path):
    folder = tmp_path / "var/spool/cron/crontabs"
    folder.mkdir(parents=True)
    users = ("max.muster", "jörg", "ann@office.example", "OFFICE\\ben", "backup-1")
    left = (".ann.swp", "#ann#", "ann~", "tmp.Xy12Zw", "ann.dpkg-old", "ann.rpmsave")
    for name in (*users, *left):
        (folder / name).write_text("0 3 * * * /usr/local/bin/backup\n")
    assert names(tmp_path) == {f"{user}: backup" for user in users}


def test_of_a_folder_that_is_run_as_a_whole_programs_are_told(tmp_path):
    serve(
        tmp_path,
        etc__crontab="0 6 * * * root run-parts /etc/cron.daily\n",
        etc__cron_DOT_daily__backup="",
        etc__cron_DOT_daily__README="",
    )
    (tmp_path / "etc/cron.daily/backup").chmod(0o755)
    assert names(tmp_path) == {"cron.daily/backup"}


def test_timers_are_asked_of_systemd(tmp_path):
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    timers = [{"unit": "backup.timer", "next": int((NOW_S + 60) * 1e6), "last": 0}]
    assert names(tmp_path, json.dumps(timers)) == {"backup.timer"}


def test_a_crontab_that_cannot_be_read_is_an_error(tmp_path):
    serve(tmp_path, etc__cron_DOT_d__x="0 2 * * * root x\n" * 5000)
    with pytest.raises(ValueError, match="too long"):
        names(tmp_path)


def said(watched, **readings):
    return reasons(Readings(**readings), RULES, "mem", BOX, watched)


def test_who_uses_a_port_of_udp_that_the_box_named_keeps_it_awake():
    peers = ("192.0.2.7", "192.0.2.8", "192.0.2.250")
    flows = (*(Connection(51820, peer) for peer in peers), Connection(53, "1.1.1.1"))
    expected = ("udp port 51820 is used by 192.0.2.7 and 1 more",)
    assert said(Watched((51820,)), flows=flows) == expected


def test_a_server_without_a_table_of_connections_says_so_and_stays_awake():
    line = "udp port 51820 cannot be watched: this server tracks no connections"
    assert said(Watched((51820,)), flows=None) == (line,)
    assert said(Watched(), flows=None) == ()


def test_connections_that_the_office_ignores_do_not_count():
    connections = (Connection(1883, "192.0.2.7"), Connection(22, "192.0.2.8"))
    expected = ("port 22 is connected to 192.0.2.8",)
    assert said(Watched((), frozenset({1883})), connections=connections) == expected


def table(root, name, *rows):
    """Sockets that are bound: address, port and state of each."""
    (root / "proc/net").mkdir(parents=True, exist_ok=True)
    nobody = {"tcp": "0.0.0.0", "udp": "0.0.0.0", "tcp6": "::"}[name]
    bound = (((address, port), (nobody, 0), state) for address, port, state in rows)
    (root / "proc/net" / name).write_text(tcp_table(*bound))


SS = """
tcp   LISTEN 0  4096  0.0.0.0:445  0.0.0.0:*  users:(("smbd",pid=7,fd=30))
udp   UNCONN 0  0     0.0.0.0:53   0.0.0.0:*  users:(("evil \x1b[2J name",pid=8,fd=4))
tcp   LISTEN 0  4096  *:3306       *:*
"""


def no_command(_command):
    raise FileNotFoundError("systemd-run")


def test_ports_that_others_reach_are_told_with_their_programs_where_root_says_whose(tmp_path):
    table(tmp_path, "tcp", ("0.0.0.0", 445, "0A"), ("127.0.0.1", 631, "0A"))
    table(tmp_path, "tcp6", ("::", 3306, "0A"), ("::1", 25, "0A"), ("::", 80, "01"))
    table(tmp_path, "udp", ("0.0.0.0", 53, "07"), ("127.0.0.53", 5355, "07"))
    plain = ("53/udp", "445/tcp", "3306/tcp")
    assert read_listening(no_command, tmp_path) == plain
    commands = []

    def ss(command):
        commands.append(command)
        if "conntrack" in command:
            raise subprocess.CalledProcessError(1, command)
        return SS

    assert read_listening(ss, tmp_path) == ("53/udp/evil___2J_name", "445/tcp/smbd", "3306/tcp")
    assert commands[0][0] == "systemd-run"
    assert commands[0][-2:] == ["ss", "-Htulnp"]


CONNTRACK = """
ipv4 2 tcp 6 43 ESTABLISHED src=192.0.2.1 dst=192.0.2.2 sport=4 dport=22 src=192.0.2.2
ipv4 2 udp 17 28 src=192.0.2.9 dst=192.0.2.2 sport=4 dport=51820 [UNREPLIED] src=192.0.2.2 dport=4
ipv4 2 udp 17 28 src=192.0.2.2 dst=9.9.9.9 sport=4 dport=53 src=9.9.9.9 sport=53 dport=4
ipv6 10 udp 17 28 src=2001:0db8:0000:0000:0000:0000:0000:0009 dst=2001:db8::2 sport=4 dport=53
ipv4 2 udp 17 28 src=127.0.0.1 dst=127.0.0.1 sport=4 dport=53 src=127.0.0.1 dst=127.0.0.1
"""
TRIE = """Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 192.0.2.0/30 2 0 2
        |-- 192.0.2.0
           /24 link UNICAST
        |-- 192.0.2.2
           /32 host LOCAL
"""


def tracked(root, text):
    (root / "proc/net").mkdir(parents=True)
    (root / "proc/net/nf_conntrack").write_text(text)


def test_flows_of_udp_are_those_that_somebody_else_began(tmp_path):
    tracked(tmp_path, CONNTRACK.strip())
    (tmp_path / "proc/net/fib_trie").write_text(TRIE)
    assert read_flows(no_command, tmp_path, frozenset({53, 51820})) == (
        Connection(53, "2001:db8::9"),
        Connection(51820, "192.0.2.9"),
    )
    assert read_listening(no_command, tmp_path) == ("flows",)


def test_a_table_of_connections_that_somebody_floods_hides_nobody(tmp_path):
    flood = "ipv4 2 tcp 6 9 SYN_RECV src=192.0.2.66 dst=192.0.2.2 sport=4 dport=80\n" * 65536
    tracked(tmp_path, flood + CONNTRACK.strip())
    with pytest.raises(ValueError, match="too long"):
        read_flows(no_command, tmp_path, frozenset({51820}))


def test_an_empty_table_of_connections_is_none(tmp_path):
    tracked(tmp_path, "")
    assert read_flows(no_command, tmp_path, frozenset({53})) is None


def test_a_dry_run_of_the_sleep_command_says_what_would_refuse_it():
    asked = []

    def run(command):
        asked.append(command)
        said = answers.get(command[0])
        if isinstance(said, str):
            return said
        raise said

    failed = subprocess.CalledProcessError(1, ["systemctl"], stderr="Unknown option\n")
    suspend = ("systemctl", "suspend")
    for command, answers, why in (
        (suspend, {"busctl": 's "yes"', "systemctl": ""}, ()),
        (
            suspend,
            {"busctl": 's "na"'},
            ("cannot sleep: logind says that this server does not offer it",),
        ),
        (suspend, {"busctl": FileNotFoundError("busctl"), "systemctl": ""}, ()),
        (
            suspend,
            {"busctl": 's "yes"', "systemctl": failed},
            ("cannot sleep: systemctl: Unknown option",),
        ),
        (("/usr/bin/systemctl", "--no-wall", "poweroff"), {"busctl": "", "systemctl": ""}, None),
        (("rtcwake", "-m", "mem"), {}, ()),
        (("systemctl", "start", "nap.service"), {}, ()),
    ):
        answers.setdefault("/usr/bin/systemctl", "")
        asked.clear()
        found = dry_run(command, run)
        assert found == (why or ()), command
        if found == () and answers.get("busctl") == 's "yes"':
            assert asked[-1] == [*command, "--dry-run"]
        assert all(each[0] == "busctl" or each[-1] == "--dry-run" for each in asked), asked
