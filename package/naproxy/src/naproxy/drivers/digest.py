"""HTTP's Digest authentication (RFC 7616) as a client: SHA-256 and `auth`, as plugs want it."""

from __future__ import annotations

import hashlib
import secrets
from urllib.request import parse_http_list, parse_keqv_list

from naproxy.drivers.pinned import RefusedError


class Digest:
    """Our login at one device. Its last challenge is reused as long as the device accepts it."""

    def __init__(self, user: str, password: str) -> None:
        """Not known to anybody yet: the first request goes without."""
        self._user = user
        self._password = password
        self._asked: dict[str, str] = {}
        self._count = 0

    def challenged(self, header: str) -> None:
        """Take a `WWW-Authenticate` header; RefusedError if it wants something else."""
        scheme, _, rest = header.partition(" ")
        try:
            asked = parse_keqv_list(parse_http_list(rest))
        except ValueError:
            asked = {}
        if scheme.lower() != "digest" or not asked.get("nonce"):
            raise RefusedError("meter.digest_none")
        if asked.get("algorithm", "MD5").upper() != "SHA-256":
            raise RefusedError("meter.digest_other")
        if "auth" not in [word.strip() for word in asked.get("qop", "").split(",")]:
            raise RefusedError("meter.digest_bodies")
        if not all(text.isprintable() and '"' not in text for text in asked.values()):
            raise RefusedError("meter.digest_malformed")
        self._asked, self._count = asked, 0

    def header(self, method: str, path: str, cnonce: str | None = None) -> dict[str, str]:
        """Return the header for a request (RFC 7616, 3.4), none before a challenge.

        `cnonce` is chosen at random unless given.
        """
        asked = self._asked
        if not asked:
            return {}
        self._count += 1
        count, cnonce = f"{self._count:08x}", cnonce or secrets.token_hex(8)
        realm, nonce = asked.get("realm", ""), asked["nonce"]
        secret = _hash(f"{self._user}:{realm}:{self._password}")
        response = _hash(f"{secret}:{nonce}:{count}:{cnonce}:auth:{_hash(f'{method}:{path}')}")
        words = (
            f'Digest username="{self._user}", realm="{realm}", nonce="{nonce}", uri="{path}",'
            f' algorithm=SHA-256, qop=auth, nc={count}, cnonce="{cnonce}", response="{response}"'
        )
        if "opaque" in asked:
            words += f', opaque="{asked["opaque"]}"'
        return {"Authorization": words}


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
