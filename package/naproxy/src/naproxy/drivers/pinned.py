"""HTTPS to whoever has a pinned certificate: what BMCs and meters sign, they sign themselves."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import re
import ssl

from naproxy.reason import Reason, WrongError


class WrongCertificateError(WrongError, OSError):
    """It is another certificate than the pinned one, or one that was replaced."""


def is_fingerprint(text: str) -> Reason | None:
    """Check a certificate's SHA-256 fingerprint, as openssl prints it, or without colons."""
    ok = re.fullmatch(r"[0-9a-f]{64}|[0-9a-f]{2}(:[0-9a-f]{2}){31}", text.lower())
    return None if ok else Reason("config.fingerprint")


class PinnedConnection(http.client.HTTPSConnection):
    """A connection that is closed before a word is sent if the certificate is another one."""

    def __init__(self, host: str, port: int, fingerprint: str, timeout_s: float) -> None:
        """`fingerprint`: see `is_fingerprint`. Connecting may raise WrongCertificateError."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # the fingerprint is what counts, see connect
        super().__init__(host, port, timeout=timeout_s, context=context)
        self._wanted = bytes.fromhex(fingerprint.replace(":", ""))

    def connect(self) -> None:
        """Connect, and look who it is."""
        super().connect()
        assert isinstance(self.sock, ssl.SSLSocket)
        seen = hashlib.sha256(self.sock.getpeercert(binary_form=True) or b"").digest()
        if not hmac.compare_digest(seen, self._wanted):
            self.close()
            raise WrongCertificateError("driver.other_certificate", fingerprint=seen.hex())
