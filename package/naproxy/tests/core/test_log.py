"""The log of a program: a line for each message, whatever is in it."""

import logging
import subprocess
import sys

from naproxy.core.log import Lines

SCRIPT = """
import logging
from naproxy.core import log
from naproxy.core.reason import own_words

class Kept(logging.Handler):
    def emit(self, record):
        print("kept", self.format(record))

log.to_standard_error(Kept())
logging.getLogger("naproxy.room").info("web: %s", own_words("down\\nweb: awake"))
logging.getLogger("naproxy.room").debug("nobody wants to know")
logging.getLogger("another.library").info("nor this")
logging.getLogger("another.library").warning("this")
"""


def lines(message: str, *values: object, fault: Exception | None = None) -> list[str]:
    exc_info = (type(fault), fault, None) if fault else None
    record = logging.LogRecord("naproxy", logging.INFO, "", 0, message, values, exc_info)
    return Lines().format(record).splitlines()


def test_a_message_is_one_line_whatever_is_in_it() -> None:
    for hostile in ("a\nb", "a\r\nb", "a\x1b[2Jb", "a\u2028b", "a\x85b", "a\x00b"):
        [line] = lines("wake datagram ignored: %s", hostile)
        assert line.isprintable(), hostile
        assert line.startswith("wake datagram ignored: a\\"), hostile
    assert lines("web: %s", "Büro schläft seit 5 min") == ["web: Büro schläft seit 5 min"]


def test_no_line_of_a_traceback_can_be_taken_for_a_message() -> None:
    first, *others = lines("a fault", fault=RuntimeError("no\nweb: asleep -> awake\x1b[2J"))
    assert first == "a fault"
    assert "  web: asleep -> awake\\x1b[2J" in others
    assert all(line.startswith("  ") and line.isprintable() for line in others)


def test_a_program_writes_what_naproxy_says_and_what_others_warn_of() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True
    )
    expected = ["web: down\\nweb: awake", "this"]
    assert done.stderr.splitlines() == expected
    assert done.stdout.splitlines() == [f"kept {line}" for line in expected]
