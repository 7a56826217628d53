"""Hostile requests: nothing of them comes back, and they break nothing."""

import re
from collections.abc import Iterator

import pytest
from conftest import Box, parse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

MARK = b"zq7mark"
OURS = {"refused", "waiting_page", "capped", "limit", "gone", "error"}

PAYLOADS = [
    b"<script>alert('zq7mark')</script>",
    b'"><img src=x onerror=zq7mark>',
    b"//zq7mark.example/%2e%2e",
    b"/\\zq7mark.example",
    b"/?next=http://zq7mark.example/",
    b"/zq7mark%0d%0aLocation:%20http://zq7mark.example/",
    b"/.naproxy/status?zq7mark",
    b"/.naproxy/zq7mark",
    b"/.naproxy/status/zq7mark",
    b"http://zq7mark.example/",
    b"javascript:zq7mark",
    b"\\1\\2zq7mark\\0",
    b"%s%n%zq7mark",
    b"${jndi:zq7mark}",
    b"zq7mark\xff\xc3\x28",
    b"zq7mark" * 500,
]
NAMES = [
    *(b"Host", b"Accept", b"Accept-Language", b"Accept-Encoding", b"Cookie", b"Referer", b"Range"),
    *(b"User-Agent", b"Authorization", b"X-Forwarded-For", b"X-Forwarded-Proto", b"Forwarded"),
    *(b"X-Naproxy", b"Upgrade", b"Connection", b"Expect", b"Content-Length", b"Via", b"Age"),
    *(b"Transfer-Encoding", b"If-None-Match", b"Cache-Control", b"X-zq7mark", b"Sec-Fetch-Mode"),
]
VALUES = [b"text/html", b"Mozilla/5.0", b"Googlebot", b"close", b"upgrade", b"websocket", b"_ga=1"]

# Bytes that end a line would only make another header; other control characters
# make Varnish refuse the request before our rules see it, so they are rare.
RARELY = {b"Host", b"Content-Length", b"Transfer-Encoding", b"Expect"}

printable = st.binary(max_size=40).map(lambda data: re.sub(rb"[\x00-\x1f\x7f]", b"~", data))
anything = st.binary(max_size=40).map(lambda data: re.sub(rb"[\r\n]", b"\0", data))


def values(noise: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    return st.one_of(
        st.sampled_from(PAYLOADS),
        st.sampled_from(VALUES),
        st.builds(lambda a, b, c: a + b + c, noise, st.sampled_from(PAYLOADS), noise),
        noise,
    )


def fields(wild: bool) -> st.SearchStrategy[list[tuple[bytes, bytes]]]:
    names = [name for name in NAMES if wild or name not in RARELY]
    noise = anything if wild else printable
    return st.lists(st.tuples(st.sampled_from(names), values(noise)), max_size=40)


urls = st.one_of(
    st.sampled_from([b"/", b"/zq7mark", b"/.naproxy/status", b"/.naproxy/zq7mark"]),
    values(printable).map(lambda value: b"/" + value.replace(b" ", b"")),
    values(anything),
)
methods = st.sampled_from([b"GET"] * 8 + [b"HEAD", b"POST", b"OPTIONS", b"PURGE", b"zq7mark"])


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    wild = draw(st.sampled_from([False, False, False, True]))
    lines = draw(fields(wild))
    if not wild or draw(st.booleans()):
        lines = [(b"Host", b"www.example.org"), *lines]
    if draw(st.booleans()):  # a plausible page load, spoilt by the rest
        lines = [(b"User-Agent", b"Mozilla/5.0 Firefox/128.0"), (b"Accept", b"text/html"), *lines]
    version = draw(st.sampled_from([b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.0"]))
    first = draw(methods) + b" " + draw(urls) + b" " + version
    return b"\r\n".join([first, *map(b": ".join, lines), b"Connection: close", b"", b""])


@pytest.fixture
def asleep(box: Box) -> Iterator[Box]:
    box.set("state=asleep", "hold_limit_ms=20")
    yield box
    assert "not panicked" in box.adm("panic.show")


@pytest.fixture
def awake(box: Box) -> Iterator[Box]:
    box.set("state=awake")
    yield box
    assert box.process.poll() is None
    assert "not panicked" in box.adm("panic.show")


hostile = settings(
    max_examples=600,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def check(answer: bytes) -> None:
    """Nothing reflected, no redirect, no error that is not ours."""
    assert MARK not in answer.lower()
    if not answer:
        return  # Varnish closed, because it was not HTTP
    status, headers, body = parse(answer)
    assert "location" not in headers
    assert re.fullmatch(r"\d+", headers.get("refresh", "0"))
    if status < 500:
        return
    assert status == 503, answer[:300]
    assert headers["x-naproxy"] in OURS, answer[:300]
    assert not re.search(rb"(?i)guru|xid|varnish", body)


@hostile
@given(request=requests())
def test_a_sleeping_server_s_pages_reflect_nothing(asleep: Box, request: bytes) -> None:
    check(asleep.raw(request))


def test_the_waiting_page_is_the_same_whatever_is_asked(asleep: Box) -> None:
    def page(url: str, **headers: str) -> bytes:
        status, answer, body = asleep.get(url, **headers)
        assert (status, answer["x-naproxy"]) == (503, "waiting_page")
        return re.sub(rb"<b>\d+</b>", b"", body)

    plain = page("/")
    for payload in PAYLOADS:
        text = payload.decode("latin-1").encode("ascii", "ignore").decode()
        assert page(f"/{text.replace(' ', '')}", Referer=text, Cookie=text) == plain


def test_the_status_path_repeats_nothing(asleep: Box) -> None:
    for payload in PAYLOADS:
        value = payload.decode("latin-1").encode("ascii", "ignore").decode()
        status, _, body = asleep.get(f"/.naproxy/status?{value.replace(' ', '')}", X=value)
        assert (status, MARK in body) == (200, False), payload


@hostile
@given(request=requests())
def test_hostile_requests_break_nothing_while_the_server_is_awake(
    awake: Box, request: bytes
) -> None:
    check(awake.raw(request))
