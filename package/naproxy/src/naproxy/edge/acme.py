"""The arguments and messages of uacme, an ACME client (RFC 8555), and when to run it. Pure."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final

from naproxy.config.document import Certificate, Config, Https
from naproxy.core.names import ascii_site
from naproxy.core.processes import words
from naproxy.core.reason import Reason
from naproxy.edge import x509

PROGRAM: Final = "uacme"
STAGING: Final = "staging"
_URLS: Final = {
    "letsencrypt": "https://acme-v02.api.letsencrypt.org/directory",
    STAGING: "https://acme-staging-v02.api.letsencrypt.org/directory",
}
MOST_TRIES: Final = 3
"""An issuer may refuse a nonce by the way (RFC 8555, 6.5), and uacme asks only thrice."""
HOUR_S: Final = 3600.0
_WAITS_S: Final = (HOUR_S, 4 * HOUR_S, 24 * HOUR_S, 48 * HOUR_S)
"""After the first failure in a row, the second, ... Let's Encrypt: 5 an hour for a name."""
_MOST_WAIT: Final = 1 / 45
"""Of its life: the longest wait of those, for 90 days 48 h, for six days 3.2 h."""
_LEAST_WAIT_S: Final = 60.0
_LIMITED_S: Final = 7 * 24 * HOUR_S
_LIMITED: Final = 7 / 90
"""Of its life, for short ones: an issuer that does not say until when must not outlast it."""
_JITTER_S: Final = 12 * HOUR_S
_RENEWED: Final = 2 / 3
"""Of its life is over when a certificate is renewed."""
_MOST_JITTER: Final = 1 / 20
"""Of its life, for short ones."""

_ERROR: Final = "the server reported the following error:"
_TYPE: Final = "urn:ietf:params:acme:error:"
_UNTIL: Final = re.compile(r"retry after (\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)")
_HOOK: Final = re.compile(r"^naproxy acme-hook: (.+)$", re.MULTILINE)
_SAID: Final = {
    _HOOK: "https.acme_hook",
    re.compile(r"^uacme: curl_\w+: \w+ \S+ failed: (.+)$", re.MULTILINE): "https.acme_unreached",
    re.compile(r"(this ACME server requires external credentials)"): "https.acme_eab",
    re.compile(r"(no challenge completed)"): "https.acme_no_challenge",
    re.compile(r"(failed to fetch directory)"): "https.acme_no_directory",
}
"""uacme's messages without an issuer's reason, by meaning; the first match counts."""
_SEEN_BY: Final = frozenset({"unauthorized", "connection", "dns", "incorrectResponse", "tls"})
"""Error types of an issuer that could not validate a name."""
_CODES: Final = {
    "caa": "https.acme_caa",
    "externalAccountRequired": "https.acme_eab",
    "userActionRequired": "https.acme_terms_new",
}
NO_ACCOUNT: Final = "no account associated with"
KNOWN_ALREADY: Final = "Account already exists"


@dataclass(frozen=True, slots=True)
class Issuer:
    """A certificate issuer."""

    url: str
    folder: str
    """The name of the folder with the account there."""

    @property
    def known(self) -> bool:
        """Is it Let's Encrypt, its trial included?"""
        return self.folder in _URLS


def issuer(https: Https, *, trial: bool = False) -> Issuer:
    """Return the issuer; for a trial, the staging server if Let's Encrypt is the issuer."""
    name = https.acme_directory
    if trial and name in _URLS:
        name = STAGING
    if name in _URLS:
        return Issuer(_URLS[name], name)
    return Issuer(name, f"other-{sha256(name.encode()).hexdigest()[:16]}")


def names_for(certificate: Certificate, config: Config) -> tuple[str, ...]:
    """Return the names that a certificate is to be for, as `ascii_site` has them."""
    if certificate.names:
        return tuple(dict.fromkeys(ascii_site(name) for name in certificate.names))
    served = (server for server in config.server if server.https.mode == "box")
    sites = [ascii_site(host) for server in served for host in server.hosts]
    if certificate.challenge != "dns-01":
        sites = [site for site in sites if not site.startswith("*.")]
    return tuple(dict.fromkeys(sites))


def register(at: Issuer, folder: str, https: Https) -> list[str]:
    """Return the command for a new account; the caller makes sure that the terms are accepted."""
    argv = [PROGRAM, "-c", folder, "-a", at.url, "-t", "EC", "-y"]
    # Somebody else's issuer must not get to know the account with this one.
    if https.acme_eab_id and not (at.known and at.folder != https.acme_directory):
        argv += ["-e", f"{https.acme_eab_id}:{https.acme_eab_key}"]
    return [*argv, "new", *([https.acme_email] if https.acme_email else [])]


def rewrite(at: Issuer, folder: str, https: Https) -> list[str]:
    """Return how an account's address is changed."""
    address = [https.acme_email] if https.acme_email else []
    return [PROGRAM, "-c", folder, "-a", at.url, "update", *address]


def issue(at: Issuer, folder: str, hook: str, request: str) -> list[str]:
    """Return the command that has a certificate issued for a request (CSR)."""
    return [PROGRAM, "-c", folder, "-a", at.url, "-n", "-h", hook, "issue", request]


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why there is no certificate, and the remedy."""

    reason: Reason
    again: bool = False
    """At once: the issuer did not mean it."""
    until_s: float = 0.0
    """Not before: it said so."""


def refusal(said: str, challenge: str, t_s: float, life_s: float = math.inf) -> Refusal:
    """Return what uacme's words mean; without a challenge they are about the account.

    `life_s`: how long the certificate is good that is to be renewed.
    """
    if (error := _problem(said)) and not _HOOK.search(said):
        kind = str(error.get("type", "")).removeprefix(_TYPE)
        return _by_issuer(kind, words(str(error.get("detail", ""))) or kind, challenge, t_s, life_s)
    for pattern, code in _SAID.items():
        if found := pattern.search(said):
            return Refusal(Reason(code, why=words(found[1]), challenge=challenge))
    last = [line.removeprefix("uacme: ") for line in said.splitlines() if line.strip()]
    return Refusal(Reason("https.acme_failed", why=words("; ".join(last[-2:])) or "?"))


def _by_issuer(kind: str, said: str, challenge: str, t_s: float, life_s: float) -> Refusal:
    if kind == "badNonce":
        return Refusal(Reason("https.acme_nonce"), again=True)
    if kind == "rateLimited":
        until_s = _until(said) or t_s + min(_LIMITED_S, life_s * _LIMITED)
        day = x509.day_of(until_s)
        return Refusal(Reason("https.acme_limited", day=day, why=said), until_s=until_s)
    if kind in _SEEN_BY and challenge:
        by_dns = challenge == "dns-01"
        return Refusal(
            Reason("https.acme_not_seen_dns" if by_dns else "https.acme_not_seen", why=said)
        )
    other = "https.acme_refused" if challenge else "https.acme_account"
    return Refusal(Reason(_CODES.get(kind, other), why=said))


def version(said: str) -> tuple[int, ...]:
    """Return uacme's version from its output; empty if it cannot be parsed."""
    found = re.search(r"version (\d+(?:\.\d+)*)", said)
    return tuple(map(int, found[1].split("."))) if found else ()


def _problem(said: str) -> Mapping[str, Any] | None:
    """Return what an issuer said (RFC 7807), the last of it."""
    _, found, rest = said.rpartition(_ERROR)
    try:
        error, _ = json.JSONDecoder().raw_decode(rest.strip())
    except (ValueError, RecursionError):
        return None
    return error if found and isinstance(error, dict) else None


def _until(said: str) -> float | None:
    """Return until when an issuer wants to hear no more of it."""
    found = _UNTIL.search(said)
    if not found:
        return None
    try:
        return datetime.fromisoformat(f"{found[1]}T{found[2]}").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class Tried:
    """The results of tries to renew a certificate."""

    failures: int = 0
    """In a row."""
    last_s: float = 0.0
    """When the last of them began."""
    until_s: float = 0.0
    """The issuer wants to hear no more of it before."""


@dataclass(frozen=True, slots=True)
class Life:
    """Of a certificate that is as it should be."""

    not_before_s: float
    not_after_s: float
    seed: str
    """A value that differs for each certificate and box."""

    @property
    def length_s(self) -> float:
        """How long it is good."""
        return self.not_after_s - self.not_before_s


def when(life: Life | None, tried: Tried) -> float:
    """Return when a certificate is to be issued next: at once if there is none."""
    due_s = _due(life) if life else 0.0
    if tried.failures:
        wait_s = _WAITS_S[min(tried.failures, len(_WAITS_S)) - 1]
        if life:
            wait_s = min(wait_s, max(life.length_s * _MOST_WAIT, _LEAST_WAIT_S))
        due_s = max(due_s, tried.last_s + wait_s)
    return max(due_s, tried.until_s)


def _due(life: Life) -> float:
    length_s = life.length_s
    spread_s = min(_JITTER_S, length_s * _MOST_JITTER)
    part = int.from_bytes(sha256(life.seed.encode()).digest()[:4]) / (1 << 32)
    return life.not_before_s + length_s * _RENEWED + spread_s * (2 * part - 1)
