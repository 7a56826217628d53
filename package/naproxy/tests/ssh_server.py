"""A real OpenSSH server on loopback, whose forced command is a script."""

import asyncio
import getpass
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from free_port import free_port
from naproxy import drivers
from naproxy.drivers.sleep import SleepResult, ssh

SSHD = "/usr/sbin/sshd"
needs_sshd = pytest.mark.skipif(
    os.geteuid() != 0 or not Path(SSHD).exists() or not shutil.which("ssh"),
    reason="needs root, sshd and ssh",
)
TARGET = drivers.Target("web", "127.0.0.1", 80, "02:00:00:00:00:01", "lo")


@dataclass
class Server:
    """An sshd, its keys and those of its client."""

    directory: Path
    port: int

    def says(self, script: str) -> None:
        (self.directory / "forced").write_text(f"#!/bin/sh\n{script}\n")

    def login(self, **changes: Any) -> dict[str, Any]:
        """The keys of a configuration that log in."""
        usual = {
            "port": self.port,
            "user": getpass.getuser(),
            "key_file": str(self.directory / "client"),
            "known_hosts_file": str(self.directory / "known_hosts"),
        }
        return {**usual, **changes}

    def settings(self, **changes: Any) -> ssh.Settings:
        return ssh.Settings(**self.login(**changes))

    def sleep(self, **changes: Any) -> SleepResult:
        return asyncio.run(ssh.Driver(self.settings(**changes), TARGET).sleep())


def key(path: Path) -> str:
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", path], check=True
    )
    return path.with_suffix(".pub").read_text()


@contextmanager
def serving(directory: Path) -> Iterator[Server]:
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    host_key, client_key = key(directory / "host"), key(directory / "client")
    port = free_port()
    (directory / "known_hosts").write_text(f"[127.0.0.1]:{port} {host_key}")
    (directory / "authorized_keys").write_text(
        f'restrict,command="/bin/sh {directory}/forced" {client_key}'
    )
    (directory / "banner").write_text("Authorized use only.\nAll is written down.\n")
    (directory / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {directory}/host\n"
        f"AuthorizedKeysFile {directory}/authorized_keys\nPidFile none\nStrictModes no\n"
        f"Banner {directory}/banner\n"
        "UsePAM no\nPasswordAuthentication no\nPermitRootLogin forced-commands-only\n"
    )
    # What this machine's root has his shell do at each login is no part of it.
    others = [line for line in Path("/etc/passwd").read_text().splitlines() if line[:5] != "root:"]
    (directory / "passwd").write_text("\n".join(["root:x:0:0:root:/:/bin/sh", *others, ""]))
    start = (
        f"mount --bind {directory}/passwd /etc/passwd\nexec {SSHD} -D -e -f {directory}/sshd_config"
    )
    with (directory / "sshd.log").open("wb") as log:
        process = subprocess.Popen(["unshare", "--mount", "sh", "-ec", start], stderr=log)
        try:
            while process.poll() is None:
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
            yield Server(directory, port)
        finally:
            process.terminate()
            process.wait()
