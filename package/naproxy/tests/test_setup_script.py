"""What the guide asks to paste on the server, run as a whole.

In a mount namespace with a copy of /etc, so that this machine stays as it is. Only sudo and its
checker are doubles.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from naproxy.config import document as config
from naproxy.setup import access

LINE = 'restrict,command="/usr/local/bin/naproxy-sleep" ssh-ed25519 AAAAC3Nza naproxy'
INSIDE = """
mount -t tmpfs tmpfs /usr/local/bin
cp -a /etc "$1/etc" && mount --bind "$1/etc" /etc
mkdir "$1/lib" && mount --bind "$1/lib" /var/lib
mkdir -p /etc/sudoers.d
printf '#!/bin/sh\\nprintf "%%s\\\\n" "$*"\\n' >/usr/local/bin/sudo
printf '#!/bin/sh\\n' >/usr/local/bin/visudo
chmod 755 /usr/local/bin/sudo /usr/local/bin/visudo
sh "$1/pasted"
sh "$1/pasted"
stat -c '%U %a' /var/lib/naproxy/.ssh /var/lib/naproxy/.ssh/authorized_keys /etc/sudoers.d/naproxy
cat /var/lib/naproxy/.ssh/authorized_keys /etc/sudoers.d/naproxy
/usr/local/bin/naproxy-sleep
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="a mount namespace needs root")
def test_the_pasted_text_lets_the_box_in_for_this_one_thing_and_can_be_pasted_twice(
    tmp_path: Path,
) -> None:
    text = '[[server]]\nid = "web"\naddress = "192.0.2.2"\nmac = "02:00:00:00:00:02"\n'
    server = config.parse(f'{text}[server.sleep]\ndriver = "ssh"\nstate = "off"\n').server[0]
    (tmp_path / "pasted").write_text(access._script(server, server.sleep, LINE))
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-ec", INSIDE, "sh", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    command = "systemctl poweroff --check-inhibitors=yes"
    finished = "Done. The box may now put this server to sleep."
    assert done.stdout.splitlines() == [
        *(finished, finished),
        *("naproxy 700", "naproxy 600", "root 440"),
        LINE,
        f"naproxy ALL=(root) NOPASSWD: /usr/bin/{command}",
        f"-n {command}",
    ], done.stderr
