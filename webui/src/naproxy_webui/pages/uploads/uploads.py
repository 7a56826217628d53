"""Large files from the browser, in pieces: an interrupted upload resumes where it stopped.

An upload is a file in our folder and its description from the beginning. Its progress is the
file's length, so a restart loses nothing. The offset of each piece must equal that length, so
neither a second browser nor a repeated piece can corrupt the file.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final

from flask import current_app

from naproxy_webui.http.errors import ApiError
from naproxy_webui.i18n.texts import t
from naproxy_webui.options import Settings

PIECE_BYTES: Final = 1 << 20
LEAVE_FREE_BYTES: Final = 128 << 20
"""So much of the disk is left for the history and the system."""

UNFINISHED_S: Final = 3600.0
"""An upload without a new piece for so long is removed: its browser has gone."""

_MIB: Final = 1 << 20
_ID: Final = re.compile(r"[A-Za-z0-9_-]{22}")
_META, _DATA = ".json", ".part"


@dataclass(frozen=True, slots=True)
class Kind:
    """The limits of uploads for one purpose."""

    most_bytes: int
    most_files: int
    """At the same time, unfinished ones too."""
    finished_s: float
    """A complete upload is removed after so long without use."""


KINDS: Final[Mapping[str, Kind]] = {
    # Daily files of a few months; the disk bounds their size.
    "log": Kind(most_bytes=1 << 30, most_files=200, finished_s=3600.0),
    "micropython": Kind(most_bytes=4 << 20, most_files=2, finished_s=3600.0),
    "image": Kind(most_bytes=1 << 30, most_files=3, finished_s=86400.0),
}


@dataclass(frozen=True, slots=True)
class Upload:
    """One upload; `name` comes from the browser and is never used as a path."""

    id: str
    name: str
    size: int
    kind: str
    sha256: str | None
    offset: int
    """Bytes that are there."""

    @property
    def complete(self) -> bool:
        """Is all of it there?"""
        return self.offset == self.size


class Uploads:
    """The uploads in a folder."""

    def __init__(
        self,
        folder: Path,
        *,
        clock: Callable[[], float] = time.time,
        free_bytes: Callable[[Path], int] = lambda folder: shutil.disk_usage(folder).free,
    ) -> None:
        """The folder is made when the first upload begins."""
        self._folder = folder
        self._clock = clock
        self._free_bytes = free_bytes

    def create(self, name: str, size: int, kind: str, sha256: str | None = None) -> Upload:
        """Begin an upload; ApiError if it is too large, one too many, or the disk too full."""
        limits = KINDS[kind]
        if not 0 < size <= limits.most_bytes:
            key = "upload.too_large" if size > 0 else "upload.empty"
            words = t(key, most=limits.most_bytes // _MIB)
            raise ApiError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, words, "size")
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _locked(self._folder / "lock", fcntl.LOCK_EX, os.O_CREAT):
            self.tidy()
            there = list(self._all())
            if sum(u.kind == kind for u in there) >= limits.most_files:
                words = t("upload.too_many", most=limits.most_files)
                raise ApiError(HTTPStatus.TOO_MANY_REQUESTS, words)
            promised = sum(u.size - u.offset for u in there)
            missing = size + promised + LEAVE_FREE_BYTES - self._free_bytes(self._folder)
            if missing > 0:
                words = t("upload.no_space", missing=-(-missing // _MIB))
                raise ApiError(HTTPStatus.INSUFFICIENT_STORAGE, words, "size")
            return self._begin(Upload(secrets.token_urlsafe(16), name, size, kind, sha256, 0))

    def _begin(self, upload: Upload) -> Upload:
        meta = self._folder / f"{upload.id}{_META}"
        self.path(upload).touch(mode=0o600)
        said = {k: v for k, v in asdict(upload).items() if k != "offset"}
        meta.touch(mode=0o600)
        meta.write_text(json.dumps(said), "utf-8")
        return upload

    def path(self, upload: Upload) -> Path:
        """Return where the bytes are."""
        return self._folder / f"{upload.id}{_DATA}"

    def get(self, upload_id: str) -> Upload:
        """Return an upload; ApiError if there is none of that id, or no longer."""
        found = self._read(upload_id)
        if found is None or self._old(found):
            raise ApiError(HTTPStatus.NOT_FOUND, t("upload.gone"))
        return found

    def _read(self, upload_id: str) -> Upload | None:
        if not _ID.fullmatch(upload_id):
            return None
        try:
            said = json.loads((self._folder / f"{upload_id}{_META}").read_text("utf-8"))
            offset = (self._folder / f"{upload_id}{_DATA}").stat().st_size
            return Upload(**said, offset=offset)
        except (OSError, ValueError, TypeError):
            return None

    def put(self, upload_id: str, offset: int, piece: bytes) -> Upload:
        """Append a piece; ApiError 409 where the upload is not at that offset.

        The last piece is refused and the upload removed if the whole is not what `sha256` said.
        """
        upload = self.get(upload_id)
        try:
            with _locked(self.path(upload), fcntl.LOCK_EX | fcntl.LOCK_NB) as file:
                at = os.fstat(file).st_size
                if at != offset:
                    raise ApiError(HTTPStatus.CONFLICT, t("upload.elsewhere", offset=at), "offset")
                if at + len(piece) > upload.size:
                    words = t("upload.too_long")
                    raise ApiError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, words, "offset")
                _append(file, at, piece)
        except BlockingIOError:
            raise ApiError(HTTPStatus.CONFLICT, t("upload.busy"), "offset") from None
        except FileNotFoundError:
            raise ApiError(HTTPStatus.NOT_FOUND, t("upload.gone")) from None
        made = self.get(upload_id)
        if made.complete and made.sha256:
            self._verify(made)
        return made

    def _verify(self, upload: Upload) -> None:
        with self.path(upload).open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != upload.sha256:
            self.remove(upload.id)
            raise ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, t("upload.damaged"), "sha256")

    def touch(self, upload: Upload) -> None:
        """A whole upload is used: it is kept for as long again."""
        os.utime(self.path(upload), (self._clock(), self._clock()))

    def remove(self, upload_id: str) -> None:
        """Forget an upload, if it is there."""
        if _ID.fullmatch(upload_id):
            for suffix in (_META, _DATA):
                (self._folder / f"{upload_id}{suffix}").unlink(missing_ok=True)

    def tidy(self) -> None:
        """Remove old uploads, and incomplete ones left by a crash."""
        known = set()
        for upload in list(self._all()):
            if self._old(upload):
                self.remove(upload.id)
            known.add(upload.id)
        for file in self._folder.glob("*.*"):
            if file.suffix in (_META, _DATA) and file.stem not in known:
                file.unlink(missing_ok=True)

    def _all(self) -> Iterator[Upload]:
        for file in self._folder.glob(f"*{_META}"):
            found = self._read(file.stem)
            if found is not None:
                yield found

    def _old(self, upload: Upload) -> bool:
        kept_s = KINDS[upload.kind].finished_s if upload.complete else UNFINISHED_S
        try:
            used_s = self.path(upload).stat().st_mtime
        except FileNotFoundError:
            return True
        return abs(self._clock() - used_s) > kept_s


@contextmanager
def _locked(path: Path, how: int, flags: int = 0) -> Iterator[int]:
    file = os.open(path, os.O_RDWR | os.O_CLOEXEC | flags, 0o600)
    try:
        fcntl.flock(file, how)
        yield file
    finally:
        os.close(file)


def _append(file: int, at: int, piece: bytes) -> None:
    """Write all of a piece or nothing of it."""
    try:
        done = 0
        while done < len(piece):
            done += os.pwrite(file, piece[done:], at + done)
    except OSError:
        with suppress(OSError):
            os.ftruncate(file, at)
        raise ApiError(HTTPStatus.INSUFFICIENT_STORAGE, t("upload.disk")) from None


def uploads() -> Uploads:
    """Return those of this box."""
    settings: Settings = current_app.extensions["naproxy_settings"]
    made: Uploads = current_app.extensions.setdefault(
        "naproxy_uploads", Uploads(settings.state_dir / "uploads")
    )
    return made
