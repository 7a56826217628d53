"""Names of websites."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from naproxy.core.names import ascii_name, ascii_site, covers, is_site_name
from naproxy.core.reason import WrongError


def test_a_name_is_asked_for_in_a_labels() -> None:
    for written, asked in (
        ("www.example.org", "www.example.org"),
        ("WWW.Example.ORG.", "www.example.org"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("bu\u0308cher.example", "xn--bcher-kva.example"),
        ("faß.de", "xn--fa-hia.de"),
        ("βόλος.com", "xn--nxasmm1c.com"),
        ("例え.テスト", "xn--r8jz45g.xn--zckzah"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("a_b.example", "a_b.example"),
        (f"{'a' * 63}.{'b' * 63}.{'c' * 63}.{'d' * 61}", None),
    ):
        assert ascii_name(written) == (asked or written), written
        assert ascii_name(ascii_name(written)) == ascii_name(written), written


@pytest.mark.parametrize(
    "hostile",
    [
        *("", ".", "a..b", "-a", "a-", "a b", "a:80", "*.*.example", "a.*", "*", "*.", "x" * 64),
        f"{'a' * 63}.{'b' * 63}.{'c' * 63}.{'d' * 62}",
        "ü" * 60,
        "\u0308a.example",  # begins with a mark
        "\uff45xample.org",  # looks like another name
        "a\u200db.example",  # joined by nothing that one sees
        "a\u3002b",
        "☃.example",
        "aü--b\n.example",
        "ab--ü.example",
        'a"b.example',
        "a\\b.example",
        "a#b.example",
        "a/b",
    ],
)
def test_what_is_no_name_is_refused(hostile: str) -> None:
    assert is_site_name(hostile) is not None
    with pytest.raises(WrongError):
        ascii_name(hostile)


def test_a_site_is_in_lower_case_and_may_be_all_names_below_one() -> None:
    assert is_site_name("WWW.example.org") is not None
    assert is_site_name("*.bücher.example") is None
    assert ascii_site("*.bücher.example") == "*.xn--bcher-kva.example"


@given(st.text(max_size=80))
def test_what_is_taken_is_safe_in_any_file(text: str) -> None:
    try:
        name = ascii_name(text)
    except WrongError:
        return
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-_.")
    assert ascii_name(name) == name


def test_a_star_stands_for_one_label() -> None:
    for site, name, is_its in (
        ("a.example", "a.example", True),
        ("*.example", "a.example", True),
        ("*.example", "*.example", True),
        ("*.example", "example", False),
        ("*.example", "b.a.example", False),
        ("a.example", "b.example", False),
        ("xample", "example", False),
    ):
        assert covers(site, name) is is_its, site
