"""The authority that the office's machines trust, and what shows which certificate somebody has."""

import base64
import hashlib
import ssl
import sys

from tests.simulator.office.namespace import ROOT, Namespace

sys.path.append(str(ROOT / "package/naproxy/tests"))

# The authority of the controller's own tests: it knows all that a certificate can have wrong.
from certificates import Authority, Issued, encrypted, openssl

__all__ = [
    "Authority",
    "Issued",
    "asked_for",
    "context",
    "encrypted",
    "fingerprint",
    "issue",
    "shown",
    "spki",
]


def issue(authority: Authority, *names: str, kind: str = "ecdsa", days: int = 90) -> Issued:
    """Issue a certificate for these names; its file has its issuer's too, as clients need it."""
    issued = authority.issue(*names, kind=kind, days=days)
    issued.file.write_bytes(authority.chain(issued))
    return issued


def context(authority: Authority) -> ssl.SSLContext:
    """Return how a client comes by HTTPS/1.1 that trusts this authority."""
    made = ssl.create_default_context(cafile=authority.root.file)
    made.set_alpn_protocols(["http/1.1"])
    return made


def fingerprint(issued: Issued) -> str:
    """Return the SHA-256 of a certificate, in hex."""
    der = openssl("x509", "-in", issued.file, "-outform", "DER")
    return hashlib.sha256(der).hexdigest()


def shown(
    client: Namespace, host: str, name: str | None, ciphers: str = "", port: int = 443
) -> str:
    """Return the fingerprint of what this host shows who asks for a name; OSError.

    `ciphers` are those of TLS 1.2 that the client can speak, to be shown RSA or ECDSA.
    """
    asking = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    asking.check_hostname, asking.verify_mode = False, ssl.CERT_NONE
    if ciphers:
        asking.maximum_version = ssl.TLSVersion.TLSv1_2
        asking.set_ciphers(ciphers)
    with (
        client.connect(host, port, timeout_s=10.0) as plain,
        asking.wrap_socket(plain, server_hostname=name) as secure,
    ):
        return hashlib.sha256(secure.getpeercert(binary_form=True) or b"").hexdigest()


def asked_for(issued: Issued) -> str:
    """Return a name that a certificate is for."""
    said = openssl("x509", "-in", issued.file, "-noout", "-ext", "subjectAltName").decode()
    return said.partition("DNS:")[2].partition(",")[0].strip().replace("*", "any")


def spki(issued: Issued) -> str:
    """Return the SHA-256 of a certificate's public key in base64, as Chromium wants it."""
    public = openssl("pkey", "-in", issued.key_file, "-pubout", "-outform", "DER")
    return base64.b64encode(hashlib.sha256(public).digest()).decode()
