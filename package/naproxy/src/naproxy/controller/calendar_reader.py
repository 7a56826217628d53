"""A process for each look at a calendar: it fetches, reads, and prints the result as JSON.

A foreign calendar may be large, slow, or endless to compute: this process has limits, and the
controller does not wait. The job is in the environment, since an address may contain a password.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import resource
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import urllib3
from urllib3.exceptions import HTTPError
from urllib3.util import Retry, Timeout, make_headers, parse_url

from naproxy import __version__
from naproxy.controller.calendars import JOB
from naproxy.controller.outside import TooLongError, at_most, cause_of
from naproxy.core import files
from naproxy.core.hours import zone
from naproxy.core.reason import WrongError
from naproxy.server.ical import MOST_BYTES, Agenda, decoded, read

AHEAD_S: Final = 9 * 86400.0
"""Longer than anybody looks ahead."""
_BEFORE_S: Final = 86400.0
_FETCH_S: Final = 20.0
_RECKON_S: Final = 10.0
_MOST_MEMORY: Final = 128 << 20
_REDIRECTS: Final = 3
_GONE: Final = 304
_PLAIN: Final = "identity"


class Reader:
    """One look."""

    def __init__(self, source: str, copy: Path, time_zone: str, now_s: float) -> None:
        """`copy`: where the last good one is kept."""
        self._source = source
        self._copy = copy
        self._zone = zone(time_zone)
        self._now_s = now_s
        self._kept = self._known()

    def _known(self) -> dict[str, Any]:
        about = hashlib.sha256(self._source.encode()).hexdigest()
        try:
            kept = json.loads(self._copy.read_bytes())
        except (OSError, ValueError):
            kept = None
        if not isinstance(kept, dict) or kept.get("about") != about:
            return {"about": about, "since_s": self._now_s}
        return kept

    def look(self) -> dict[str, Any]:
        """Return what is known after it, as JSON."""
        problem, agenda = None, None
        try:
            fresh = self._fetched()
            if fresh is not None:
                agenda = self._read(fresh["text"])
                self._kept.update(fresh)
            self._kept["read_s"] = self._now_s
        except WrongError as error:
            problem = error.reason
        if agenda is None and "text" in self._kept:
            try:
                agenda = self._read(self._kept["text"])
            except WrongError as error:
                problem = problem or error.reason
        with contextlib.suppress(OSError):
            files.write(self._copy, json.dumps(self._kept), 0o600)
        return {
            "since_s": self._kept["since_s"],
            "read_s": self._kept.get("read_s"),
            "until_s": self._now_s + AHEAD_S,
            "problem": problem.plain() if problem else None,
            "events": agenda and [[e.begin_s, e.end_s, e.name] for e in agenda.events],
            "left_out": agenda.left_out if agenda else 0,
            "doubted": agenda.doubted if agenda else 0,
            "why": agenda.why.plain() if agenda and agenda.why else None,
        }

    def _read(self, text: str) -> Agenda:
        from_s, to_s = self._now_s - _BEFORE_S, self._now_s + AHEAD_S
        try:
            with at_most(_RECKON_S, signal.ITIMER_VIRTUAL):
                return read(text.encode(), self._zone, from_s, to_s)
        except (TooLongError, MemoryError, RecursionError):
            raise WrongError("server.calendar_hard") from None

    def _fetched(self) -> dict[str, Any] | None:
        """Return what is there now; None: it has not changed. WrongError."""
        try:
            if self._source.startswith("/"):
                return self._text(files.peek(self._source, MOST_BYTES + 1)[0])
            with at_most(_FETCH_S, signal.ITIMER_REAL):
                return self._by_http()
        except TooLongError:
            raise _unread(TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))) from None
        except (OSError, HTTPError, ValueError) as error:
            if isinstance(error, WrongError):
                raise
            raise _unread(error) from None

    @staticmethod
    def _text(data: bytes) -> dict[str, Any]:
        if len(data) > MOST_BYTES:
            raise WrongError("server.calendar_large", high=MOST_BYTES)
        return {"text": decoded(data)}

    def _by_http(self) -> dict[str, Any] | None:
        # The scheme of calendar subscriptions; it has always meant HTTP.
        url = parse_url(re.sub("^webcals?:", "https:", self._source))
        headers = {
            "User-Agent": f"naproxy/{__version__}",
            "Accept": "text/calendar, */*;q=0.1",
            "Accept-Encoding": _PLAIN,  # compressed data may be a zip bomb
        }
        if url.auth:
            headers.update(make_headers(basic_auth=url.auth))
        if "text" in self._kept:
            names = (("If-None-Match", "etag"), ("If-Modified-Since", "modified"))
            headers.update({h: self._kept[k] for h, k in names if self._kept.get(k)})
        retries = Retry(total=_REDIRECTS, connect=0, read=0, status=0, other=0)
        pool = urllib3.PoolManager(timeout=Timeout(connect=10, read=10))
        with pool.request(
            "GET",
            url._replace(auth=None).url,
            headers=headers,
            retries=retries,
            preload_content=False,
            decode_content=False,
        ) as answer:
            if answer.status == _GONE and "text" in self._kept:
                return None
            if answer.status != 200:
                raise WrongError("server.calendar_status", status=answer.status)
            if answer.headers.get("Content-Encoding", _PLAIN) != _PLAIN:
                raise WrongError("server.calendar_other")
            fresh = self._text(answer.read(MOST_BYTES + 1))
            etag, modified = answer.headers.get("ETag"), answer.headers.get("Last-Modified")
            return {**fresh, "etag": etag, "modified": modified}


def _unread(error: BaseException) -> WrongError:
    return WrongError("server.calendar_unreachable", why=cause_of(error))


def main(job: Mapping[str, Any]) -> int:
    """Look, and print."""
    resource.setrlimit(resource.RLIMIT_DATA, (_MOST_MEMORY, _MOST_MEMORY))
    reader = Reader(job["source"], Path(job["copy"]), job["time_zone"], job["now_s"])
    json.dump(reader.look(), sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main(json.loads(os.environ[JOB])))
