"""What of a page must be the same for every visitor."""

import time
from typing import Any

import pytest
from naproxy.policy.sameness import Answer, copy_of, without_nonces

T_S = 1_700_000_000.0
HTML = ("content-type", "text/html; charset=utf-8")


def answer(body: str = "<h1>Hours</h1>", *headers: tuple[str, str], **changes: Any) -> Answer:
    given: dict[str, Any] = {"status": 200, "headers": (HTML, *headers), **changes}
    return Answer(T_S, given["status"], given["headers"], body.encode(), given.get("whole", True))


def same(one: str, other: str) -> bool:
    first, second = copy_of(answer(one)), copy_of(answer(other))
    assert not first.why_not
    return first == second


@pytest.mark.parametrize(
    ("headers", "why_not"),
    [
        ((), ""),
        ((("cache-control", "max-age=60"), ("vary", "Accept-Encoding")), ""),
        ((("vary", "accept-encoding, X-Forwarded-Proto"),), ""),
        ((("set-cookie", "a=b"),), "personal"),
        ((("cache-control", "max-age=60"), ("cache-control", "Private")), "personal"),
        ((("cache-control", 'no-cache="a"'),), "personal"),
        ((("cdn-cache-control", "no-store"),), "personal"),
        ((("pragma", "no-cache"),), "personal"),
        ((("vary", "Accept-Encoding, Cookie"),), ""),
        ((("vary", "Cookie"), ("vary", "Authorization")), ""),
        ((("vary", "Cookie"), ("set-cookie", "a=b")), "personal"),
        ((("vary", "Cookie"), ("cache-control", "private, must-revalidate")), "personal"),
        ((("vary", "Cookie, Accept-Language"),), "varies"),
        ((("vary", "X-Cookie"),), "varies"),
        ((("vary", "User-Agent"),), "varies"),
        ((("vary", "accept"),), "varies"),
        ((("vary", "*"),), "varies"),
        ((("cache-control", "max-age=0, must-revalidate"),), "forbidden"),
        ((("cache-control", "s-maxage=600"),), "forbidden"),
        ((("cache-control", "s-maxage=600, stale-while-revalidate=5"),), ""),
    ],
)
def test_headers_say_whether_a_page_may_be_for_everybody(
    headers: tuple[tuple[str, str], ...], why_not: str
) -> None:
    assert copy_of(answer("text", *headers)).why_not == why_not


def test_only_whole_pages_with_status_200_count() -> None:
    json = (("content-type", "application/json"),)
    assert copy_of(answer(status=404)).why_not == "status"
    assert copy_of(answer(headers=json)).why_not == "not_page"
    assert copy_of(answer(whole=False)).why_not == "large"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('<script defer nonce="abc">x</script>', '<script defer nonce="xyz">x</script>'),
        ("<style nonce='abc'>", "<style nonce='xyz9'>"),
        (
            "<p>a<!-- \nNewPP limit report\nCached time: 1 CPU time usage: 0.01 seconds\n-->",
            "<p>a<!-- \nNewPP limit report\nCached time: 2 CPU time usage: 0.02 seconds\n-->",
        ),
        ("a<!-- Page generated in 0.21 seconds -->", "a<!-- Page generated in 0.3 seconds -->"),
        (
            '{"wgRequestId":"06bd","wgBackendResponseTime":71}',
            '{"wgRequestId":"ffff","wgBackendResponseTime":92}',
        ),
    ],
)
def test_known_nonces_are_no_difference(one: str, other: str) -> None:
    assert same(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("<p>Hello Ada", "<p>Hello Bob"),
        ("<!-- user 1 -->", "<!-- user 2 -->"),
        ('<p nonce="a">', '<p nonce="b">'),
        ("<!-- Page generated in 1 s --> Ada", "<!-- Page generated in 1 s --> Bob"),
        ("a<!-- Page generated in 1 s Ada", "a<!-- Page generated in 1 s Bob"),
    ],
)
def test_anything_else_is_a_difference(one: str, other: str) -> None:
    assert not same(one, other)


def test_the_language_that_a_page_says_it_has_counts() -> None:
    german, english = (copy_of(answer("x", ("content-language", code))) for code in ("de", "en"))
    assert german != english


@pytest.mark.parametrize(
    "body",
    [
        '<input type="hidden" name="_csrf" value="1">',
        "<input type=hidden name=wpLoginToken value='abc+\\'>",
        '<input value="9f86d081884c7d65" name="x" type="hidden" />',
        '<input type="hidden" name="d41d8cd98f00b204e9800998ecf8427e" value="1">',
        '<INPUT TYPE="hidden" NAME="creation_time" VALUE="1700000000">',
        f'<input type="hidden" name="__VIEWSTATE" value="{"x" * 9000}">',
        '<meta name="csrf-token" content="abc">',
        '<head data-requesttoken="abc:def">',
        '<body data-rest-nonce="ab12cd34">',
        '<script>var shop = {"nonce":"ab12cd34ef"};</script>',
        "<script>window.csrfToken = 'ab12cd34ef'</script>",
        '<a href="/viewforum.php?f=2&amp;sid=0123456789abcdef">',
    ],
)
def test_a_page_with_a_token_is_for_nobody_else(body: str) -> None:
    assert copy_of(answer(f"<html>{body}</html>")).why_not == "token"


@pytest.mark.parametrize(
    "body",
    [
        '<form action="/" method="get"><input type="search" name="s"></form>',
        '<input type="hidden" name="comment_post_ID" value="12">',
        '<input type="hidden" name="title" value="Special:Search">',
        '<input type="hidden" name="csrf" value="">',
        '<script nonce="ab12cd34ef">x</script>',
        '{"wgCSPNonce":false,"user.tokens":{"csrfToken":"+\\\\"}}',
        '<meta name="generator" content="0123456789abcdef">',
    ],
)
def test_a_form_without_a_token_is_no_hindrance(body: str) -> None:
    assert not copy_of(answer(body)).why_not


def test_last_modified_counts_by_the_boxs_clock() -> None:
    dates = ("Tue, 14 Nov 2023 12:00:00 GMT", "Tue, 14 Nov 2023 12:10:00 GMT")
    now = ("date", dates[1])
    assert copy_of(answer("x", ("last-modified", dates[0]), now)).modified_s == T_S - 600
    assert copy_of(answer("x", ("last-modified", dates[1]), now)).modified_s is None
    assert copy_of(answer("x", ("last-modified", "x"), now)).modified_s is None
    assert copy_of(answer("x")).modified_s is None


@pytest.mark.parametrize(
    "piece",
    ["<!--", "<script ", "<input ", "<!-- page generated in 1", "nonce", "a=", "<input a", "A1a"],
)
def test_a_hostile_page_is_read_in_little_time(piece: str) -> None:
    begun_s = time.process_time()
    copy_of(answer(piece * (1_000_000 // len(piece))))
    without_nonces(piece.encode() * (1_000_000 // len(piece)))
    assert time.process_time() - begun_s < 3
