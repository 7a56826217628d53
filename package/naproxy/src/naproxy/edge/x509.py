"""Uploaded certificates and keys: parsed by the `openssl` program, and checked.

What arrives may be hostile. Python only splits PEM; ASN.1 is parsed in a child process with
little memory and little time.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

from naproxy.core import names, office_time
from naproxy.core.processes import Printed, printed
from naproxy.core.reason import Reason, WrongError

MOST_BYTES: Final = 1 << 18
READING: Final = "x509-"
"""The prefix of a reading's temporary folder."""
_MOST_CERTIFICATES: Final = 16
_AUTHORITIES: Final = Path("/etc/ssl/certs")
_TIMEOUT_S: Final = 5.0
_LIMITED: Final = 'ulimit -v 262144; ulimit -f 2048; ulimit -t 5; exec "$@"'
"""256 MiB of memory, files of 1 MiB, 5 s of the processor."""
_BLOCK: Final = re.compile(
    rb"-----BEGIN (?P<of>[A-Z0-9 ]{1,40})-----(?P<body>(?:[^-]|-(?!----))*)-----END (?P=of)-----"
)
_BEGINS: Final = b"-----BEGIN "
_KEYS: Final = (b"PRIVATE KEY", b"RSA PRIVATE KEY", b"EC PRIVATE KEY", b"ENCRYPTED PRIVATE KEY")
_MOST_KEYS: Final = 4
"""The same key may come in several forms."""
_PKCS7: Final = (b"PKCS7", b"PKCS #7 SIGNED DATA")
_BASE64: Final = re.compile(rb"[A-Za-z0-9+/\s]+={0,2}\s*")
_SEQUENCE: Final = b"\x30"
"""How DER begins."""
_ENCRYPTED_OIDS: Final = (
    b"\x2a\x86\x48\x86\xf7\x0d\x01\x05",
    b"\x2a\x86\x48\x86\xf7\x0d\x01\x0c\x01",
)
"""PKCS #5 and the PKCS #12 ways to encrypt by a password."""
_DATA_OID: Final = b"\x2a\x86\x48\x86\xf7\x0d\x01\x07\x01"
_STRANGE: Final = (
    (b"\xfe\xed\xfe\xed", "Java keystore (JKS)"),
    (b"PuTTY-User-Key-File", "PuTTY key (.ppk)"),
    (b"-----BEGIN CERTIFICATE REQUEST-----", "certificate request (CSR)"),
    (b"-----BEGIN NEW CERTIFICATE REQUEST-----", "certificate request (CSR)"),
    (b"-----BEGIN X509 CRL-----", "revocation list (CRL)"),
    (b"-----BEGIN PGP ", "PGP key"),
    (b"ssh-", "public key of ssh"),
    (b"-----BEGIN PUBLIC KEY-----", "public key"),
)
"""Files that people upload by mistake, by their first bytes."""
_HASH: Final = re.compile(r"^[0-9a-f]{8}$", re.MULTILINE)
_LEAST_BITS: Final = 2048
_MOST_BITS: Final = 8192
_SHORT_S: Final = 7 * 86400.0
"""Let's Encrypt's last for 160 hours."""
_OWN_DAYS: Final = 3650
_OWN_NAME: Final = "naproxy.invalid"
"""A reserved name (RFC 6761): clients see it if their name has no certificate."""
_CURVES: Final = {"prime256v1": 256, "secp384r1": 384}


class CertificateError(WrongError):
    """Why it cannot be used."""


@dataclass(frozen=True, slots=True)
class Sent:
    """An upload: PKCS #12, or PEM, DER, base64 of DER or PKCS #7, also in UTF-16.

    The key may be in `pem` too.
    """

    pem: bytes = field(default=b"", repr=False)
    key: bytes = field(default=b"", repr=False)
    pkcs12: bytes = field(default=b"", repr=False)
    password: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Certificate:
    """The facts about one, with its chain."""

    names: tuple[str, ...]
    """As `ascii_site` has them."""
    not_before_s: float
    not_after_s: float
    """When it ends, or the first of its chain."""
    issuer: str
    fingerprint: str
    """SHA-256, 64 hexadecimal digits."""
    kind: str
    """`ecdsa` or `rsa`."""
    bits: int
    trusted: bool
    """Do browsers trust it? By the authorities that this machine knows."""
    notes: tuple[Reason, ...]

    def covers(self, name: str) -> bool:
        """Is it for this name, as `ascii_site` has it?"""
        return any(names.covers(own, name) for own in self.names)

    @property
    def scale(self) -> float:
        """Its life as a share of 90 days, if it is short-lived: it is warned of later. Else 1."""
        length_s = self.not_after_s - self.not_before_s
        return 1.0 if length_s > _SHORT_S else max(length_s, 0.0) / (90 * 86400)

    def untimely(self, now_s: float) -> Reason | None:
        """Return why it is not good now."""
        if now_s >= self.not_after_s:
            return Reason("https.expired", day=day_of(self.not_after_s))
        if now_s < self.not_before_s:
            return Reason("https.not_yet", day=day_of(self.not_before_s))
        return None


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, as they are kept: both PEM, the key not encrypted."""

    certificate: Certificate
    chain: bytes
    """The certificate, then each one's issuer; not the root."""
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Read:
    """One certificate as openssl tells of it."""

    pem: bytes
    public: bytes
    subject_hash: str
    issuer_hash: str
    issuer: str
    not_before_s: float
    not_after_s: float
    fingerprint: str

    @property
    def by_itself(self) -> bool:
        return self.subject_hash == self.issuer_hash


class Openssl:
    """The program, in a child with limits."""

    def __init__(
        self,
        folder: Path | None = None,
        authorities: Path = _AUTHORITIES,
        timeout_s: float = _TIMEOUT_S,
    ) -> None:
        """`folder`: where keys may lie for a moment; none: the system's for temporary files."""
        self.folder = folder
        self.authorities = authorities
        self._timeout_s = timeout_s

    async def run(self, *args: str) -> Printed:
        """Run it; CertificateError if that is not possible, or takes too long."""
        argv = ("/bin/sh", "-c", _LIMITED, "sh", "openssl", *args)
        done = await printed(argv, self._timeout_s, {"LC_ALL": "C.UTF-8"}, 2 * MOST_BYTES)
        if done.code is None or done.code < 0 or done.code > 125:
            raise CertificateError("https.openssl", why=done.why)
        return done


async def read(sent: Sent, openssl: Openssl) -> Pair:
    """Return an upload if it is usable; its dates are not checked. CertificateError."""
    if len(sent.pem) + len(sent.key) + len(sent.pkcs12) > MOST_BYTES:
        raise CertificateError("https.too_large", kb=MOST_BYTES >> 10)
    with tempfile.TemporaryDirectory(prefix=READING, dir=openssl.folder) as folder:
        return await _Reading(Path(folder), openssl, sent).pair()


class _Reading:
    """One reading; its files are in a folder that only we may enter."""

    def __init__(self, folder: Path, openssl: Openssl, sent: Sent) -> None:
        self._folder = folder
        self._openssl = openssl
        self._sent = sent
        self._number = 0
        self._passin = "file:" + self._file(sent.password.encode() + b"\n")

    def _file(self, data: bytes) -> str:
        self._number += 1
        path = self._folder / str(self._number)
        path.write_bytes(data)
        return str(path)

    async def pair(self) -> Pair:
        if self._sent.pkcs12:
            text = await self._unpacked(self._sent.pkcs12)
        else:
            text = await self._pem(self._sent.pem) + b"\n" + await self._pem(self._sent.key)
        certificates, sent_keys = split(text)
        if not certificates:
            if kind := _strange(self._sent.pem):
                raise CertificateError("https.something_else", kind=kind)
            raise CertificateError("https.no_certificate")
        if not sent_keys:
            if kind := _strange(self._sent.key):
                raise CertificateError("https.something_else", kind=kind)
            raise CertificateError("https.no_key")
        if len(sent_keys) > _MOST_KEYS:
            raise CertificateError("https.many_keys")
        keys = {await self._key(each) for each in sent_keys}
        if len(keys) > 1:
            raise CertificateError("https.many_keys")
        if len(certificates) > _MOST_CERTIFICATES:
            raise CertificateError("https.many_certificates", high=_MOST_CERTIFICATES)
        key = keys.pop()
        public, kind, bits = await self._kind(key)
        read = [await self._certificate(pem) for pem in certificates]
        leaf = next((each for each in read if each.public == public), None)
        if leaf is None:
            raise CertificateError("https.other_key")
        site_names = await self._names(leaf)
        chain = await self._chain(leaf, [each for each in read if each is not leaf])
        trusted = await self._trusted(chain)
        made = Certificate(
            site_names,
            leaf.not_before_s,
            min(each.not_after_s for each in chain),
            leaf.issuer,
            leaf.fingerprint,
            kind,
            bits,
            trusted,
            () if trusted else (_why_not_trusted(chain, read),),
        )
        return Pair(made, b"".join(each.pem for each in chain), key)

    async def _pem(self, data: bytes) -> bytes:
        """Return what was sent as PEM; CertificateError."""
        text = _as_utf8(data)
        if _BEGINS in text:
            lists = [each[0] for each in _BLOCK.finditer(text) if each["of"] in _PKCS7]
            return b"\n".join([text, *[await self._list(each, "PEM") for each in lists]])
        der = _der(data)
        if der is None:
            if kind := _strange(text):
                raise CertificateError("https.something_else", kind=kind)
            return text
        return await self._from_der(der)

    async def _from_der(self, der: bytes) -> bytes:
        file = self._file(der)
        done = await self._openssl.run("x509", "-inform", "DER", "-in", file)
        if not done.code:
            return done.output
        done = await self._openssl.run("pkcs7", "-inform", "DER", "-print_certs", "-in", file)
        if not done.code:
            return done.output
        if any(oid in der for oid in _ENCRYPTED_OIDS) and _DATA_OID not in der:
            return _block(b"ENCRYPTED PRIVATE KEY", der)
        done = await self._openssl.run("pkey", "-inform", "DER", "-in", file)
        if not done.code:
            return done.output
        if _DATA_OID in der:
            return await self._unpacked(der)
        raise CertificateError("https.not_pem")

    async def _list(self, data: bytes, form: str) -> bytes:
        """Return the certificates of a PKCS #7 file."""
        file = self._file(data)
        done = await self._openssl.run("pkcs7", "-inform", form, "-print_certs", "-in", file)
        if done.code:
            raise CertificateError("https.cut_off")
        return done.output

    async def _unpacked(self, pkcs12: bytes) -> bytes:
        """Return PKCS #12 as PEM; old files need the old ciphers."""
        argv = ("pkcs12", "-in", self._file(pkcs12), "-passin", self._passin, "-noenc")
        done = await self._openssl.run(*argv)
        if done.code and b"unsupported" in done.complaint:
            done = await self._openssl.run(*argv, "-legacy")
        if not done.code:
            return done.output
        if b"invalid password" in done.complaint:
            raise CertificateError("https.password" if self._sent.password else "https.encrypted")
        old = b"unsupported" in done.complaint
        raise CertificateError("https.pkcs12_old" if old else "https.pkcs12")

    async def _key(self, pem: bytes) -> bytes:
        """Return a key not encrypted, as PKCS #8."""
        encrypted = b"ENCRYPTED" in pem
        if encrypted and not self._sent.password:
            raise CertificateError("https.encrypted")
        argv = ("pkey", "-in", self._file(pem), "-passin", self._passin)
        done = await self._openssl.run(*argv)
        if done.code and b"generic_fetch:unsupported" in done.complaint:
            done = await self._openssl.run(*argv, "-provider", "legacy", "-provider", "default")
            if done.code and b"unable to load provider" in done.complaint:
                raise CertificateError("https.old_key")
        if done.code:
            raise CertificateError("https.password" if encrypted else "https.bad_key")
        return done.output

    async def _kind(self, key: bytes) -> tuple[bytes, str, int]:
        """Return a key's public half, kind and bits."""
        done = await self._openssl.run("pkey", "-in", self._file(key), "-pubout", "-text_pub")
        public, _, text = done.output.partition(b"-----END PUBLIC KEY-----\n")
        if done.code or not text:
            raise CertificateError("https.bad_key")
        said = text.decode(errors="replace")
        curve = re.search(r"^ASN1 OID: (\S+)$", said, re.MULTILINE)
        if curve and curve[1] in _CURVES:
            return public, "ecdsa", _CURVES[curve[1]]
        rsa = re.match(r"(?:RSA )?Public-Key: \((\d{1,6}) bit\)\nModulus:", said)
        if not rsa or int(rsa[1]) > _MOST_BITS:
            raise CertificateError("https.key_kind")
        if int(rsa[1]) < _LEAST_BITS:
            raise CertificateError("https.weak_key", bits=int(rsa[1]), least=_LEAST_BITS)
        return public, "rsa", int(rsa[1])

    async def _certificate(self, pem: bytes) -> _Read:
        done = await self._openssl.run(
            *("x509", "-in", self._file(pem), "-noout", "-dateopt", "iso_8601", "-startdate"),
            *("-enddate", "-fingerprint", "-sha256", "-issuer", "-nameopt", "RFC2253"),
            *("-subject_hash", "-issuer_hash", "-pubkey"),
        )
        said, begins, public = done.output.decode(errors="replace").partition(_BEGINS.decode())
        known = dict(line.partition("=")[::2] for line in said.splitlines() if "=" in line)
        try:
            subject_hash, issuer_hash = _HASH.findall(said)
            return _Read(
                pem,
                (begins + public).encode().partition(b"-----END PUBLIC KEY-----\n")[0],
                subject_hash,
                issuer_hash,
                known["issuer"],
                datetime.fromisoformat(known["notBefore"]).timestamp(),
                datetime.fromisoformat(known["notAfter"]).timestamp(),
                known["sha256 Fingerprint"].replace(":", "").lower(),
            )
        except (KeyError, ValueError):
            raise CertificateError("https.bad_certificate") from None

    async def _names(self, leaf: _Read) -> tuple[str, ...]:
        """Return the names that a certificate of a server is for."""
        done = await self._openssl.run(
            *("x509", "-in", self._file(leaf.pem), "-noout"),
            *("-ext", "subjectAltName,basicConstraints,extendedKeyUsage,tlsfeature"),
        )
        said = _extensions(done.output.decode(errors="replace"))
        use = said.get("X509v3 Extended Key Usage", "")
        for_servers = not use or "Web Server Auth" in use or "Any Extended Key Usage" in use
        # Self-signed certificates are often CAs as well, by openssl's defaults.
        is_ca = "CA:TRUE" in said.get("X509v3 Basic Constraints", "") and not leaf.by_itself
        if is_ca or not for_servers:
            raise CertificateError("https.not_for_servers")
        if "TLS Feature" in said:
            raise CertificateError("https.must_staple")
        listed = said.get("X509v3 Subject Alternative Name", "").split(", ")
        found = [each.removeprefix("DNS:").lower() for each in listed if each.startswith("DNS:")]
        good = [names.ascii_site(each) for each in found if names.is_site_name(each) is None]
        if not good:
            raise CertificateError("https.no_names")
        return tuple(dict.fromkeys(good))

    async def _chain(self, leaf: _Read, others: list[_Read]) -> list[_Read]:
        """Return a certificate followed by its issuers; unrelated certificates are left out."""
        chain = [leaf]
        while not chain[-1].by_itself:
            issuers = [each for each in others if each.subject_hash == chain[-1].issuer_hash]
            if not issuers:
                break
            issuer = await self._issuer(chain[-1], issuers)
            if issuer.by_itself:
                break
            others = [each for each in others if each is not issuer]
            chain.append(issuer)
        return chain

    async def _issuer(self, of: _Read, candidates: Sequence[_Read]) -> _Read:
        file = self._file(of.pem)
        for each in candidates:
            trusted = self._file(each.pem)
            done = await self._openssl.run(
                *("verify", "-partial_chain", "-no_check_time", "-trusted", trusted, file)
            )
            if not done.code:
                return each
        raise CertificateError("https.broken_chain")

    async def _trusted(self, chain: Sequence[_Read]) -> bool:
        """Ask the authorities of this machine; the dates are another question."""
        rest = self._file(b"".join(each.pem for each in chain[1:]) or chain[0].pem)
        done = await self._openssl.run(
            *("verify", "-no_check_time", "-purpose", "sslserver", "-untrusted", rest),
            *("-no-CAfile", "-no-CAstore", "-CApath", str(self._openssl.authorities)),
            self._file(chain[0].pem),
        )
        return not done.code


async def make_own(openssl: Openssl) -> bytes:
    """Return a certificate that the box signs itself, with its key; CertificateError."""
    with tempfile.TemporaryDirectory(prefix=READING, dir=openssl.folder) as folder:
        settings, key, made = (str(Path(folder) / name) for name in ("settings", "key", "made"))
        Path(settings).write_text("[req]\ndistinguished_name=dn\n[dn]\n")
        done = await openssl.run(
            *("req", "-x509", "-config", settings, "-newkey", "ec", "-nodes", "-sha256"),
            *("-pkeyopt", "ec_paramgen_curve:prime256v1", "-days", str(_OWN_DAYS)),
            *("-subj", f"/CN={_OWN_NAME}", "-addext", f"subjectAltName=DNS:{_OWN_NAME}"),
            *("-keyout", key, "-out", made),
        )
        if done.code:
            raise CertificateError("https.openssl", why=done.why)
        return Path(made).read_bytes() + Path(key).read_bytes()


def split(text: bytes) -> tuple[list[bytes], list[bytes]]:
    """Return the certificates and the keys in PEM, each once; CertificateError."""
    certificates: dict[bytes, None] = {}
    keys: dict[bytes, None] = {}
    found = list(_BLOCK.finditer(text))
    if not found and _BEGINS not in text:
        raise CertificateError("https.not_pem")
    if len(found) != text.count(_BEGINS):
        raise CertificateError("https.cut_off")
    for block in found:
        if block["of"] == b"CERTIFICATE":
            certificates[_wrapped(block["body"])] = None
        elif block["of"] in _KEYS:
            keys[block[0].replace(b"\r", b"").strip() + b"\n"] = None
        elif block["of"].endswith(b"PRIVATE KEY"):
            raise CertificateError("https.key_kind")
    return list(certificates), list(keys)


def _wrapped(body: bytes) -> bytes:
    """Return a certificate's block as everybody writes it."""
    try:
        der = base64.b64decode(b"".join(body.split()), validate=True)
    except binascii.Error:
        raise CertificateError("https.cut_off") from None
    return _block(b"CERTIFICATE", der)


def _block(label: bytes, der: bytes) -> bytes:
    text = base64.b64encode(der)
    lines = [text[at : at + 64] for at in range(0, len(text), 64)]
    return b"\n".join([b"-----BEGIN %b-----" % label, *lines, b"-----END %b-----" % label, b""])


def _as_utf8(data: bytes) -> bytes:
    """Return text that Windows saved as UTF-16 as UTF-8; anything else as it is."""
    marks = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
    coding = marks.get(data[:2])
    for form in ("utf-16-le", "utf-16-be"):
        at = data.find(_BEGINS.decode().encode(form))
        if coding is None and at >= 0 and at % 2 == 0:
            coding = form
    if coding is None:
        return data.removeprefix(codecs.BOM_UTF8)
    return data.decode(coding, errors="replace").encode()


def _der(data: bytes) -> bytes | None:
    """Return DER, which may be sent as base64; None if it is something else."""
    if data[:1] == _SEQUENCE and not data.isascii():
        return data
    if not data.strip() or not _BASE64.fullmatch(data):
        return None
    try:
        der = base64.b64decode(b"".join(data.split()), validate=True)
    except binascii.Error:
        return None
    return der if der[:1] == _SEQUENCE else None


def _strange(data: bytes) -> str:
    """Return what was sent by mistake; empty where that is not known."""
    text = _as_utf8(data).lstrip()
    return next((kind for begin, kind in _STRANGE if text.startswith(begin)), "")


def _extensions(said: str) -> dict[str, str]:
    """Return what `openssl x509 -ext` says, by the extensions' names."""
    found: dict[str, str] = {}
    name = ""
    for line in said.splitlines():
        if line.startswith(" "):
            found[name] = f"{found.get(name, '')} {line.strip()}".strip()
        else:
            name = line.partition(":")[0]
            found.setdefault(name, "")
    return found


def _why_not_trusted(chain: Sequence[_Read], sent: Sequence[_Read]) -> Reason:
    if chain[0].by_itself:
        return Reason("https.self_signed")
    issued_by_sent = any(each.subject_hash == chain[0].issuer_hash for each in sent)
    if issued_by_sent:
        return Reason("https.not_trusted")
    return Reason("https.no_issuer", name=chain[0].issuer)


def day_of(t_s: float) -> str:
    """Return the day of a time, as ISO 8601 has it."""
    return office_time.local(t_s).date().isoformat()
