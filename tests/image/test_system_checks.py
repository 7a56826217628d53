"""What the box's scripts take for an address or a name, under BusyBox's shell."""

import os
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

LIB = shlex.quote(f"{Path(__file__).resolve().parents[2]}/overlay/usr/lib/naproxy")
HOSTILE = (
    "",
    "$(touch {spy})",
    "`touch {spy}`",
    "1.2.3.4; touch {spy}",
    "1.2.3.4 5.6.7.8",
    "-h",
    "--help",
    "*",
    "../../etc/passwd",
    "a\nb",
    "ä",
    "'",
    '"',
    "\\",
    "1.2.3.4\r",
)


def passing(check: str, values: Sequence[str], *before: str) -> list[str]:
    """Return those that pass; all are asked of one shell, which starts slowly."""
    each = f'{" ".join((check, *before))} "$value"'
    script = f". {LIB}/checks.sh; for value; do if {each}; then echo y; else echo n; fi; done"
    argv = ["busybox", "sh", "-c", script, "sh", *values]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stderr == "", check
    answers = zip(values, done.stdout.splitlines(), strict=True)
    return [value for value, answer in answers if answer == "y"]


@pytest.mark.parametrize(
    "check",
    [
        *("is_ipv4", "is_bits", "is_ipv6", "is_bits6", "is_vlan"),
        *("is_name", "is_time_server", "is_zone"),
    ],
)
def test_nothing_hostile_passes_and_nothing_of_it_runs(check: str, tmp_path: Path) -> None:
    spy = tmp_path / "spy"
    assert passing(check, [value.replace("{spy}", str(spy)) for value in HOSTILE]) == []
    assert not spy.exists()


ADDRESSES6 = "::1 fe80:: 2001:db8::5 1:2:3:4:5:6:7:8 1:2:3:4:5:6:7:: 1::3:4:5:6:7:8"
NO_ADDRESSES6 = (
    "1:2:3:4:5:6:7 1:2:3:4:5:6:7:8:9 1:2:3:4:5:6:7:8:: 1::2::3 ::: :1:: 1: 12345::"
    " fe80::1%eth0 ::192.0.2.1 g:: fd00::5/64 192.0.2.1 1:2"
)
NO_ADDRESSES = "1.2.3 1.2.3.4.5 256.1.1.1 1.2.3.4. .1.2.3.4 1..2.3 01.2.3.4 1.2.3.4/24"
NO_SERVERS = ["a b", "a" * 254, "a iburst", "a\nserver b", "a/b", "a;b"]
VALUES = {
    # check: what passes, and what does not
    "is_ipv4": (["0.0.0.0", "192.0.2.1", "255.255.255.255"], NO_ADDRESSES.split()),
    "is_ipv6": (ADDRESSES6.split(), NO_ADDRESSES6.split()),
    "is_vlan": (["1", "7", "4094"], ["0", "07", "4095", "99999", "-1", "7.5", "0x7"]),
    "is_name": (
        ["a", "box", "naproxy-00ff00", "a" * 63, "1a"],
        ["A", "a.b", "-a", "a-", "12", "localhost", "a" * 64, "a_b"],
    ),
    "is_time_server": (["pool.ntp.org", "192.0.2.1", "2001:db8::1", "a" * 253], NO_SERVERS),
    "is_zone": (
        ["Europe/Zurich"],
        ["Europe/Nowhere", "Europe", "/etc/passwd", "Europe/../../../../etc/passwd", "Europe/"],
    ),
}


@pytest.mark.parametrize("check", VALUES)
def test_a_value_passes_its_check_and_others_do_not(check: str) -> None:
    good, bad = VALUES[check]
    assert passing(check, good) == good
    assert passing(check, bad) == []


def test_prefixes_that_leave_room_for_machines_pass() -> None:
    for check, most in (("is_bits", 30), ("is_bits6", 127)):
        numbers = [str(n) for n in range(most + 4)]
        assert passing(check, numbers) == numbers[1 : most + 1], check


def test_words_are_counted_and_each_is_checked() -> None:
    good = ["1.1.1.1 2.2.2.2", ""]
    assert passing("all", good, "3", "is_ipv4") == good
    bad = ["1.1.1.1 2.2.2.2 3.3.3.3 4.4.4.4", "1.1.1.1 * 2.2.2.2"]
    assert passing("all", bad, "3", "is_ipv4") == []


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("name=box\n", "box"),
        ("other=x\nname=box\nname=second\n", "box"),
        ("name=a=b\n", "a=b"),
        ("xname=box\n", ""),
        ("name=$(id)\n", "$(id)"),
        ("name=`id` $HOME\n", "`id` $HOME"),
        ("name=a\\nb\n", "a\\nb"),
        ("", ""),
    ],
)
def test_a_setting_is_read_and_never_run(text: str, value: str, tmp_path: Path) -> None:
    file = tmp_path / "settings"
    file.write_text(text)
    script = f'. {LIB}/common.sh; printf %s "$(setting "$1" name)"'
    done = subprocess.run(
        ["busybox", "sh", "-c", script, "sh", file], capture_output=True, text=True, check=True
    )
    assert done.stdout == value


def test_what_is_being_written_only_root_can_read(tmp_path: Path) -> None:
    """Also where a power cut left a file that others could."""
    (tmp_path / "file.new").write_text("old")
    (tmp_path / "file.new").chmod(0o644)
    script = f"""
    . {LIB}/common.sh; cd {tmp_path}
    {{
        echo secret
        until grep -qs secret file.new; do :; done
        stat -c %a file.new >&2
        echo more  # or the shell becomes stat, which does not hold the pipe open
    }} | put file
    stat -c %a file >&2
    """
    done = subprocess.run(
        ["busybox", "sh", "-c", script], capture_output=True, check=True, text=True, timeout=20
    )
    assert done.stderr.split() == ["600", "644"]


def test_a_claim_code_is_letters_whoever_wrote_it(tmp_path: Path) -> None:
    """The web interface's user may write there what it likes; root reads it to the console."""

    def read() -> str:
        script = f". {LIB}/common.sh; code={tmp_path}/code; claim_code"
        argv = ["busybox", "sh", "-c", script]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=5)
        assert done.stderr == ""
        return done.stdout

    code = tmp_path / "code"
    assert read() == ""
    code.write_text("PRWR-EQXW-F7YF\n")
    assert read() == "PRWR-EQXW-F7YF"
    code.write_text("\x1b[2J$(id);\n" + "A" * 5000)
    assert set(read()) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-")
    assert len(read()) < 64
    code.unlink()
    code.symlink_to("/etc/hostname")
    assert read() == ""
    code.unlink()
    os.mkfifo(code)
    assert read() == ""
