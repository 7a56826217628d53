"""Encrypted backups: read with the right password only, never changed unnoticed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from naproxy.box import sealed
from naproxy.box.sealed import CODE_BYTES, MAGIC, SALT_BYTES, SealError

PASSWORD = "a whole sentence, with ümlauts €"
TEXT = b"what was learned\n" * 50_000


@pytest.fixture
def made(tmp_path: Path) -> Path:
    plain, out = tmp_path / "plain", tmp_path / "sealed"
    plain.write_bytes(TEXT)
    sealed.seal(plain, out, PASSWORD)
    return out


def test_a_backup_is_opened_with_its_password_only(made: Path, tmp_path: Path) -> None:
    assert sealed.is_sealed(made)
    assert b"learned" not in made.read_bytes()
    with pytest.raises(SealError) as refused:
        sealed.open_sealed(made, tmp_path / "out", PASSWORD + " ")
    assert refused.value.reason.code == "backup.wrong_password"
    assert not (tmp_path / "out").exists()
    sealed.open_sealed(made, tmp_path / "out", PASSWORD)
    assert (tmp_path / "out").read_bytes() == TEXT


def test_any_changed_byte_is_noticed(made: Path, tmp_path: Path) -> None:
    whole = made.read_bytes()
    head = len(MAGIC)
    for at in (head, head + SALT_BYTES, head + SALT_BYTES + 20, len(whole) // 2, len(whole) - 1):
        changed = bytearray(whole)
        changed[at] ^= 1
        made.write_bytes(changed)
        with pytest.raises(SealError):
            sealed.open_sealed(made, tmp_path / "out", PASSWORD)
    for length in (head, head + 5, head + SALT_BYTES + 3, len(whole) - 1):
        made.write_bytes(whole[:length])
        with pytest.raises(SealError):
            sealed.open_sealed(made, tmp_path / "out", PASSWORD)


def test_a_backup_can_be_read_without_naproxy(made: Path) -> None:
    begin = len(MAGIC) + SALT_BYTES
    assert f"tail -c +{begin + 1} FILE" in (sealed.__doc__ or "")
    command = (
        f"tail -c +{begin + 1} '{made}' | head -c -{CODE_BYTES} |"
        " openssl enc -d -aes-256-ctr -pbkdf2 -iter 600000 -pass env:PASSWORD"
    )
    done = subprocess.run(
        ["bash", "-c", command], check=True, capture_output=True, env={"PASSWORD": PASSWORD}
    )
    assert done.stdout == TEXT
