"""Stands in for the controller: takes wake datagrams, and wakes after a while.

controller.py PAGETOOL DIR [AFTER_S]

Binds DIR/wake.sock. Of each datagram server, reason, class and path go to DIR/wakes, as
one line; whom of a search engine it refused goes to DIR/refused. With AFTER_S the server's
state becomes awake that many seconds after the first datagram that asks for it.
"""

import socket
import subprocess
import sys
import threading
from pathlib import Path


def main() -> None:
    """Serve until killed."""
    pagetool, run_dir = sys.argv[1], Path(sys.argv[2])
    after_s = float(sys.argv[3]) if len(sys.argv) > 3 else None
    woken = set()
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sock.bind(str(run_dir / "wake.sock"))
    (run_dir / "wake.sock").chmod(0o666)
    while True:
        kind, *lines = sock.recv(2048).decode().splitlines()
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
