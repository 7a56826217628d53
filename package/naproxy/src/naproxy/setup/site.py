"""Caching rules from a website's responses, and the software behind the site. Pure.

The input is untrusted: its size is limited, and the result is only a proposal.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from html.parser import HTMLParser
from typing import Any, Final
from urllib.parse import SplitResult, quote, urljoin, urlsplit

from naproxy.core.names import ascii_name
from naproxy.core.page_h import RULE_LEN
from naproxy.core.reason import WrongError

MOST_LINKS: Final = 500
"""Of one page."""
MOST_ADDRESS: Final = 500
"""Longest address that is followed, in characters."""
MOST_RULES: Final = 6
LEAST_PAGES: Final = 3
"""So many pages must be alike before all are proposed at once."""
WITHOUT_S: Final = 120
"""Varnish's lifetime for a response without one (default_ttl)."""
HOUR_S: Final = 3600
"""A response with a shorter lifetime does not help a sleeping server."""

# As naproxy.file() in the VMOD.
_FILES: Final = frozenset(
    """
    avif bmp css eot gif ico jpeg jpg js map mjs mov mp3 mp4 ogg otf pdf png svg ttf txt wasm
    webm webmanifest webp woff woff2 xml zip
    """.split()  # noqa: SIM905 a list of thirty lines reads no better
)
_KEPT: Final = frozenset((200, 203, 204, 300, 301, 302, 304, 307, 404, 410))
_AS_IT_IS: Final = "!$%&'()*+,/:;=?@[]|~"
"""In a path and a query (WHATWG's URL standard); `%` may begin what is percent-encoded already."""
_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f]")
# Paths that end a session, change data, are personal, or differ for each visitor.
_NOT_FOLLOWED: Final = re.compile(
    r"log-?(in|out|off)|sign-?(in|out|up)|ab?meld|register|registrier|delete|remove|loesch"
    r"|unsubscribe|abbestell|add-to-|cart|warenkorb|basket|checkout|kasse|wp-admin|administrator"
    r"|/(user|admin|account|konto)(/|$)|[?&](action|do|task|replytocom|s|q|search)=",
    re.IGNORECASE,
)
_ATTRIBUTES: Final = {
    "a": ("href",),
    "link": ("href",),
    "script": ("src",),
    "img": ("src",),
    "source": ("src",),
    "video": ("src", "poster"),
    "audio": ("src",),
}
_FOR_CACHES: Final = ("cdn-cache-control", "cache-control")
"""The first that says how long counts (RFC 9213)."""
_CHARSET: Final = re.compile(r"charset\s*=\s*[\"']?([\w-]+)", re.IGNORECASE | re.ASCII)
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer to a GET of `path`, which has its query; names of headers in small letters."""

    path: str
    status: int
    headers: Sequence[tuple[str, str]]
    body: bytes = b""

    def said(self, name: str) -> str:
        """Return a header's values as one, or nothing."""
        return ", ".join(value for key, value in self.headers if key == name)

    @property
    def _type(self) -> str:
        return self.said("content-type").partition(";")[0].strip().lower()

    @property
    def is_html(self) -> bool:
        """May there be links in it?"""
        return self._type in ("text/html", "application/xhtml+xml")

    @property
    def is_plain(self) -> bool:
        """May it be a robots.txt, which some servers send without a type?"""
        return self._type in ("text/plain", "") or self.path == "/robots.txt"

    @property
    def text(self) -> str:
        """Return a page's text: in the encoding that it names, else UTF-8 or Windows'."""
        start = f"{self.said('content-type')} {self.body[:1024].decode('latin-1')}"
        named = _CHARSET.search(start)
        for encoding in (*((named[1],) if named else ()), "utf-8-sig"):
            with contextlib.suppress(LookupError, ValueError):
                return self.body.decode(encoding)
        return self.body.decode("cp1252", errors="replace")


def is_file(path: str) -> bool:
    """Does the address look like a file that pages embed or link to?"""
    name = path.partition("?")[0].rpartition("/")[2]
    return "." in name and name.rpartition(".")[2].lower() in _FILES


# Links


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.generator = ""
        self.base = ""
        self.tokens = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {key: value or "" for key, value in attrs}
        if tag == "meta" and given.get("name", "").lower() == "generator":
            self.generator = self.generator or given.get("content", "")[:200]
        if tag == "base" and not self.base:
            self.base = given.get("href", "")[:MOST_ADDRESS]
        self.tokens |= tag == "head" and "data-requesttoken" in given
        if tag == "a" and "nofollow" in given.get("rel", "").lower():
            return
        for name in _ATTRIBUTES.get(tag, ()):
            if given.get(name) and len(self.links) < MOST_LINKS:
                self.links.append(given[name])


@dataclass(frozen=True, slots=True)
class Page:
    """The parts of a page's HTML."""

    links: tuple[str, ...]
    """Paths with their queries, of this website only, each once."""
    generator: str = ""
    tokens: bool = False
    """It has a token of a session where Nextcloud has it."""


def page_of(answer: Answer, hosts: Iterable[str]) -> Page:
    """Read a page; `hosts` are the names that the site is known by."""
    reader = _Reader()
    # html.parser fails at some declarations; keep the results up to there.
    with contextlib.suppress(AssertionError, ValueError):
        reader.feed(answer.text)
    known = {host.lower() for host in hosts}
    here = f"http://site.invalid{answer.path}"
    base = _joined(here, reader.base) if reader.base else here
    found = (_own(_joined(base or here, link), known) for link in reader.links)
    return Page(tuple(dict.fromkeys(filter(None, found))), reader.generator, reader.tokens)


def redirect_of(answer: Answer, hosts: Iterable[str]) -> str:
    """Return where it leads on this website; empty: nowhere."""
    there = answer.said("location")
    if not 300 <= answer.status < 400 or not there:
        return ""
    with contextlib.suppress(ValueError):
        there = there.encode("latin-1").decode()
    known = {host.lower() for host in hosts}
    return _own(_joined(f"http://site.invalid{answer.path}", there), known)


def _joined(base: str, link: str) -> str:
    try:
        return urljoin(base, link.strip()) if len(link) <= MOST_ADDRESS else ""
    except ValueError:
        return ""


def _own(url: str, hosts: set[str]) -> str:
    """Return the path and query of an address of this website that may be asked for."""
    try:
        parts: SplitResult = urlsplit(url)
        name = (parts.hostname or "").rstrip(".")
        port = parts.port
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https") or port not in (None, 80, 443):
        return ""
    if name != "site.invalid" and not {name, _ascii(name)} & hosts:
        return ""
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    fit = path.startswith("/") and not _CONTROLS.search(path)
    # As browsers ask for it.
    path = quote(path, safe=_AS_IT_IS)
    return path if fit and len(path) <= MOST_ADDRESS and not _NOT_FOLLOWED.search(path) else ""


def _ascii(name: str) -> str:
    try:
        return ascii_name(name)
    except WrongError:
        return name


# Caching of one response


def _words(answer: Answer, *headers: str) -> dict[str, str]:
    """Return what headers for caches say, in small letters."""
    said = ",".join(answer.said(name) for name in headers or _FOR_CACHES).lower()
    parts = (part.strip().partition("=") for part in said.split(","))
    return {name.strip(): value.strip(' "') for name, _, value in parts if name.strip()}


def fresh_s(answer: Answer) -> float | None:
    """Return how long it says to be good for; None: it does not say."""
    for header in _FOR_CACHES:
        words = _words(answer, header)
        for name in ("s-maxage", "max-age"):
            if re.fullmatch("[0-9]+", words.get(name, "")):
                return float(words[name][:12])
    if not answer.said("expires"):
        return None
    until, now = _moment(answer.said("expires")), _moment(answer.said("date"))
    # An invalid date counts as expired (RFC 9111, 5.3).
    return max(0.0, (until - now).total_seconds()) if until and now else 0.0


def _moment(text: str) -> datetime | None:
    try:
        found = parsedate_to_datetime(text)
    except (ValueError, IndexError, OverflowError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def is_personal(answer: Answer) -> bool:
    """Does it say that it is for one visitor, or that nobody may keep it?"""
    words = _words(answer)
    return (
        any(name in words for name in ("private", "no-store", "no-cache"))
        or bool(answer.said("set-cookie"))
        or "*" in answer.said("vary")
        or bool(answer.said("www-authenticate"))
    )


def asleep(answer: Answer, mode: str, grace_s: float, *, allowed: bool = False) -> bool:
    """Could the box answer with it, an hour after the server fell asleep?

    `allowed`: a rule of the office lets what was good when it fell asleep be used.
    """
    if answer.status not in _KEPT or is_personal(answer):
        return False
    said = fresh_s(answer)
    good_s = WITHOUT_S if said is None else said
    if good_s <= 0:
        return False
    words = _words(answer)
    strict = any(name in words for name in ("must-revalidate", "proxy-revalidate"))
    strict |= "s-maxage" in words and "stale-while-revalidate" not in words
    if good_s >= HOUR_S:
        return True
    if mode == "default" or strict:
        return False
    return is_file(answer.path) or allowed or (mode == "aggressive" and grace_s + good_s >= HOUR_S)


def cookies_of(answer: Answer) -> list[str]:
    """Return the names of the cookies that it sets, never their values."""
    return [
        found[0]
        for key, value in answer.headers
        if key == "set-cookie" and (found := _NAME.match(value))
    ]


# The site's software


def _marks(answer: Answer, page: Page) -> Iterator[str]:
    """Yield what an answer shows of a program, once for each sign."""
    said = f"{page.generator} {answer.said('x-generator')} {answer.said('x-powered-by')}".lower()
    for name in ("wordpress", "joomla", "drupal", "typo3", "nextcloud"):
        if name in said:
            yield from (name, name)
    for header, name in (
        ("x-drupal-cache", "drupal"),
        ("x-drupal-dynamic-cache", "drupal"),
        ("x-typo3-parsetime", "typo3"),
        ("x-pingback", "wordpress"),
    ):
        if answer.said(header):
            yield name
    if "api.w.org" in answer.said("link"):
        yield "wordpress"
    if page.tokens:
        yield "nextcloud"
    set_cookies = " ".join(cookies_of(answer)).lower()
    if "nc_samesitecookie" in set_cookies or "oc_sessionpassphrase" in set_cookies:
        yield from ("nextcloud", "nextcloud")
    start = answer.body[:65536]
    if b"SYNO.SDS" in start or b"synology" in start[:8192].lower():
        yield "synology"
    links = " ".join((answer.path, *page.links))
    for pattern, name in _PATHS:
        if pattern.search(links):
            yield name


_PATHS: Final = tuple(
    (re.compile(pattern), name)
    for pattern, name in (
        (r"/wp-(content|includes)/", "wordpress"),
        (r"/media/(system|vendor|templates)/|/components/com_|option=com_", "joomla"),
        (r"/sites/default/files/|/core/misc/drupal|/core/themes/", "drupal"),
        (r"/typo3(temp|conf)/|/_assets/[0-9a-f]{32}/|/fileadmin/", "typo3"),
        (r"/core/js/oc\.js|/apps/files/|/index\.php/apps/|/apps/theming/", "nextcloud"),
        (r"/webman/|/webapi/entry\.cgi", "synology"),
    )
)


# All of it


@dataclass(slots=True)
class Site:
    """The observations of a website so far."""

    hosts: tuple[str, ...]
    answers: dict[str, Answer] = field(default_factory=dict)
    found: dict[str, None] = field(default_factory=dict)
    """Every address that a page names, in the order they were seen."""
    same: dict[str, bool] = field(default_factory=dict)
    """Of pages that were asked for twice: was it the same?"""
    marks: Counter[str] = field(default_factory=Counter)

    def take(self, answer: Answer) -> tuple[str, ...]:
        """Take an answer; return the addresses that it leads to."""
        if first := self.answers.get(answer.path):
            self.same[answer.path] = first.status == answer.status and first.body == answer.body
            return ()
        self.answers[answer.path] = answer
        self.found.setdefault(answer.path)
        there = redirect_of(answer, self.hosts)
        page = page_of(answer, self.hosts) if answer.is_html else Page(())
        self.marks.update(_marks(answer, page))
        links = (there,) if there else page.links
        self.found.update(dict.fromkeys(links))
        return links

    @property
    def pages(self) -> list[Answer]:
        """Return the pages among the answers: no files, redirects or errors."""
        return [each for each in self.answers.values() if _is_page(each)]


def _is_page(answer: Answer) -> bool:
    return answer.status == 200 and not is_file(answer.path)


def report(site: Site, grace_s: float) -> dict[str, Any]:
    """Return the observations and the proposals, as JSON."""
    good = [each for each in site.answers.values() if each.status == 200]
    kinds = {"pages": site.pages, "files": [each for each in good if is_file(each.path)]}
    named = Counter("files" if is_file(path) else "pages" for path in site.found)
    rules = proposed(site)
    return {
        "made_with": made_with(site.marks),
        "found": {kind: named[kind] for kind in kinds},
        "asked": {kind: len(each) for kind, each in kinds.items()},
        "redirects": sum(300 <= each.status < 400 for each in site.answers.values()),
        "errors": sum(each.status >= 400 for each in site.answers.values()),
        "says_how_long": {kind: sum(map(_says, each)) for kind, each in kinds.items()},
        "personal": {kind: sum(map(is_personal, each)) for kind, each in kinds.items()},
        "cookies": _cookies(site.pages),
        "vary": _vary(good),
        "asleep": {
            "default": _share(kinds, named, "default", grace_s),
            "frozen": _share(kinds, named, "frozen", grace_s),
            "allowed": _share(kinds, named, "frozen", grace_s, rules),
            "aggressive": _share(kinds, named, "aggressive", grace_s),
        },
        "mode": "frozen",
        "rules": rules,
    }


def _says(answer: Answer) -> bool:
    return fresh_s(answer) is not None


def _share(
    kinds: Mapping[str, Sequence[Answer]],
    named: Mapping[str, int],
    mode: str,
    grace_s: float,
    rules: Sequence[Mapping[str, Any]] = (),
) -> float | None:
    """Return the share of the found addresses; those not asked for are taken to be like others."""
    paths = tuple(rule["path"] for rule in rules)
    able = total = 0.0
    for kind, answers in kinds.items():
        if answers:
            good = sum(
                asleep(each, mode, grace_s, allowed=each.path.startswith(paths)) for each in answers
            )
            able += named[kind] * good / len(answers)
            total += named[kind]
    return able / total if total else None


def _cookies(pages: Sequence[Answer]) -> list[dict[str, Any]]:
    """Return which cookies strangers get, and with how many pages."""
    counted = Counter(name for page in pages for name in set(cookies_of(page)))
    return [{"name": name, "pages": number} for name, number in counted.most_common(10)]


def _vary(answers: Sequence[Answer]) -> list[str]:
    """Return the header fields that responses vary on, except for compression."""
    said = Counter(
        name.strip().lower()
        for each in answers
        for name in each.said("vary").split(",")
        if _NAME.fullmatch(name.strip()) and name.strip().lower() != "accept-encoding"
    )
    return [name for name, _ in said.most_common(5)]


def made_with(marks: Mapping[str, int]) -> str:
    """Return the program that most signs speak for; empty: none, or not clearly one."""
    ranked = Counter(marks).most_common(2)
    if not ranked or ranked[0][1] < 2:
        return ""
    return "" if len(ranked) > 1 and ranked[1][1] == ranked[0][1] else ranked[0][0]


def proposed(site: Site) -> list[dict[str, Any]]:
    """Return parts of the website whose pages came identical twice, without a cookie.

    That is not proof: by allowing such a part, the administrator states that its pages are the
    same for all visitors. All pages are proposed if no observed page speaks against it, else parts.
    """
    pages = site.pages
    fit = {each.path for each in pages if _same_for_all(each, site)}
    if len(pages) >= LEAST_PAGES and len(fit) == len(pages):
        return [{"path": "/", "pages": len(pages)}]
    parts: dict[str, list[bool]] = {}
    for each in pages:
        parts.setdefault(_part(each.path), []).append(each.path in fit)
    # The part of the front page is its address alone, which every other begins with, too.
    found: list[dict[str, Any]] = [
        {"path": part, "pages": len(those)}
        for part, those in parts.items()
        if part != "/"
        and all(those)
        and len(part.encode()) < RULE_LEN
        # Nor may it reach into a part that is not fit.
        and not any(other.startswith(part) and not all(its) for other, its in parts.items())
    ]
    return sorted(found, key=lambda each: len(parts[each["path"]]), reverse=True)[:MOST_RULES]


def _part(path: str) -> str:
    """Return the folder below the root that a path is in, or itself."""
    whole = path.partition("?")[0]
    first, slash, _ = whole[1:].partition("/")
    return f"/{first}{slash}"


def _same_for_all(answer: Answer, site: Site) -> bool:
    vary = {name.strip().lower() for name in answer.said("vary").split(",")}
    return (
        site.same.get(answer.path, False)
        and asleep(answer, "frozen", 0, allowed=True)
        and not vary & {"cookie", "authorization", "user-agent", "accept-language"}
    )
