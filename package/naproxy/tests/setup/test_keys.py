"""`naproxy key` with a real OpenSSH server."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from unittest.mock import patch

import pytest
from free_port import free_port
from hypothesis import given
from hypothesis import strategies as st
from naproxy.cli.__main__ import main
from naproxy.drivers.sleep import ssh
from naproxy.server.machine_io import Answer
from naproxy.setup import keys
from ssh_server import Server, key, needs_sshd, serving


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    if needs_sshd.args[0]:
        pytest.skip(needs_sshd.kwargs["reason"])
    with serving(tmp_path_factory.mktemp("sshd")) as server:
        yield server


class Box:
    def __init__(self, directory: Path, port: int) -> None:
        self.file = directory / "naproxy.toml"
        self.known_hosts = directory / "ssh" / "known_hosts"
        self.key_file = directory / "ssh" / "id_ed25519"
        self.file.write_text(
            '[[server]]\nid = "web"\naddress = "127.0.0.1"\nmac = "02:00:00:00:00:01"\n'
            f'[server.sleep]\ndriver = "ssh"\nport = {port}\n'
            f'key_file = "{self.key_file}"\n'
        )

    def key(self, action: str, *more: str, server: str = "web") -> tuple[int, str, str]:
        argv = ["key", action, server, "--config", str(self.file), *more]
        with (
            redirect_stdout(StringIO()) as out,
            redirect_stderr(StringIO()) as err,
            patch("sys.stdin", StringIO()),
        ):
            status = main(argv)
        return status, out.getvalue(), err.getvalue()


@pytest.fixture
def box(sshd: Server, tmp_path: Path) -> Box:
    return Box(tmp_path, sshd.port)


def fingerprint(public: Path) -> str:
    return subprocess.run(
        ["ssh-keygen", "-lf", public], capture_output=True, text=True, check=True
    ).stdout


def test_the_key_is_made_on_the_box_and_only_its_public_half_is_shown(box: Box) -> None:
    status, shown, _ = box.key("make")
    assert status == 0
    public = " ".join(box.key_file.with_suffix(".pub").read_text().split()[:2])
    assert shown == f'restrict,command="/usr/local/bin/naproxy-sleep" {public} naproxy\n'
    assert box.key_file.stat().st_mode & 0o777 == 0o600
    assert box.key_file.parent.stat().st_mode & 0o777 == 0o700


def test_a_key_with_a_passphrase_is_said(box: Box) -> None:
    box.key_file.parent.mkdir()
    subprocess.run(["ssh-keygen", "-q", "-N", "words", "-f", box.key_file], check=True)
    status, _, said = box.key("make")
    assert status == 1
    assert "passphrase" in said


def test_a_power_cut_costs_neither_a_key_nor_what_is_pinned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[str] = []
    sync = os.fsync

    def fsync(descriptor: int) -> None:
        kept.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    keys.make(ssh.Settings(key_file=str(tmp_path / "etc" / "id")))
    assert kept == ["id", "etc"]
    kept.clear()
    keys.pin(tmp_path / "etc" / "known_hosts", "192.0.2.1", keys.HostKey("ssh-ed25519", "AAAA"))
    assert kept == [f".known_hosts.{os.getpid()}", "etc"]


def test_the_right_fingerprint_pins_the_host_key_and_then_it_works(sshd: Server, box: Box) -> None:
    sshd.says("exit 0")
    assert box.key("pin", "--fingerprint", fingerprint(sshd.directory / "host.pub"))[0] == 0
    assert sshd.sleep(known_hosts_file=str(box.known_hosts)).answer is Answer.ACCEPTED
    status, said, _ = box.key("pin")
    assert status == 0
    assert "pinned already" in said


def test_a_wrong_fingerprint_or_none_pins_nothing(box: Box) -> None:
    for wrong in ("SHA256:" + "A" * 43, "SHA256:", "", "MD5:00:11"):
        assert box.key("pin", "--fingerprint", wrong)[0] == 1, wrong
    status, _, said = box.key("pin")  # and nobody is there to answer
    assert status == 1
    assert "give --fingerprint" in said
    assert not box.known_hosts.exists()


def test_a_host_key_that_changed_is_not_taken_without_a_word(sshd: Server, box: Box) -> None:
    name = keys.place("127.0.0.1", sshd.port)
    old = f"{name} {key(box.file.with_name('old'))}other.example ssh-ed25519 AAAA\n"
    box.known_hosts.parent.mkdir()
    box.known_hosts.write_text(old)
    right = fingerprint(sshd.directory / "host.pub")
    status, _, said = box.key("pin", "--fingerprint", right)
    assert status == 1
    assert "shows another host key than the pinned one" in said
    assert box.known_hosts.read_text() == old
    assert box.key("pin", "--replace", "--fingerprint", right)[0] == 0
    assert box.known_hosts.read_text().startswith("other.example ssh-ed25519 AAAA\n")
    assert len(box.known_hosts.read_text().splitlines()) == 2


def test_a_server_that_is_not_there_or_not_configured_is_said(box: Box, tmp_path: Path) -> None:
    status, _, said = Box(tmp_path, free_port()).key("pin")
    assert status == 1
    assert "shows no host key" in said
    status, _, said = box.key("make", server="mail")
    assert status == 1
    assert "there is no server mail, only web" in said


@given(st.text(max_size=200), st.sampled_from(["h", "[h]:7"]))
def test_nonsense_in_known_hosts_is_no_key(text: str, host: str) -> None:
    assert keys.host_keys(text, host) == []
    assert keys.host_keys(keys.without(text, host), host) == []
