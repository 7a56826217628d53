"""The parts of a page that must be the same for every visitor: pure.

Two answers for strangers are compared by a digest of the page. The digest leaves out parts that
change with each request for everybody: nonces of its Content-Security-Policy, and times that it
took to generate. A page with a form's token is never the same: a token belongs to one visit, or
expires.

A stranger wrote the input, so every doubt is a reason against the page.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final, NamedTuple

_HTML: Final = ("text/html", "application/xhtml+xml")
_KNOWN_VARY: Final = ("", "accept-encoding", "authorization", "cookie", "x-forwarded-proto")
"""Varnish keeps these apart by itself, see cache.vcl. A request with a login or with a cookie that
is not harmless is passed to the server, so a cached page is for visitors without either."""
_COMPARED: Final = ("content-type", "content-language", "content-location")

# Each is bounded or linear: a page may be made to keep the box busy.
_NONCE: Final = re.compile(
    rb"(<(?:script|style|link)\b[^<>]{0,1000}?\snonce\s*=\s*)(?:\"[^\"<>]*\"|'[^'<>]*')"
)
_REPORT: Final = re.compile(
    rb"NewPP limit report|Transclusion expansion time report|Saved in parser cache"
    rb"|(?:page|generated|served|rendered|created) in [0-9.,]+ ?(?:s\b|ms\b|sec)"
    rb"|cached page|page generated|page cached|cached@|Served from:|Compression = gzip",
    re.IGNORECASE,
)
_OF_REQUEST: Final = re.compile(
    # MediaWiki, in each page's settings for scripts.
    rb"(\"wgRequestId\"\s*:\s*)\"[^\"]*\"|(\"wgBackendResponseTime\"\s*:\s*)[0-9]+"
)

_TAG: Final = re.compile(rb"<(?:input|meta|head|html|body|form|div)\b[^>]{0,1000}", re.IGNORECASE)
_HIDDEN: Final = re.compile(rb"<input\b[^>]*\btype\s*=\s*[\"']?hidden\b", re.IGNORECASE)
_ATTRIBUTE: Final = re.compile(rb"(?<![\w:-])([\w:-]+)\s*=\s*(?:\"([^\"]*)|'([^']*)|([^\s\"'>]+))")
_TOKEN_NAME: Final = re.compile(
    rb"csrf|xsrf|token|nonce|authenticity|form_?key|form_build_id|viewstate|eventvalidation"
    rb"|requestverification|captcha|sess|^sid$|creation_time|timestamp|honeypot",
    re.IGNORECASE,
)
_RANDOM: Final = re.compile(
    rb"[0-9a-fA-F]{16,}|(?=[^a-z]*[a-z])(?=[^A-Z]*[A-Z])(?=[^0-9]*[0-9])[A-Za-z0-9+/=_.:-]{16,}"
)
_IN_SCRIPT: Final = re.compile(
    rb"\b[\w-]{0,40}(?:nonce|csrf|xsrf|token)[\"']?\s*[:=]\s*[\"'][^\"'\s]{8,}[\"']", re.IGNORECASE
)
_SESSION_LINK: Final = re.compile(
    rb"[?&;](?:sid|phpsessid|jsessionid|sessionid)=[0-9A-Za-z-]{8,}", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer to a GET; names of headers in small letters. `t_s`: when it came."""

    t_s: float
    status: int
    headers: Sequence[tuple[str, str]]
    body: bytes = b""
    whole: bool = True
    """False: it was longer than the part that is read."""

    def said(self, name: str) -> str:
        """Return a header's values as one, or nothing."""
        return ", ".join(value for key, value in self.headers if key == name)


class Copy(NamedTuple):
    """The stored facts of an answer. `why_not` is empty if everybody may get it."""

    digest: str
    why_not: str = ""
    modified_s: float | None = None
    """When the page was last modified, by the box's clock; None: it does not say, or says now."""


def copy_of(answer: Answer) -> Copy:
    """Return what is kept of an answer."""
    why_not = _why_not(answer)
    if why_not:
        return Copy("", why_not)
    body = without_nonces(answer.body)
    if has_token(body):
        return Copy("", "token")
    digest = hashlib.blake2b(digest_size=16)
    for name in _COMPARED:
        digest.update(answer.said(name).encode() + b"\0")
    digest.update(body)
    return Copy(digest.hexdigest(), modified_s=_modified_s(answer))


def _why_not(answer: Answer) -> str:
    """Return why it may not be answered asleep, by its status and headers; empty: it may."""
    if answer.status != 200:
        return "status"
    if answer.said("content-type").partition(";")[0].strip().lower() not in _HTML:
        return "not_page"
    words = _words(answer)
    for_one = words & {"private", "no-store", "no-cache"} or (
        not words and "no-cache" in answer.said("pragma").lower()
    )
    if for_one or answer.said("set-cookie") or answer.said("www-authenticate"):
        return "personal"
    if any(name.strip().lower() not in _KNOWN_VARY for name in answer.said("vary").split(",")):
        return "varies"
    if words & {"must-revalidate", "proxy-revalidate"} or (
        "s-maxage" in words and "stale-while-revalidate" not in words
    ):
        return "forbidden"
    return "" if answer.whole else "large"


def _words(answer: Answer) -> set[str]:
    """Return the names of the directives in the headers for caches."""
    said = f"{answer.said('cdn-cache-control')},{answer.said('cache-control')}".lower()
    return {part.partition("=")[0].strip() for part in said.split(",")} - {""}


def without_nonces(body: bytes) -> bytes:
    """Return a page without what is new with each request and seen by no visitor."""
    body = _NONCE.sub(rb'\1""', body)
    return _OF_REQUEST.sub(rb"\1\2", b"".join(_without_reports(body)))


def _without_reports(body: bytes) -> Iterator[bytes]:
    at = 0
    while (begin := body.find(b"<!--", at)) >= 0 and (end := body.find(b"-->", begin)) >= 0:
        if _REPORT.search(body, begin, end):
            yield body[at:begin]
        else:
            yield body[at : end + 3]
        at = end + 3
    yield body[at:]


def has_token(body: bytes) -> bool:
    """Has the page a token of a form, of a script or of a session?"""
    if _IN_SCRIPT.search(body) or _SESSION_LINK.search(body):
        return True
    return any(_is_token(found[0]) for found in _TAG.finditer(body))


def _is_token(tag: bytes) -> bool:
    given = {
        name.lower(): first or second or third
        for name, first, second, third in _ATTRIBUTE.findall(tag)
    }
    if _HIDDEN.match(tag):
        name, value = given.get(b"name", b""), given.get(b"value", b"")
        named = bool(value) and bool(_TOKEN_NAME.search(name))
        return named or bool(_RANDOM.fullmatch(name) or _RANDOM.fullmatch(value))
    if tag[:5].lower() == b"<meta":
        return bool(given.get(b"content")) and bool(
            re.search(rb"csrf|xsrf", given.get(b"name", b""))
        )
    return any(
        name.startswith(b"data-") and value and re.search(rb"token|nonce|csrf", name)
        for name, value in given.items()
    )


def _modified_s(answer: Answer) -> float | None:
    """Return when it was modified: by its own clock, so as long ago as that says."""
    modified, now = _moment(answer.said("last-modified")), _moment(answer.said("date"))
    if modified is None or now is None or modified >= now:
        return None
    return answer.t_s - (now - modified).total_seconds()


def _moment(text: str) -> datetime | None:
    try:
        found = parsedate_to_datetime(text)
    except (ValueError, IndexError, OverflowError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
