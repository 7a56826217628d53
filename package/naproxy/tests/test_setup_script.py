"""What the guide asks to paste on the server, run as a whole.

In a mount namespace with a copy of /etc, so that this machine stays as it is. Only sudo and its
checker are doubles.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from naproxy.api.jobs import JobError
from naproxy.config import document as config
from naproxy.setup import access

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="a mount namespace needs root")
LINE = 'restrict,command="/usr/local/bin/naproxy-sleep" ssh-ed25519 AAAAC3Nza naproxy'
PREPARED = """
mount -t tmpfs tmpfs /usr/local/bin
cp -a /etc "$1/etc" && mount --bind "$1/etc" /etc
mkdir "$1/lib" && mount --bind "$1/lib" /var/lib
mkdir -p /etc/sudoers.d
printf '#!/bin/sh\\nprintf "%%s\\\\n" "$*"\\n' >/usr/local/bin/sudo
printf '#!/bin/sh\\n' >/usr/local/bin/visudo
chmod 755 /usr/local/bin/sudo /usr/local/bin/visudo
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


def pasted(folder: Path, what: str) -> list[str]:
    """Paste what lets the box put the server to sleep; see `run`."""
    server = config.parse(f'{SERVER}[server.sleep]\ndriver = "ssh"\nstate = "off"\n').server[0]
    return run(folder, access._script(server, server.sleep, LINE), what)


def run(folder: Path, text: str, what: str) -> list[str]:
    """Run the text, and then `what`; the lines that were printed."""
    (folder / "pasted").write_text(text)
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-ec", PREPARED + what, "sh", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@needs_root
def test_the_pasted_text_lets_the_box_in_for_this_one_thing_and_can_be_pasted_twice(
    tmp_path: Path,
) -> None:
    command = "systemctl poweroff --check-inhibitors=yes"
    assert pasted(tmp_path, TWICE) == [
        *(FINISHED, FINISHED),
        *("naproxy 700", "naproxy 600", "root 440"),
        *("ssh-ed25519 AAAAC3Other somebody", LINE),
        f"naproxy ALL=(root) NOPASSWD: /usr/bin/{command}",
        f"-n {command}",
    ]


@needs_root
def test_a_link_that_the_user_has_laid_leads_root_nowhere(tmp_path: Path) -> None:
    assert pasted(tmp_path, LINKED) == [FINISHED, FINISHED, "precious", LINE]


def certificate_script(folder: Path, there: str) -> str:
    text = f'{SERVER}[server.sleep]\ndriver = "ssh"\n[[certificate]]\nid = "main"\n'
    text += f'source = "server"\nserver = "web"\nkey_file = "{folder}/etc-box/key"\n'
    parsed = config.parse(text)
    made = asyncio.run(
        access.certificate_key(parsed.certificate[0], parsed.server[0], there, folder / "etc-box")
    )
    return str(made["script"])


@needs_root
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


@pytest.mark.parametrize(
    "folder",
    [
        *("", "/", "relative", "/a b", "/a'b", "/$(reboot)", "/`x`", "/a;b", "/a\nb", "/a//b"),
        *("/@USER@", "/ü", "/a|b", '/a"b'),
    ],
)
def test_a_folder_that_a_shell_would_read_gets_no_script(tmp_path: Path, folder: str) -> None:
    with pytest.raises(JobError, match="path of a folder"):
        certificate_script(tmp_path, folder)
    assert not (tmp_path / "etc-box").exists()
