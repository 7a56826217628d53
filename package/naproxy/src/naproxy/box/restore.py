"""Restoring a backup: everything is prepared first, and taken into use at the next start.

The prepared folder appears at once or not at all. Taking it into use may be cut off at any point
and is then done again.
"""

from __future__ import annotations

import contextlib
import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from naproxy.box.secrets import files, private
from naproxy.config import document as config
from naproxy.config import edit as configedit
from naproxy.config import old, paths
from naproxy.config.edit import Change
from naproxy.config.elsewhere import files_elsewhere
from naproxy.config.paths import inside
from naproxy.config.worked import Worked
from naproxy.core import bounded
from naproxy.core.files import sync, write
from naproxy.core.schema import ConfigError, held
from naproxy.edge.store import put_account, store_of
from naproxy.history.tables import FILE

if TYPE_CHECKING:
    from naproxy.box import archive

_LOG: Final = logging.getLogger(__name__)
READY: Final = "restore"
_NEW: Final = "restore.new"
_EDGE: Final = "edge.json"
_ACCOUNTS: Final = "accounts.json"
_WHERETO: Final = ("address", "host", "port", "tls", "smtp_host", "smtp_port", "smtp_security")
"""Keys beside a secret that name its recipient, and decide who could read it on the way."""


def lay_ready(
    source: Path, file: Path, data_dir: Path, *, history: bool, with_secrets: bool
) -> list[Any]:
    """Check a backup and lay it ready; return its users. ArchiveError, and nothing changes."""
    from naproxy.box import archive  # noqa: PLC0415 - the controller's start does without

    new = data_dir / _NEW
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(mode=0o700)
    try:
        found = archive.read(source, new / FILE if history else None)
        _need(found, history=history, with_secrets=with_secrets)
        (new / "naproxy.toml").write_bytes(merged(found, file, with_secrets=with_secrets))
        (new / "saved.json").write_text(json.dumps(found.saved))
        given = _placed(found.files, file.parent) if with_secrets else {}
        texts = {name: data.hex() for name, data in given.items()}
        (new / "files.json").write_text(json.dumps(texts))
        for file_of, pems in ((_EDGE, found.certificates), (_ACCOUNTS, found.accounts)):
            told = {name: data.hex() for name, data in pems.items() if with_secrets}
            (new / file_of).write_text(json.dumps(told))
        for path in new.iterdir():
            sync(path)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    shutil.rmtree(data_dir / READY, ignore_errors=True)
    new.rename(data_dir / READY)
    return found.users if with_secrets else []


def _need(found: archive.Found, *, history: bool, with_secrets: bool) -> None:
    from naproxy.box import archive  # noqa: PLC0415 - loaded by now

    if history and not found.history_bytes:
        raise archive.ArchiveError("backup.no_history")
    if with_secrets and not found.about["secrets"]:
        raise archive.ArchiveError("backup.no_secrets")


def merged(found: archive.Found, file: Path, *, with_secrets: bool) -> bytes:
    """Return the backup's configuration, with some values kept from this box.

    These are the places of files, which a request must never change, and, unless the backup's are
    wanted, the secrets. ArchiveError if it names files or devices that no request may name.
    """
    from naproxy.box import archive  # noqa: PLC0415 - loaded by now

    chosen = Worked(file).choose()
    own, own_text, theirs = chosen.found, chosen.used, config.look(found.toml)
    places = [Change("set", f"box.{key}", value) for key, value in own.arguments.items()]
    strange = [Change("remove", f"box.{key}") for key in theirs.arguments.keys() - own.arguments]
    text = configedit.edit(found.toml, [*places, *strange])
    if not with_secrets:
        data, others = _up_to_date(own_text), _up_to_date(found.toml)
        for path in private(found.loaded):
            text = configedit.edit(text, [Change("remove", path)])
        for path in private(own.config):
            if _whereto(path, data) != _whereto(path, others):
                continue  # The backup's host has no business with the box's password.
            # Where the backup has no such server there is nothing to keep.
            with contextlib.suppress(ConfigError):
                known = configedit.edit(text, [Change("set", path, configedit.at(data, path))])
                config.parse(known)
                text = known
        # The box's own files stay as well, under the names that its own settings have for them.
        known_keys = {path for path, _, _ in held(theirs.config)}
        mine = [(path, name) for path, _, name in held(own.config) if name and path in known_keys]
        text = configedit.edit(text, [Change("set", path, name) for path, name in mine])
    new = config.parse(text)
    # An attacker may have made it so that root reads or opens unrelated files.
    if problems := list(paths.strange(new, own.config, file.parent)):
        raise archive.ArchiveError("backup.bad_configuration", detail="; ".join(map(str, problems)))
    # A file is the backup's own, or goes where this box sends it: else the key names none.
    placed = _placed(found.files, file.parent) if with_secrets else {}
    coming = [str(file.parent / name) for name in placed]
    none = str(file.parent / "secrets" / "not-restored")
    wrong = [Change("set", each.where, none) for each in files_elsewhere(new, own.config, coming)]
    return configedit.edit(text, wrong)


def _up_to_date(text: bytes) -> dict[str, Any]:
    """Return the plain data of a configuration, in which paths lead as in a loaded one."""
    data = bounded.toml(text)
    old.take(data)
    return data


def _whereto(path: str, data: Any) -> list[Any]:
    """Return the values around a secret that name its recipient."""
    parts = path.split(".")
    tables = [".".join(parts[:end]) for end in range(1, len(parts))]
    found = []
    for place in (f"{table}.{key}" for table in tables for key in _WHERETO):
        with contextlib.suppress(ConfigError, KeyError, IndexError, TypeError, ValueError):
            found.append((place, configedit.at(data, place)))
    return found


def take(file: Path, data_dir: Path, edge_dir: Path) -> bool:
    """Before the start: put what is laid ready in its place, and return whether that was done.

    A fault is said and ends it.
    """
    ready = data_dir / READY
    try:
        if not file.exists() or not (ready / "naproxy.toml").exists():
            return False
        _take(ready, file, data_dir, edge_dir)
    except (ConfigError, OSError, ValueError) as error:
        _LOG.error("restore: %s", "; ".join(str(error).splitlines()))
        return False
    _LOG.info("restore: the configuration of the backup is in its place")
    return True


def _take(ready: Path, file: Path, data_dir: Path, edge_dir: Path) -> None:
    text = (ready / "naproxy.toml").read_bytes()
    loaded = config.parse(text)
    given = json.loads((ready / "files.json").read_text())
    for path in files(loaded):
        name = _within(path, file.parent)
        if name in given:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write(path, bytes.fromhex(given[name]), 0o600)
    # One of an earlier Naproxy has none. They are judged when the edge is made of them.
    if (ready / _EDGE).exists():
        for name, data in json.loads((ready / _EDGE).read_text()).items():
            store_of(edge_dir).put(name, bytes.fromhex(data))
    if (ready / _ACCOUNTS).exists():
        for name, data in json.loads((ready / _ACCOUNTS).read_text()).items():
            put_account(edge_dir, name, bytes.fromhex(data))
    history = ready / FILE
    if history.exists():
        for suffix in ("-wal", "-shm"):
            (data_dir / (FILE + suffix)).unlink(missing_ok=True)
        history.chmod(0o640)
        history.replace(data_dir / FILE)
    config.replace(file, text)


def _placed(given: dict[str, bytes], folder: Path) -> dict[str, bytes]:
    """Return a backup's files by where they will lie: links of this box's folder are followed.

    Without the files that would lie outside the folder: they are not written.
    """
    places = ((_within(folder / name, folder), data) for name, data in given.items())
    return {name: data for name, data in places if name is not None}


def _within(path: Path, folder: Path) -> str | None:
    if not inside(path, folder):
        return None
    return str(path.resolve().relative_to(folder.resolve()))


def finish(data_dir: Path, save: Callable[[str, Any], None]) -> None:
    """After the start: give the journal what was learned, and forget what was laid ready."""
    ready = data_dir / READY
    try:
        saved = json.loads((ready / "saved.json").read_text())
    except (OSError, ValueError):
        saved = {}
    for key, value in saved.items():
        save(key, value)
    shutil.rmtree(ready, ignore_errors=True)
