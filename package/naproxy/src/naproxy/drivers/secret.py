"""Files with a password or a key in one line, which nobody else may read."""

from __future__ import annotations

import os
from typing import Final

from naproxy.core import files
from naproxy.core.reason import Reason, WrongError

_MOST_BYTES: Final = 256


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
        data, about = files.peek(path, _MOST_BYTES + 1)
    except files.NotAFileError:
        raise WrongError("driver.no_file", file=path) from None
    except OSError as error:
        raise WrongError("driver.unreadable", file=path, why=error.strerror) from None
    if about.st_uid not in (0, os.geteuid()) or about.st_mode & 0o077:
        raise WrongError("driver.open_to_others", file=path)
    text = data.decode(errors="replace").removesuffix("\n")
    if not text or len(data) > _MOST_BYTES or not text.isprintable():
        raise WrongError("driver.one_line", file=path, high=_MOST_BYTES)
    return text
