"""Names of websites: as people write them, and as DNS, requests and certificates have them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final

from naproxy.core.reason import Reason, WrongError

MOST_BYTES: Final = 253
"""Of a name (RFC 1035, 2.3.4: 255 with the lengths of the first label and of the root)."""
_BELOW: Final = "*."
_MOST_LABEL: Final = 63
_LETTERS: Final = ("Ll", "Lo", "Lm", "Mn", "Mc", "Nd")
_ASCII: Final = re.compile(r"(?!-)[a-z0-9_-]+(?<!-)")


def ascii_name(text: str) -> str:
    """Return a name in lower case and A-labels (RFC 5890), without a dot at its end; WrongError.

    Python's own codec is of IDNA 2003: it makes `fass.de` of `faß.de`, which is another site.
    """
    name = unicodedata.normalize("NFC", text.lower()).removesuffix(".")
    made = ".".join(_label(label) for label in name.split("."))
    if len(made) > MOST_BYTES:
        raise WrongError("config.host")
    return made


def _label(label: str) -> str:
    made = label if label.isascii() else f"xn--{_punycode(label)}"
    if len(made) > _MOST_LABEL or not _ASCII.fullmatch(made):
        raise WrongError("config.host")
    return made


def _punycode(label: str) -> str:
    """Return a label of small letters, marks, digits, hyphens (RFC 5892) in Punycode."""
    plain = all(each == "-" or unicodedata.category(each) in _LETTERS for each in label)
    # A text that normalizing would change looks like another one.
    same = unicodedata.normalize("NFKC", label) == label
    mark = unicodedata.category(label[0])[0] == "M"
    if not plain or not same or mark or label[2:4] == "--" or label[-1] == "-":
        raise WrongError("config.host")
    return label.encode("punycode").decode()


def ascii_site(text: str) -> str:
    """Do the same with a site's name, which may begin with `*.`: any one label."""
    return _BELOW * text.startswith(_BELOW) + ascii_name(text.removeprefix(_BELOW))


def is_site_name(text: str) -> Reason | None:
    """Check a site's name, in lower case; `*.` stands for any one label."""
    try:
        ascii_site(text)
    except WrongError as error:
        return error.reason
    return None if text == text.lower() else Reason("config.host")


def is_plain_name(text: str) -> Reason | None:
    """Check the name of one site, not of many."""
    return Reason("config.host") if "*" in text else is_site_name(text)


def shortly(names: Sequence[str]) -> str | Reason:
    """Return the first name, and how many more there are."""
    first, *more = names
    return Reason("core.and_more", name=first, count=len(more)) if more else first


def covers(site: str, name: str) -> bool:
    """Is `name` this site's, where both are as `ascii_site` has them? RFC 6125, 6.4.3."""
    _, dot, rest = name.partition(".")
    return name == site or (site.startswith(_BELOW) and bool(dot) and rest == site[len(_BELOW) :])


def is_one(name: str, sites: Iterable[str]) -> bool:
    """Does one of these sites cover the name?"""
    return any(covers(site, name) for site in sites)


def in_url(host: str) -> str:
    """Return a name or an address as a URL and a Host header have it (RFC 3986, 3.2.2)."""
    return f"[{host}]" if ":" in host else host
