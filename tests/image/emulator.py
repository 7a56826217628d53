"""A machine in QEMU that is switched off as soon as its serial port has said enough."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path


def said_until(
    enough: Callable[[str], bool],
    argv: Sequence[str | Path],
    timeout_s: float,
    typed: Mapping[str, str] | None = None,
) -> str:
    """Run QEMU, whose serial port is its standard output, and return what it said.

    `typed` is what is answered to what it says, each time. AssertionError if it ends, or the time,
    before it has said enough.
    """
    machine = subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    timer = threading.Timer(timeout_s, machine.kill)
    timer.start()
    answers = typed or {}
    prompt = re.compile("|".join(map(re.escape, answers)) or r"(?!)")
    said, answered = "", 0
    assert machine.stdin
    assert machine.stdout
    while not enough(said):
        piece = os.read(machine.stdout.fileno(), 4096)
        if not piece:
            break
        said += piece.decode(errors="replace").replace("\r", "")
        for found in prompt.finditer(said, answered):
            machine.stdin.write(answers[found[0]].encode())
            machine.stdin.flush()
            answered = found.end()
    timer.cancel()
    machine.kill()
    machine.communicate()
    assert enough(said), said
    return said
