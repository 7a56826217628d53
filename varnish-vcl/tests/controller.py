"""A fake controller: it takes wake datagrams, and wakes after a while.

controller.py PAGETOOL DIR [AFTER_S]

Binds DIR/wake.sock and returns. A child serves until the test removes DIR. Each datagram's
server, reason, class and path go to DIR/wakes as one line. Refused search engines go to
DIR/refused. With AFTER_S the server's state becomes awake that many seconds after the first
datagram that asks for it.
"""

import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

MOST_S = 120.0
"""A test that failed may leave its folder."""


class TestOver:
    """Whether the test is over, whose folder this is."""

    def __init__(self, folder: Path) -> None:
        """It begins now."""
        self.folder, self.end_s = folder, time.monotonic() + MOST_S

    def __call__(self) -> bool:
        """Say it now."""
        return time.monotonic() > self.end_s or not self.folder.exists()


def go_on_behind() -> None:
    """Return in a child; the process that was called ends, and so does what waits for it."""
    if os.fork() != 0:
        os._exit(0)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for fd in range(3):
        os.dup2(nowhere, fd)


def main() -> None:
    """Bind, and serve in the background."""
    run_dir = Path(sys.argv[2])
    after_s = float(sys.argv[3]) if len(sys.argv) > 3 else None
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sock.bind(str(run_dir / "wake.sock"))
    (run_dir / "wake.sock").chmod(0o666)
    go_on_behind()
    serve(sock, sys.argv[1], run_dir, after_s)


def serve(sock: socket.socket, pagetool: str, run_dir: Path, after_s: float | None) -> None:
    """Take datagrams while the test runs."""
    woken, over = set(), TestOver(run_dir)
    sock.settimeout(1)
    while not over():
        try:
            kind, *lines = sock.recv(2048).decode().splitlines()
        except TimeoutError:
            continue
        fields = dict(line.split("=", 1) for line in lines)
        if kind == "naproxy-refused 1":
            with (run_dir / "refused").open("a") as refused:
                refused.write("{server} {engine} {address} {network}\n".format(**fields))
            continue
        with (run_dir / "wakes").open("a") as wakes:
            wakes.write("{server} {reason} {class} {path}\n".format(**fields))
        if after_s is not None and fields["server"] not in woken:
            woken.add(fields["server"])
            command = [pagetool, str(run_dir), "set", fields["server"], "state=awake"]
            threading.Timer(after_s, subprocess.run, [command], {"check": True}).start()


if __name__ == "__main__":
    main()
