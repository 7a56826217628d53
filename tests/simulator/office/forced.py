"""The command that the guide has people paste, with the agent, on the office's server.

All of this machine is the server's there: its users and its load are no matter. In the end the
agent asks the mainboard.
"""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.simulator.office.namespace import ROOT
from tests.simulator.office.server import Server

_AGENT = ROOT / "package/naproxy-agent/src/naproxy_agent.py"
_PREPARE = ROOT / "package/naproxy/src/naproxy/setup/prepare-server.sh"
_BEFORE = Path(__file__).with_name("prepare-server.before-agent.txt")
"""The box gave out this text before the agent decided; servers keep it."""
_SUDO = "sudo -n /usr/local/sbin/naproxy-agent --once @STATE@"
_VALUES = {"@PORTS@": "80 443", "@VERB@": "suspend", "@USER@": "root"}
_CONFIG = """\
[agent]
server = web
[stay-awake]
inhibitors = no
logged-in-users = no
load-above = any
processes = mariadb-dump
[sleep]
mem = {sleep}
"""


@contextlib.contextmanager
def forced(server: Server) -> Iterator[Path]:
    """Have the box's key run it; yields the folder of programs that it finds first."""
    folder = server.directory
    command, board, config, programs = (
        folder / name for name in ("naproxy-sleep", "naproxy-sleep.board", "agent.conf", "programs")
    )
    before = command.read_text()
    board.write_text(before)
    board.chmod(0o755)
    config.write_text(_CONFIG.format(sleep=board))
    programs.mkdir(exist_ok=True)
    # There is no systemd to run what the service itself may not.
    run = programs / "systemd-run"
    run.write_text('#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\nexec "$@"\n')
    run.chmod(0o755)
    text = _PREPARE.read_text().split("naproxy-sleep <<'END'\n")[1].split("END\n")[0]
    assert _SUDO in text
    agent = f"PATH='{programs}':$PATH '{sys.executable}' '{_AGENT}' --config '{config}' --once mem"
    command.write_text(text.replace(_SUDO, agent))
    try:
        yield programs
    finally:
        command.write_text(before)


@contextlib.contextmanager
def forced_before(server: Server) -> Iterator[None]:
    """Have the box's key run the command of a text that was pasted before the agent."""
    folder = server.directory
    command, board, helper = (
        folder / name for name in ("naproxy-sleep", "naproxy-sleep.board", "naproxy-appointments")
    )
    before, text = command.read_text(), _BEFORE.read_text()
    for name, value in _VALUES.items():
        text = text.replace(name, value)
    asks, tells = (part.partition("\nEND\n")[0] for part in text.split("<<'END'\n")[1:3])
    board.write_text(before)
    helper.write_text(f"{tells}\n")
    for file in (board, helper):
        file.chmod(0o755)
    asks = asks.replace("sudo -n /usr/local/sbin/naproxy-appointments", str(helper))
    last = asks.rindex("exec sudo -n /usr/bin/setpriv ")
    command.write_text(f"{asks[:last]}exec {board}\n")
    try:
        yield
    finally:
        command.write_text(before)
