"""The backup: one tar.gz file with a plain list of its contents. Made and read in a child.

    naproxy-backup.json   format, version, time, host name, list of contents
    naproxy.toml          the configuration; without secrets unless they were asked for
    saved.json            learned values: policies, measured times
    users.json            users with the digests of their passwords (a secret)
    files/ETC/...         keys and passwords that the configuration names (secrets)
    edge/ID.pem           certificates of HTTPS with their keys (secrets)
    edge/acme/ISSUER.pem  keys of the accounts with issuers of certificates (secrets)
    history.db            the history, if it was asked for

Not encrypted: `sealed.py` is around it where a password was given. Everything read is bounded and
checked before anything is changed.
"""

from __future__ import annotations

import io
import json
import shutil
import sqlite3
import tarfile
import tempfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Final

from naproxy import __version__
from naproxy.box import LEAVE_FREE_BYTES, MOST_BYTES
from naproxy.box.secrets import named_files, without_secrets
from naproxy.config import document as config
from naproxy.config.worked import Worked
from naproxy.core.bounded import json_value
from naproxy.core.files import peek
from naproxy.core.reason import WrongError
from naproxy.core.schema import ConfigError
from naproxy.edge.store import MOST_BYTES as MOST_PEM
from naproxy.edge.store import accounts, is_id, store_of
from naproxy.history.tables import FILE, GENERATION, prepare

FORMAT: Final = 1
MOST_TEXT: Final = 1 << 20
MOST_KEY: Final = 1 << 16
_MOST_MEMBERS: Final = 200
_PEM: Final = ".pem"
_ACCOUNTS: Final = "edge/acme"
_ABOUT: Final = "naproxy-backup.json"
_MAGIC: Final = b"SQLite format 3\x00"


class ArchiveError(WrongError):
    """Why a file is not a backup that can be restored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The wanted contents of a backup."""

    history: bool = False
    secrets: bool = False
    users: str = ""
    """JSON of the web interface's own; kept only with the secrets."""
    name: str = ""
    made_s: float = 0.0
    edge_dir: str = ""
    """Where certificates and their keys are; kept only with the secrets."""


def make(out: BinaryIO, file: Path, data_dir: Path, wanted: Wanted) -> None:
    """Write the backup of a box: the configuration in `file`, the history in `data_dir`."""
    chosen = Worked(file).choose()
    text, loaded = chosen.used, chosen.found.config
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        _add(tar, _ABOUT, json.dumps(_about(wanted), indent=2).encode())
        _add(tar, "naproxy.toml", text if wanted.secrets else without_secrets(text, loaded))
        _add(tar, "saved.json", json.dumps(_saved(data_dir / FILE)).encode())
        if wanted.secrets:
            _add(tar, "users.json", wanted.users.encode() or b"[]")
            for path in named_files(loaded, file.parent):
                _add(tar, f"files/{path.relative_to(file.parent.resolve())}", _key(path))
            if wanted.edge_dir:
                store = store_of(Path(wanted.edge_dir))
                for name in store.ids():
                    _add(tar, f"edge/{name}{_PEM}", store.get(name) or b"")
                for name, key in accounts(Path(wanted.edge_dir)).items():
                    _add(tar, f"{_ACCOUNTS}/{name}{_PEM}", key)
        if wanted.history:
            _add_history(tar, data_dir)


def _about(wanted: Wanted) -> dict[str, Any]:
    return {
        "naproxy": "backup",
        "format": FORMAT,
        "version": __version__,
        "name": wanted.name,
        "made_s": wanted.made_s,
        "history": wanted.history,
        "secrets": wanted.secrets,
    }


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(data), 0o600
    tar.addfile(member, io.BytesIO(data))


def _key(path: Path) -> bytes:
    return peek(path, MOST_KEY)[0]


def _saved(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        return {key: json.loads(value) for key, value in db.execute("SELECT key, value FROM saved")}


def _add_history(tar: tarfile.TarFile, data_dir: Path) -> None:
    """Add a copy that is whole although the controller goes on writing."""
    with tempfile.NamedTemporaryFile(dir=data_dir, prefix=".backup-") as copy:
        with (
            closing(sqlite3.connect(f"file:{data_dir / FILE}?mode=ro", uri=True)) as db,
            closing(sqlite3.connect(copy.name)) as target,
        ):
            db.backup(target, pages=256)
        tar.add(copy.name, FILE, filter=_plain)


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.mode, member.uid, member.gid, member.uname, member.gname = 0o600, 0, 0, "", ""
    return member


@dataclass(frozen=True, slots=True)
class Found:
    """The contents of a backup."""

    about: dict[str, Any]
    toml: bytes
    loaded: config.Config
    saved: dict[str, Any]
    users: list[Any]
    files: dict[str, bytes]
    certificates: dict[str, bytes]
    """By their ids, each with its key."""
    accounts: dict[str, bytes]
    """Keys, by whom they are for."""
    history_bytes: int

    def summary(self) -> dict[str, Any]:
        """Return it for people."""
        return {
            "name": self.about["name"],
            "version": self.about["version"],
            "made_s": self.about["made_s"],
            "servers": [server.id for server in self.loaded.server],
            "secrets": self.about["secrets"],
            "users": len(self.users),
            "files": sorted(
                [
                    *self.files,
                    *(f"edge/{name}{_PEM}" for name in self.certificates),
                    *(f"{_ACCOUNTS}/{name}{_PEM}" for name in self.accounts),
                ]
            ),
            "history_bytes": self.history_bytes,
        }


def read(path: Path, history_to: Path | None = None) -> Found:
    """Read and check a backup; ArchiveError. Its history is written to a file if one is given."""
    if path.stat().st_size > MOST_BYTES:
        raise ArchiveError("backup.large", mb=MOST_BYTES >> 20)
    parts: dict[str, bytes] = {}
    history_bytes = 0
    try:
        # Browsers on a Mac unpack the outer layer: r|* takes a plain tar too.
        with tarfile.open(path, "r|*") as tar:
            wrapper: str | None = None
            for number, member in enumerate(tar):
                member.name = _plain_name(member.name)
                if wrapper is None and member.isreg() and not _is_of_mac(member.name):
                    wrapper = _wrapper(member.name)
                member.name = member.name.removeprefix(wrapper or "")
                if member.isdir() or _is_of_mac(member.name):
                    if number >= _MOST_MEMBERS or member.size > MOST_TEXT:
                        raise ArchiveError("backup.too_much", name=member.name[:80])
                    continue
                _fits(member, number, parts)
                source = tar.extractfile(member)
                assert source
                if member.name == FILE:
                    history_bytes = _history(source, member.size, history_to)
                    parts[FILE] = b""
                else:
                    parts[member.name] = source.read()
    except (tarfile.TarError, EOFError, OSError, ValueError) as error:
        if isinstance(error, ArchiveError):
            raise
        raise ArchiveError("backup.not_whole", detail=str(error)) from None
    return _checked(parts, history_bytes)


def _plain_name(name: str) -> str:
    """Return the one spelling of a member's name: without ./ and //, which lead nowhere else.

    A file is judged, compared and written by this name. Two spellings of one name would let a
    backup bring a file for the judgement that is not written afterwards.
    """
    return str(PurePosixPath(name))


def _wrapper(name: str) -> str:
    """Return the folder that a backup was packed with, and its slash, by its first file."""
    first, slash, _ = name.partition("/")
    known = ("", ".", "..", "files", "edge")
    return first + slash if slash and first not in known else ""


def _is_of_mac(name: str) -> bool:
    """Is it what a Mac packs beside the files: their attributes (AppleDouble), its own notes?"""
    parts = PurePosixPath(name).parts
    return bool(parts) and (
        parts[0] == "__MACOSX" or parts[-1].startswith("._") or parts[-1] == ".DS_Store"
    )


def _fits(member: tarfile.TarInfo, number: int, parts: dict[str, bytes]) -> None:
    known = ("naproxy.toml", "saved.json", "users.json", _ABOUT, FILE)
    path = PurePosixPath(member.name)
    a_file = path.parts[:1] == ("files",) and len(path.parts) > 1 and ".." not in path.parts
    folders = (PurePosixPath("edge"), PurePosixPath(_ACCOUNTS))
    an_edge = path.parent in folders and path.suffix == _PEM and is_id(path.stem)
    if not member.isreg() or "\0" in member.name or not (member.name in known or a_file or an_edge):
        raise ArchiveError("backup.strange_member", name=member.name[:80])
    most = MOST_BYTES if member.name == FILE else MOST_KEY if a_file else MOST_TEXT
    most = MOST_PEM if an_edge else most
    if member.size > most or number >= _MOST_MEMBERS or member.name in parts:
        raise ArchiveError("backup.too_much", name=member.name[:80])


def _history(source: Any, size: int, target: Path | None) -> int:
    head = source.read(len(_MAGIC))
    if head != _MAGIC:
        raise ArchiveError("backup.no_database")
    if target and shutil.disk_usage(target.parent).free < size + LEAVE_FREE_BYTES:
        raise ArchiveError("backup.history_does_not_fit")
    with (target or Path("/dev/null")).open("wb") as out:
        out.write(head)
        while block := source.read(1 << 18):
            out.write(block)
    if target:
        _check_history(target)
    return size


def _check_history(path: Path) -> None:
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as db:
            (said,) = db.execute("PRAGMA quick_check(1)").fetchone()
            (version,) = db.execute("PRAGMA user_version").fetchone()
            strange = _doing(db) - _own_views()
    except sqlite3.Error as error:
        raise ArchiveError("backup.history_damaged", detail=str(error)) from None
    if said != "ok":
        raise ArchiveError("backup.history_damaged", detail=said)
    if version > GENERATION:
        raise ArchiveError("backup.newer_history")
    if strange:
        raise ArchiveError("backup.active_history")


def _doing(db: sqlite3.Connection) -> set[str]:
    """Return the SQL in a file that runs when a table is read or written."""
    found = db.execute(
        "SELECT sql FROM sqlite_schema"
        " WHERE type NOT IN ('table', 'index') OR sql LIKE 'CREATE VIRTUAL%'"
    )
    return {sql for (sql,) in found}


def _own_views() -> set[str]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        prepare(db)
        return _doing(db)


def _checked(parts: dict[str, bytes], history_bytes: int) -> Found:
    about = _json(parts, _ABOUT, dict)
    if about.get("naproxy") != "backup":
        raise ArchiveError("backup.not_ours")
    if about.get("format") != FORMAT:
        raise ArchiveError("backup.newer")
    for key, kind in (("name", str), ("version", str), ("made_s", (int, float)), ("secrets", bool)):
        if not isinstance(about.get(key), kind):
            raise ArchiveError("backup.says_not", name=key)
    if "naproxy.toml" not in parts:
        raise ArchiveError("backup.no_configuration")
    try:
        loaded = config.parse(parts["naproxy.toml"])
    except ConfigError as error:
        raise ArchiveError(
            "backup.bad_configuration", detail="; ".join(map(str, error.problems))
        ) from None
    files = {name[6:]: data for name, data in parts.items() if name.startswith("files/")}
    pems, keys = (
        {PurePosixPath(name).stem: d for name, d in parts.items() if _is_in(folder, name)}
        for folder in ("edge", _ACCOUNTS)
    )
    users = _json(parts, "users.json", list) if "users.json" in parts else []
    saved = _json(parts, "saved.json", dict)
    return Found(
        about, parts["naproxy.toml"], loaded, saved, users, files, pems, keys, history_bytes
    )


def _is_in(folder: str, name: str) -> bool:
    return PurePosixPath(name).parent == PurePosixPath(folder)


def _json(parts: dict[str, bytes], name: str, kind: type) -> Any:
    try:
        value = json_value(parts[name])
    except KeyError:
        raise ArchiveError("backup.lacks", name=name) from None
    except ValueError:
        raise ArchiveError("backup.unreadable", name=name) from None
    if not isinstance(value, kind):
        raise ArchiveError("backup.wrong_kind", name=name)
    return value
