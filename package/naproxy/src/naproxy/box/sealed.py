"""Encrypted backups: a finder can neither read the file nor change it unnoticed.

    one line              MAGIC, the format of the rest
    16 bytes              salt of the key of the code at the end
    ...                   the tar.gz after `openssl enc -aes-256-ctr -pbkdf2 -iter 600000`
    32 bytes              HMAC-SHA256 over all before

Nothing is decrypted before the code at the end was found right. Without this program:

    tail -c +79 FILE | head -c -32 | openssl enc -d -aes-256-ctr -pbkdf2 -iter 600000 >backup.tar.gz
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import subprocess
from pathlib import Path
from typing import Final

from naproxy.core.reason import WrongError

ROUNDS: Final = 600_000
"""Rounds of PBKDF2 that OWASP recommends with SHA-256; a second on a small board."""
MAGIC: Final = b"naproxy-backup-1 aes-256-ctr pbkdf2-sha256-600000 hmac-sha256\n"
SALT_BYTES: Final = 16
CODE_BYTES: Final = 32
LEAST_PASSWORD: Final = 8
_BLOCK: Final = 1 << 18
_SLOW_S: Final = 600.0


class SealError(WrongError):
    """Why a backup cannot be encrypted or decrypted."""


def is_sealed(path: Path) -> bool:
    """Return whether a file is an encrypted backup."""
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def seal(plain: Path, out: Path, password: str) -> None:
    """Write the encrypted file of a plain one; SealError."""
    salt = secrets.token_bytes(SALT_BYTES)
    with out.open("wb") as file:
        out.chmod(0o600)
        file.write(MAGIC + salt)
        file.flush()
        with plain.open("rb") as source:
            _openssl(password, source.fileno(), file.fileno(), "-e", "-salt")
    code = _code(out, out.stat().st_size, salt, password)
    with out.open("ab") as file:
        file.write(code)


def open_sealed(path: Path, out: Path, password: str) -> None:
    """Write what is in an encrypted file; SealError if the password or the file is wrong."""
    begin, size = len(MAGIC) + SALT_BYTES, path.stat().st_size - CODE_BYTES
    with path.open("rb") as file:
        salt = file.read(begin)[len(MAGIC) :]
        if size < begin:
            raise SealError("backup.wrong_password")
        file.seek(size)
        right = hmac.compare_digest(file.read(), _code(path, size, salt, password))
    if not right:
        raise SealError("backup.wrong_password")
    # openssl reads to the end of its input, so the code is cut off first.
    os.truncate(path, size)
    with path.open("rb", buffering=0) as source, out.open("wb") as file:
        out.chmod(0o600)
        source.seek(begin)
        _openssl(password, source.fileno(), file.fileno(), "-d")


def _code(path: Path, size: int, salt: bytes, password: str) -> bytes:
    key = hashlib.pbkdf2_hmac("sha256", password.encode(), b"hmac" + salt, ROUNDS)
    code = hmac.new(key, digestmod="sha256")
    with path.open("rb") as file:
        left = size
        while left > 0 and (block := file.read(min(left, _BLOCK))):
            code.update(block)
            left -= len(block)
    return code.digest()


def _openssl(password: str, source: int, target: int, *how: str) -> None:
    # The password comes by a pipe: arguments and environment can be seen by others.
    read, write = os.pipe()
    try:
        os.write(write, password.encode() + b"\n")
        os.close(write)
        done = subprocess.run(
            [
                *("openssl", "enc", *how, "-aes-256-ctr", "-pbkdf2", "-iter", str(ROUNDS)),
                *("-md", "sha256", "-pass", f"fd:{read}"),
            ],
            check=False,
            stdin=source,
            stdout=target,
            stderr=subprocess.PIPE,
            pass_fds=(read,),
            timeout=_SLOW_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SealError("backup.failed", detail=str(error)) from None
    finally:
        os.close(read)
    if done.returncode != 0:
        raise SealError("backup.failed", detail=done.stderr.decode(errors="replace")[:200])
