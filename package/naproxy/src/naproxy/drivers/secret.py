"""Files with a password or a key in one line, which nobody else may read."""

from __future__ import annotations

import os
import stat
from typing import Final

_MOST_BYTES: Final = 256


class SecretError(Exception):
    """What is wrong with the file, in words that a person can act on."""


def read(path: str) -> str:
    """Return the one line of a file that only its owner, root or this user, may read."""
    try:
        # A pipe that nobody writes to must not hold up the controller.
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise SecretError(f"{path}: {error.strerror}") from None
    try:
        about = os.fstat(file)
        if not stat.S_ISREG(about.st_mode):
            raise SecretError(f"{path} is not a file")
        if about.st_uid not in (0, os.geteuid()) or about.st_mode & 0o077:
            raise SecretError(f"{path} may be read or written by others: chown root, chmod 600")
        data = os.read(file, _MOST_BYTES + 1)
    finally:
        os.close(file)
    text = data.decode(errors="replace").removesuffix("\n")
    if not text or len(data) > _MOST_BYTES or not text.isprintable():
        raise SecretError(f"{path} must have one line, of at most {_MOST_BYTES} bytes")
    return text
