"""Passwords and keys that a request brings: kept as files, which the configuration then names.

A change may have {"secret": "..."} in the place of the name of a file that holds one. The file is
written beside the configuration, for root alone. What comes anew has a new name, so the
configuration changes from one to the other and never has half of it; files that no configuration
names any more are removed.
"""

from __future__ import annotations

import dataclasses
import os
import re
import secrets
import stat
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

from naproxy.config.document import Config
from naproxy.config.edit import Change, is_secret
from naproxy.core import files
from naproxy.core.reason import Reason, WrongError
from naproxy.core.schema import ConfigError, Problem, held

FOLDER: Final = "secrets"
"""Beside the configuration; the files in it that have our names are ours alone."""
_NAME: Final = re.compile(r"[a-z0-9-]{1,64}-[0-9a-f]{16}")
_MOST_BYTES: Final = 1 << 17
"""Of a file beside the configuration that may name ours: larger ones are no configuration."""
_MOST_TEXTS: Final = 50


def taken(changes: list[Change], folder: Path) -> tuple[list[Change], dict[str, str]]:
    """Return the changes with paths in `folder` for secrets, and what belongs into each path."""
    found: dict[str, str] = {}
    changed = [
        dataclasses.replace(each, value=_taken(each.value, each.where, folder, found))
        for each in changes
    ]
    return changed, found


def _taken(value: Any, where: str, folder: Path, found: dict[str, str]) -> Any:
    if is_secret(value):
        path = str(folder / _name(where))
        found[path] = value["secret"]
        return path
    if isinstance(value, dict):
        return {key: _taken(each, f"{where}.{key}", folder, found) for key, each in value.items()}
    return value


def _name(where: str) -> str:
    """Return a name that nobody has; of where it belongs it tells only what is harmless."""
    plain = re.sub(r"[^a-z0-9]+", "-", where.lower().removesuffix("_file")).strip("-")
    return f"{plain[-64:] or 'secret'}-{secrets.token_hex(8)}"


def check(new: Config, found: Mapping[str, str]) -> None:
    """Refuse what cannot be a secret of its key, or is for a key that has none; ConfigError."""
    left, problems = dict(found), []
    for where, about, path in held(new):
        text = left.pop(path, None)
        if text is not None and (wrong := about.check(text)):
            problems.append(Problem(where, wrong))
    if left:
        problems.append(Problem("", Reason("config.no_secret_here")))
    if problems:
        raise ConfigError(problems)


def write(folder: Path, found: Mapping[str, str]) -> None:
    """Write them; OSError or WrongError, and none of them stays."""
    try:
        _own(folder)
        for path, text in found.items():
            files.write(Path(path), f"{text}\n", 0o600)
    except (OSError, WrongError):
        remove(found)
        raise


def _own(folder: Path) -> None:
    """Make the folder, or see that it is ours alone."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    about = folder.lstat()
    if not stat.S_ISDIR(about.st_mode) or about.st_uid not in (0, os.geteuid()):
        raise WrongError("config.secret_folder", folder=str(folder))
    if about.st_mode & 0o077:
        folder.chmod(0o700)


def remove(paths: Mapping[str, str]) -> None:
    """Remove those that were written for nothing."""
    for path in paths:
        Path(path).unlink(missing_ok=True)


def sweep(file: Path, coming: Collection[str]) -> None:
    """Remove our files that neither the configuration nor a text of it beside it names; OSError.

    Such a text is one that worked before, or was refused: the box may go back to it. `coming`:
    paths that a configuration names which is about to be written.
    """
    folder = file.with_name(FOLDER)
    try:
        ours = [path for path in folder.iterdir() if _NAME.fullmatch(path.name)]
        ours = [path for path in ours if str(path) not in coming]
    except (FileNotFoundError, NotADirectoryError):
        return
    if not ours:
        return
    beside = [each for each in file.parent.glob(f"{file.stem}.*") if each.is_file()]
    if len(beside) > _MOST_TEXTS:
        return
    texts = []
    for each in beside:
        data, about = files.peek(each, _MOST_BYTES)
        if about.st_size > _MOST_BYTES:
            return
        texts.append(data)
    for path in ours:
        if not any(path.name.encode() in text for text in texts):
            path.unlink(missing_ok=True)


def told(config: Config, folder: Path) -> list[dict[str, Any]]:
    """Return which files with secrets a configuration names: since when each is as it is.

    `set_s` is None where there is none; `own`: the box has written it.
    """
    found = []
    for where, _, path in held(config):
        if not path:
            continue
        try:
            about = Path(path).stat()
        except OSError:
            about = None
        there = about is not None and stat.S_ISREG(about.st_mode)
        own = Path(path).parent == folder
        found.append(
            {"where": where, "set_s": about.st_mtime if about and there else None, "own": own}
        )
    return found
