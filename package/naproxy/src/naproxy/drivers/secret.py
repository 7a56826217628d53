"""Files with a password or a key in one line, readable by their owner only.

The rules for such a file's content are here, for its readers and its writers alike.
"""

from __future__ import annotations

import os
from typing import Final

from naproxy.core import files
from naproxy.core.reason import Reason, WrongError
from naproxy.core.schema import Held

MOST_BYTES: Final = 256


def is_line(text: str, most_bytes: int = MOST_BYTES) -> Reason | None:
    """Check what is to be kept: one line of so many bytes."""
    wrong = not text or not text.isprintable() or len(text.encode()) > most_bytes
    return Reason("config.secret_line", high=most_bytes) if wrong else None


PASSWORD: Final = Held("password", is_line)
COMMUNITY: Final = Held("community", is_line)


def read(path: str, what: Reason) -> str:
    """Return the one line of a file that only its owner, root or this user, may read.

    WrongError, which says `what` the file is for.
    """
    try:
        return _read(path)
    except WrongError as error:
        raise WrongError("driver.secret", what=what, why=error.reason) from None


def _read(path: str) -> str:
    try:
        data, about = files.peek(path, MOST_BYTES + 1)
    except files.NotAFileError:
        raise WrongError("driver.no_file", file=path) from None
    except OSError as error:
        raise WrongError("driver.unreadable", file=path, why=error.strerror) from None
    if about.st_uid not in (0, os.geteuid()) or about.st_mode & 0o077:
        raise WrongError("driver.open_to_others", file=path)
    text = data.decode(errors="replace").removesuffix("\n")
    if len(data) > MOST_BYTES or is_line(text):
        raise WrongError("driver.one_line", file=path, high=MOST_BYTES)
    return text
