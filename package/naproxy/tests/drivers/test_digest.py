import pytest
from naproxy.drivers.digest import Digest
from naproxy.drivers.pinned import RefusedError

# RFC 7616, 3.9.1
RFC = (
    'Digest realm="http-auth@example.org", qop="auth, auth-int", algorithm=SHA-256,'
    ' nonce="7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v",'
    ' opaque="FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS"'
)
CNONCE = "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ"


def test_the_example_of_the_rfc() -> None:
    digest = Digest("Mufasa", "Circle of Life")
    digest.challenged(RFC)
    words = digest.header("GET", "/dir/index.html", CNONCE)["Authorization"]
    assert 'response="753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"' in words
    assert 'opaque="FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS"' in words
    assert "nc=00000001" in words


def test_a_challenge_that_cannot_be_met_is_refused_in_words() -> None:
    for challenge, words in (
        ("", "does not use digest"),
        ('Basic realm="x"', "does not use digest"),
        ("Digest", "does not use digest"),
        ("Digest nonsense", "does not use digest"),
        ('Digest realm="x", nonce="y"', "SHA-256"),
        (RFC.replace("SHA-256", "MD5"), "SHA-256"),
        (RFC.replace('"auth, auth-int"', '"auth-int"'), "the content"),
        (RFC.replace("7ypf", "7\x01pf"), "malformed"),
        (RFC.replace("7ypf", '7\\"pf'), "malformed"),
    ):
        with pytest.raises(RefusedError, match=words):
            Digest("admin", "secret").challenged(challenge)
