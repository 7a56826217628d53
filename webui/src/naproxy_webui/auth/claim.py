"""The claim code: anyone who can read the box's console or files may create the first user."""

from __future__ import annotations

import hmac
import os
import secrets
from pathlib import Path
from typing import Final

FILE: Final = "claim-code"
LETTERS: Final = "23456789ABCDEFGHJKMNPQRSTVWXYZ"
"""No letter that looks like another one."""
_LENGTH: Final = 12


def code(state_dir: Path) -> str:
    """Return the box's claim code, made now if there is none: 12 letters, 58 bits."""
    file = state_dir / FILE
    try:
        kept = file.read_text().strip()
    except FileNotFoundError:
        kept = ""
    if len(_bare(kept)) == _LENGTH:
        return kept
    letters = "".join(secrets.choice(LETTERS) for _ in range(_LENGTH))
    made = "-".join(letters[i : i + 4] for i in range(0, _LENGTH, 4))
    state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = file.with_suffix(".part")
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as out:
        out.write(made + "\n")
    part.replace(file)
    return made


def matches(typed: str, wanted: str) -> bool:
    """Return whether a code is the right one; case, spaces and dashes do not matter."""
    return hmac.compare_digest(_bare(typed)[:64].encode(), _bare(wanted).encode())


def forget(state_dir: Path) -> None:
    """Delete the code: the box is claimed."""
    (state_dir / FILE).unlink(missing_ok=True)


def _bare(text: str) -> str:
    return "".join(c for c in text.upper() if c.isascii() and c.isalnum())
