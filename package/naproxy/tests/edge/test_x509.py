"""Certificates that somebody sends: read by the real openssl, or refused with words."""

from __future__ import annotations

import asyncio
import base64
import time
from pathlib import Path

import pytest
from certificates import Authority, encrypted, openssl, trusting
from hypothesis import given, settings
from hypothesis import strategies as st
from naproxy.core.names import is_site_name
from naproxy.core.reason import Reason
from naproxy.edge import x509
from naproxy.edge.x509 import CertificateError, Openssl, Pair, Sent, read

DAY_S = 86400.0


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def reading(sent: Sent, program: Openssl | None = None) -> Pair:
    return asyncio.run(read(sent, program or Openssl()))


def refused(sent: Sent, program: Openssl | None = None) -> Reason:
    with pytest.raises(CertificateError) as error:
        reading(sent, program)
    assert str(error.value) != error.value.reason.code
    return error.value.reason


@pytest.mark.parametrize(("kind", "bits"), [("ecdsa", 256), ("rsa", 2048)])
def test_a_certificate_and_its_key_are_read(authority: Authority, kind: str, bits: int) -> None:
    issued = authority.issue("www.example.org", "*.example.org", "bücher.example", kind=kind)
    found = reading(Sent(authority.chain(issued), issued.key)).certificate
    assert found.names[:2] == ("www.example.org", "*.example.org")
    assert (found.kind, found.bits, found.issuer) == (kind, bits, "CN=Below")
    assert found.not_after_s - found.not_before_s == 90 * DAY_S
    assert found.covers("shop.example.org")
    assert not found.covers("example.org")


def test_all_in_one_file_and_in_any_order_is_the_same(authority: Authority) -> None:
    issued = authority.issue("a.example")
    parts = authority.root.pem + issued.key + authority.below.pem + issued.pem + issued.key
    windows = b"a comment\r\n" + parts.replace(b"\n", b"\r\n")
    found = reading(Sent(windows))
    assert found.chain == issued.pem + authority.below.pem
    assert found == reading(Sent(authority.chain(issued), issued.key))


def test_strangers_and_the_root_stay_away(authority: Authority, tmp_path: Path) -> None:
    issued = authority.issue("a.example")
    stranger = Authority(tmp_path).issue("b.example")
    sent = Sent(authority.chain(issued) + stranger.pem + authority.root.pem, issued.key)
    assert reading(sent).chain == authority.chain(issued)


def test_a_key_with_a_password_is_kept_without(authority: Authority) -> None:
    issued = authority.issue("a.example")
    kept = reading(Sent(authority.chain(issued), encrypted(issued, "hush"), password="hush"))
    assert kept.key == reading(Sent(authority.chain(issued), issued.key)).key


def test_a_key_as_openssl_once_encrypted_them_is_read(authority: Authority) -> None:
    issued = authority.issue("a.example", kind="rsa")
    argv = ("rsa", "-in", issued.key_file, "-traditional", "-aes128", "-passout", "pass:hush")
    key = openssl(*argv)
    assert b"Proc-Type" in key
    assert reading(Sent(issued.pem, key, password="hush")).certificate.kind == "rsa"
    assert refused(Sent(issued.pem, key, password="wrong")).code == "https.password"


LEGACY = ("-provider", "legacy", "-provider", "default")


@pytest.mark.parametrize(
    "cipher",
    [
        *(("-v1", each) for each in ("PBE-MD5-DES", "PBE-SHA1-RC2-40", "PBE-SHA1-RC4-128")),
        *(("-v1", each) for each in ("PBE-SHA1-3DES", "PBE-SHA1-DES")),
        ("-v2", "des"),
        ("-v2", "aes256"),
    ],
    ids=" ".join,
)
def test_a_key_in_pkcs8_is_read_whatever_its_cipher(
    authority: Authority, cipher: tuple[str, str]
) -> None:
    issued = authority.issue("a.example")
    argv = ("pkcs8", "-topk8", "-in", issued.key_file, *cipher, "-passout", "pass:geheim")
    for form in ("PEM", "DER"):
        key = openssl(*argv, "-outform", form, *LEGACY)
        kept = reading(Sent(issued.pem, key, password="geheim")).key
        assert kept == reading(Sent(issued.pem, issued.key)).key
        assert refused(Sent(issued.pem, key, password="falsch")).code == "https.password"
        assert refused(Sent(issued.pem, key)).code == "https.encrypted"


def test_der_pkcs7_base64_and_utf16_are_read(authority: Authority) -> None:
    issued = authority.issue("a.example")
    expected = reading(Sent(authority.chain(issued), issued.key))
    der = openssl("x509", "-in", issued.file, "-outform", "DER")
    key = openssl("pkey", "-in", issued.key_file, "-outform", "DER")
    alone = reading(Sent(issued.pem, issued.key))
    assert reading(Sent(der, key)) == alone
    assert reading(Sent(base64.encodebytes(der), base64.b64encode(key))) == alone
    packed = ("crl2pkcs7", "-nocrl", "-certfile", issued.file, "-certfile", authority.below.file)
    for form in ("PEM", "DER"):
        assert reading(Sent(openssl(*packed, "-outform", form), issued.key)) == expected
    both = authority.chain(issued).decode() + issued.key.decode()
    for coding in ("utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"):
        assert reading(Sent(both.encode(coding))) == expected, coding
    store = authority.pkcs12(issued, "hush")
    assert reading(Sent(store, password="hush")).certificate == expected.certificate


def test_the_same_key_in_two_forms_is_one(authority: Authority) -> None:
    issued = authority.issue("a.example", kind="rsa")
    other = openssl("rsa", "-in", issued.key_file, "-traditional")
    assert other != issued.key
    both = Sent(issued.pem + other, issued.key)
    assert reading(both) == reading(Sent(issued.pem, issued.key))
    hidden = Sent(issued.pem + encrypted(issued, "hush"), issued.key, password="hush")
    assert reading(hidden) == reading(Sent(issued.pem, issued.key))


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\xfe\xed\xfe\xed\0\0\0\2", "Java keystore"),
        (b"PuTTY-User-Key-File-3: ssh-rsa\n", "PuTTY"),
        (b"-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n", "CSR"),
        (b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "public key"),
        (b"ssh-ed25519 AAAA you@here", "ssh"),
    ],
)
def test_what_is_sent_by_mistake_is_called_by_its_name(
    authority: Authority, data: bytes, kind: str
) -> None:
    for sent in (Sent(data, authority.root.key), Sent(authority.root.pem, data)):
        reason = refused(sent)
        assert reason.code == "https.something_else"
        assert kind in str(reason)


@pytest.mark.parametrize("more", [(), ("-legacy",)])
def test_a_pkcs12_file_is_read_also_an_old_one(authority: Authority, more: tuple[str]) -> None:
    issued = authority.issue("a.example")
    found = reading(Sent(pkcs12=authority.pkcs12(issued, "hush", *more), password="hush"))
    assert found == reading(Sent(authority.chain(issued), issued.key))


def test_a_chain_that_ends_at_a_known_root_is_trusted(authority: Authority, tmp_path: Path) -> None:
    issued = authority.issue("a.example")
    program = Openssl(authorities=trusting(authority, tmp_path / "roots"))
    found = reading(Sent(authority.chain(issued), issued.key), program).certificate
    assert (found.trusted, found.notes) == (True, ())
    alone = reading(Sent(issued.pem, issued.key), program).certificate
    assert (alone.trusted, alone.notes) == (False, (Reason("https.no_issuer", name="CN=Below"),))


def test_what_browsers_do_not_trust_is_noted(authority: Authority) -> None:
    issued = authority.issue("a.example")
    whole = reading(Sent(authority.chain(issued) + authority.root.pem, issued.key)).certificate
    assert whole.notes == (Reason("https.not_trusted"),)
    own = authority.issue("a.example", itself=True, more=("basicConstraints=critical,CA:TRUE",))
    assert reading(Sent(own.pem, own.key)).certificate.notes == (Reason("https.self_signed"),)


def test_it_holds_from_its_first_day_to_the_first_end_in_its_chain(authority: Authority) -> None:
    long = authority.issue("a.example", days=3000)
    found = reading(Sent(authority.chain(long), long.key)).certificate
    now_s = time.time()
    assert found.not_after_s < now_s + 1826 * DAY_S
    assert found.untimely(now_s) is None
    early, late = found.untimely(now_s - DAY_S), found.untimely(now_s + 1826 * DAY_S)
    assert (early and early.code, late and late.code) == ("https.not_yet", "https.expired")


def with_key(
    authority: Authority, *names: str, more: tuple[str, ...] = (), kind: str = "ecdsa"
) -> Sent:
    issued = authority.issue(*names, more=more, kind=kind)
    return Sent(authority.chain(issued), issued.key)


def half(pem: bytes) -> bytes:
    return pem[: len(pem) // 2]


def changed(pem: bytes) -> bytes:
    """The same with a letter of its middle left out."""
    middle = len(pem) // 2
    return pem[:middle] + pem[middle + 1 :]


def pem(label: str, body: bytes = b"AAAA\n") -> bytes:
    return b"-----BEGIN %b-----\n%b-----END %b-----\n" % (label.encode(), body, label.encode())


def p12(authority: Authority) -> bytes:
    return authority.pkcs12(authority.issue("a.example"), "hush")


USE, OTHER_USE = "extendedKeyUsage=", "not_for_servers"
MANY = b"".join(pem("CERTIFICATE", b"AA%02d\n" % n) for n in range(17))
TABLE = {
    "nothing": (lambda a: Sent(), "not_pem"),
    "binary": (lambda a: Sent(bytes(range(256)) * 20), "not_pem"),
    "huge": (lambda a: Sent(b"-" * (x509.MOST_BYTES + 1)), "too_large"),
    "no key": (lambda a: Sent(a.root.pem), "no_key"),
    "only a key": (lambda a: Sent(key=a.root.key), "no_certificate"),
    "two keys": (lambda a: Sent(a.root.pem + a.root.key + a.below.key), "many_keys"),
    "another's key": (lambda a: Sent(a.issue("a.example").pem, a.root.key), "other_key"),
    "half a certificate": (lambda a: Sent(half(a.root.pem), a.root.key), "cut_off"),
    "half a key": (lambda a: Sent(a.root.pem, half(a.root.key)), "cut_off"),
    "changed": (lambda a: Sent(changed(a.root.pem), a.root.key), "cut_off"),
    "no ASN.1": (lambda a: Sent(pem("CERTIFICATE"), a.root.key), "bad_certificate"),
    "no key within": (lambda a: Sent(a.root.pem, pem("PRIVATE KEY")), "bad_key"),
    "no certificate": (lambda a: Sent(a.root.key + pem("X", b"")), "no_certificate"),
    "an ssh key": (lambda a: Sent(a.root.pem + pem("OPENSSH PRIVATE KEY", b"")), "key_kind"),
    "many": (lambda a: Sent(MANY, a.root.key), "many_certificates"),
    "encrypted": (lambda a: Sent(a.root.pem, encrypted(a.root, "hush")), "encrypted"),
    "wrong password": (
        lambda a: Sent(a.root.pem, encrypted(a.root, "hush"), password="no"),
        "password",
    ),
    "no password": (lambda a: Sent(pkcs12=p12(a)), "encrypted"),
    "p12's wrong password": (lambda a: Sent(pkcs12=p12(a), password="no"), "password"),
    "half a p12": (lambda a: Sent(pkcs12=half(p12(a)), password="hush"), "pkcs12"),
    "PEM as p12": (lambda a: Sent(pkcs12=a.root.pem + a.root.key), "pkcs12"),
    "weak": (lambda a: with_key(a, "a.example", kind="weak"), "weak_key"),
    "an unknown curve": (lambda a: with_key(a, "a.example", kind="koblitz"), "key_kind"),
    "no names": (with_key, "no_names"),
    "no name of a site": (lambda a: with_key(a, "a b", "*.*.example", "-x"), "no_names"),
    "for mail": (lambda a: with_key(a, "a.example", more=(f"{USE}emailProtection",)), OTHER_USE),
    "of an authority": (
        lambda a: with_key(a, "a.example", more=("basicConstraints=CA:TRUE",)),
        OTHER_USE,
    ),
    "must-staple": (
        lambda a: with_key(a, "a.example", more=("tlsfeature=status_request",)),
        "must_staple",
    ),
}


@pytest.mark.parametrize("case", TABLE)
def test_what_cannot_be_used_is_refused_with_words(authority: Authority, case: str) -> None:
    sent, code = TABLE[case]
    assert refused(sent(authority)).code == f"https.{code}"


def test_an_issuer_that_did_not_sign_it_is_said(authority: Authority, tmp_path: Path) -> None:
    issued = authority.issue("a.example")
    namesake = Authority(tmp_path).below
    assert refused(Sent(issued.pem + namesake.pem, issued.key)).code == "https.broken_chain"


def test_a_certificate_for_servers_may_say_so(authority: Authority) -> None:
    for use in ("serverAuth", "serverAuth,clientAuth", "anyExtendedKeyUsage"):
        sent = with_key(authority, "a.example", more=(f"{USE}{use}",))
        assert reading(sent).certificate.names == ("a.example",)


def test_what_would_reckon_for_hours_is_given_up(authority: Authority) -> None:
    """A file may ask for as many rounds of its password's digest as it likes."""
    issued = authority.issue("a.example")
    argv = ("pkcs8", "-topk8", "-in", issued.key_file, "-outform", "DER", "-iter", 65536)
    der = openssl(*argv, "-v2prf", "hmacWithSHA256", "-passout", "pass:hush")
    assert der.count(b"\x02\x03\x01\x00\x00") == 1
    slow = der.replace(b"\x02\x03\x01\x00\x00", b"\x02\x03\x7f\xff\xff")
    key = pem("ENCRYPTED PRIVATE KEY", openssl("base64", given=slow))
    begun_s = time.monotonic()
    said = refused(Sent(issued.pem, key, password="hush"), Openssl(timeout_s=0.5))
    assert said == Reason("https.openssl", why=Reason("driver.too_late"))
    assert time.monotonic() - begun_s < 5


def test_a_name_that_is_none_comes_no_further(authority: Authority) -> None:
    issued = authority.issue("one.example", "twoQQQQQQthree.example", itself=True)
    der = openssl("x509", "-in", issued.file, "-outform", "DER")
    assert b"QQQQQQ" in der
    for hostile in (b", DNS:", b"\n    \x1b", b'"\\#\r\n\t', b"\xff\xfe/../"):
        made = openssl("base64", given=der.replace(b"QQQQQQ", hostile))
        found = reading(Sent(pem("CERTIFICATE", made), issued.key)).certificate.names
        assert found[0] == "one.example", hostile
        assert all(is_site_name(name) is None for name in found), hostile


def test_nothing_is_left_behind_and_nobody_prints_a_key_by_accident(
    authority: Authority, tmp_path: Path
) -> None:
    issued = authority.issue("a.example")
    program = Openssl(tmp_path)
    sent = Sent(authority.chain(issued), issued.key, password="hush")
    shown = f"{sent!r} {reading(sent, program)!r}"
    refused(Sent(authority.chain(issued), half(issued.key)), program)
    assert list(tmp_path.iterdir()) == []
    assert "PRIVATE" not in shown
    assert "hush" not in shown


@given(st.binary(max_size=300), st.sampled_from([b"CERTIFICATE", b"PRIVATE KEY", b"\n"]))
@settings(max_examples=300)
def test_any_bytes_are_split_or_refused(data: bytes, label: bytes) -> None:
    framed = b"-----BEGIN " + label + b"-----" + data + b"-----END " + label + b"-----"
    for text in (data, framed, framed[:-3]):
        try:
            certificates, _ = x509.split(text)
        except CertificateError:
            continue
        assert all(b"BEGIN CERTIFICATE" in each for each in certificates)
