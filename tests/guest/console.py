"""The guest's serial console, as a person at a terminal uses it: log in, paste, log out."""

import contextlib
import re
import socket
import threading
import time
from pathlib import Path

from tests.patience import wait_for

PASSWORD = "guest"
"""Of root, in the image that customise makes."""
_PROMPT = "root@guest:~# "
_BRACKETS = "\x1b[?2004"
"""Then `h`: the shell wants pasted text marked as such; `l`: it has taken the line."""
_CHUNK = 256
_CHUNK_S = 0.02
"""An emulated serial line has no flow control."""
_PASTE_S = 300.0


class Console:
    """Keeps what the guest prints; `log` gets it too."""

    def __init__(self, path: Path, log: Path):
        self._line = socket.socket(socket.AF_UNIX)
        self._line.connect(str(path))
        self._printed = ""
        threading.Thread(target=self._read, args=(log,), daemon=True, name="guest-console").start()

    def log_in(self) -> None:
        """Log in as root, with the password; login gives up where that takes a minute."""
        prompt = re.escape(_PROMPT)
        while not self._printed.endswith(_PROMPT):
            before = self._await("login: $")
            self._type("root\r")
            before = self._await("(Password|login): $", before)
            if self._printed.endswith("Password: "):
                self._type(f"{PASSWORD}\r")
                self._await(f"({prompt}|login: )$", before)

    def log_out(self) -> None:
        """Leave the shell."""
        self._type("exit\r")
        self._await("login: $")

    def paste(self, text: str) -> str:
        """Paste text into the shell as a terminal does, and press Enter; return what is printed."""
        assert self._printed.rpartition(_BRACKETS)[2].startswith("h"), "no bracketed paste"
        before = len(self._printed)
        lines = text.rstrip("\n").replace("\n", "\r")
        self._type(f"\x1b[200~{lines}\x1b[201~\r")
        self._await(re.escape(_BRACKETS) + "l.*" + re.escape(_PROMPT) + "$", before)
        done = self._printed[before:].rpartition(f"{_BRACKETS}l")[2].rpartition(_BRACKETS)[0]
        return done.replace("\r", "").strip()

    def _type(self, text: str) -> None:
        data = text.encode()
        for start in range(0, len(data), _CHUNK):
            self._line.sendall(data[start : start + _CHUNK])
            time.sleep(_CHUNK_S)

    def _await(self, pattern: str, start: int = 0) -> int:
        """Wait until what is printed after `start` matches; return how much there is by then."""
        found = re.compile(pattern, re.DOTALL)
        wait_for(lambda: found.search(self._printed, start), f"the console: {pattern}", _PASTE_S)
        return len(self._printed)

    def _read(self, log: Path) -> None:
        with log.open("wb") as kept, contextlib.suppress(OSError):
            while piece := self._line.recv(4096):
                kept.write(piece)
                kept.flush()
                self._printed += piece.decode(errors="replace")
