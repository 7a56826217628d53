"""What a website's answers allow the cache: by themselves, and after a polite look at some."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from naproxy.config import document as config
from naproxy.lab.estimate import cachemodel
from naproxy.setup import site as sites
from naproxy.setup.crawl import Bounds, Browser, NotAllowedError, Robots, crawl
from naproxy.setup.site import Answer, Site

HTML = ("content-type", "text/html; charset=utf-8")
HOSTS = ("www.office.example", "office.example")


def page(path: str, body: str = "", *headers: tuple[str, str], status: int = 200) -> Answer:
    return Answer(path, status, (HTML, *headers), body.encode())


def links(body: str, path: str = "/a/b.html") -> tuple[str, ...]:
    return sites.page_of(page(path, body), HOSTS).links


# Links


def test_only_addresses_of_the_website_itself_are_followed() -> None:
    body = """
    <a href="/one">1</a> <a href=two?x=1#part>2</a> <a href="http://OFFICE.example:80/three">
    <link rel=stylesheet href="/s.css?v=2"><img src="../i.png"><script src="//office.example/j.js">
    <a href="http://other.example/">no</a> <a href="http://192.168.1.1/">no</a>
    <a href="http://office.example:8443/">no</a> <a href="mailto:a@b">no</a>
    <a href="javascript:alert(1)">no</a> <a href="file:///etc/passwd">no</a>
    <a href="http://office.example@other.example/">no</a> <a href="//[">no</a>
    <a href="http://office.example:99999/">no</a>
    """
    assert links(body) == ("/one", "/a/two?x=1", "/three", "/s.css?v=2", "/i.png", "/j.js")


def test_what_changes_something_or_is_no_address_is_not_followed() -> None:
    for address in (
        *("/wp-login.php?action=logout", "/logout", "/konto/", "/cart/", "/?add-to-cart=7"),
        *("/wp-admin/", "/item?action=delete", "/abmelden", "/?s=word", "/" + "x" * 600),
        "/a\tb\x00",
    ):
        body = f'<a href="{address}">x</a><form action="/post"><a rel="nofollow" href="/n">'
        assert links(body) == (), address


def test_links_with_umlauts_or_spaces_are_asked_for_as_browsers_do() -> None:
    for href, asked in (
        ("/a b", "/a%20b"),
        ("/Über uns/", "/%C3%9Cber%20uns/"),
        ("/%C3%9Cber%20uns", "/%C3%9Cber%20uns"),
        ("/büro?raum=zwölf&x=[1]", "/b%C3%BCro?raum=zw%C3%B6lf&x=[1]"),
        ("größe.html", "/a/gr%C3%B6%C3%9Fe.html"),
        ('/a"b<c>', "/a%22b%3Cc%3E"),
    ):
        assert links(f"<a href='{href}'>x</a>") == (asked,), href
    body = '<a href="http://büro.example/ä"><a href="http://xn--bro-hoa.example/b">'
    page = Answer("/", 200, (HTML,), body.encode())
    assert sites.page_of(page, ("xn--bro-hoa.example",)).links == ("/%C3%A4", "/b")


def test_a_page_s_links_are_read_in_the_encoding_of_the_page() -> None:
    link = '<a href="/Büro">x</a>'
    latin = (("content-type", "text/html; charset=ISO-8859-1"),)
    plain = (("content-type", "text/html"),)
    for answer in (
        Answer("/", 200, latin, link.encode("latin-1")),
        Answer("/", 200, plain, f'<meta charset="windows-1252">{link}'.encode("cp1252")),
        Answer("/", 200, plain, link.encode("cp1252")),
        Answer("/", 200, plain, link.encode("utf-8-sig")),
        Answer("/", 200, (("content-type", "text/html; charset=klingon"),), link.encode()),
    ):
        assert sites.page_of(answer, HOSTS).links == ("/B%C3%BCro",), answer


def test_a_redirect_to_an_address_with_umlauts_is_followed() -> None:
    for there in ("/Büro".encode().decode("latin-1"), "/B%C3%BCro"):
        answer = Answer("/", 302, (("location", there),))
        assert sites.redirect_of(answer, HOSTS) == "/B%C3%BCro"


def test_an_address_does_not_begin_a_new_line_of_the_request() -> None:
    assert links('<a href="/a&#13;&#10;Host:x">x</a>') == ("/aHost:x",)


def test_a_page_that_would_be_read_for_ever_is_read_in_part() -> None:
    many = "".join(f'<a href="/{n}">' for n in range(5000))
    assert len(links(many)) == sites.MOST_LINKS
    for body in ("<!" * 20_000, "<![CDATA[", "<a href='" * 10_000, "\x00\xff" * 1000, "<![x"):
        assert isinstance(links(body), tuple)


def test_a_base_that_is_elsewhere_leads_nowhere() -> None:
    assert links('<base href="http://other.example/"><a href="x">') == ()
    assert links('<base href="/sub/"><a href="x">') == ("/sub/x",)


def test_a_redirect_is_followed_on_the_website_only() -> None:
    for place, path in (
        ("https://www.office.example/start", "/start"),
        ("start?x=1", "/start?x=1"),
        *((elsewhere, "") for elsewhere in ("http://192.168.1.1/", "//other.example/", "", "//[")),
    ):
        answer = Answer("/", 301, (("location", place),))
        assert sites.redirect_of(answer, HOSTS) == path, place


# What an answer allows


def test_how_long_an_answer_is_good() -> None:
    for headers, fresh_s in (
        ({}, None),
        ({"cache-control": "max-age=60, public"}, 60),
        ({"cache-control": "max-age=60, s-maxage=3600"}, 3600),
        ({"cache-control": "max-age=60", "cdn-cache-control": "max-age=7"}, 7),
        ({"cache-control": "max-age=abc, max-stale"}, None),
        ({"cache-control": f"max-age={'9' * 5000}"}, 999999999999),
        ({"expires": "0"}, 0),
        (
            {"expires": "Wed, 21 Oct 2015 07:28:00 GMT", "date": "Wed, 21 Oct 2015 07:18:00 GMT"},
            600,
        ),
        ({"expires": "Wed, 21 Oct 2015 07:28:00 GMT", "date": "yesterday"}, 0),
    ):
        assert sites.fresh_s(Answer("/", 200, tuple(headers.items()))) == fresh_s, headers


def test_what_could_be_answered_asleep() -> None:
    for path, header, default, frozen, aggressive in (
        ("/", "", False, False, True),
        ("/a.css", "", False, True, True),
        ("/a.css", "max-age=0", False, False, False),
        ("/a.css", "max-age=60, must-revalidate", False, False, False),
        ("/a.css", "s-maxage=60", False, False, False),
        ("/a.css", "s-maxage=60, stale-while-revalidate=5", False, True, True),
        ("/a.css", "private, max-age=99999", False, False, False),
        ("/", "max-age=86400", True, True, True),
        ("/", "no-store", False, False, False),
    ):
        answer = Answer(path, 200, (("cache-control", header),) if header else ())
        found = [sites.asleep(answer, mode, 3600) for mode in ("default", "frozen", "aggressive")]
        assert found == [default, frozen, aggressive], path


def test_what_the_office_allows_is_no_longer_good_than_the_server_says() -> None:
    assert sites.asleep(page("/"), "frozen", 0, allowed=True)
    for name, value in (
        ("set-cookie", "a=1"),
        ("vary", "Accept, *"),
        ("cache-control", "private"),
        ("cache-control", "max-age=1, must-revalidate"),
        ("www-authenticate", "Basic"),
    ):
        assert not sites.asleep(page("/", "", (name, value)), "frozen", 0, allowed=True)
    assert not sites.asleep(page("/", status=500), "frozen", 0, allowed=True)


def test_what_a_file_is_the_estimate_says_too() -> None:
    assert sites._FILES == cachemodel._STATIC
    assert sites.is_file("/a/b.PNG?v=1")
    assert not any(map(sites.is_file, ("/", "/a.b/c", "/index.php", "/png")))


# What it is made with


def test_what_a_website_is_made_with_is_seen_by_its_signs() -> None:
    for answer, name in (
        (page("/", '<meta name="generator" content="WordPress 6.4">'), "wordpress"),
        (
            page("/", '<img src="/wp-content/a.png">', ("link", '<x>; rel="https://api.w.org/"')),
            "wordpress",
        ),
        (page("/", '<meta name=generator content="Joomla! - Open Source">'), "joomla"),
        (page("/", "", ("x-generator", "Drupal 10 (https://www.drupal.org)")), "drupal"),
        (page("/", '<meta name="generator" content="TYPO3 CMS">'), "typo3"),
        (page("/", "", ("set-cookie", "nc_sameSiteCookielax=true; path=/")), "nextcloud"),
        (page("/", '<a href="/webman/x">SYNO.SDS</a>'), "synology"),
        (page("/", "<p>We sell WordPress themes"), ""),
        (page("/", '<a href="/fileadmin/x.pdf">'), ""),
        (page("/", '<a href="/fileadmin/x.pdf"><a href="/wp-content/x">'), ""),
    ):
        site = Site(HOSTS)
        site.take(answer)
        assert sites.made_with(site.marks) == name, answer


# The look itself


Pages = dict[str, Answer | Callable[[], Answer]]


def look(pages: Pages, bounds: Bounds | None = None) -> tuple[Site, list[str]]:
    """Look at a website that is made of these; return what was asked for, too."""
    site, asked = Site(HOSTS), []
    clock = {"now": 0.0}

    async def get(path: str) -> Answer | None:
        asked.append(path)
        clock["now"] += 0.01
        found = pages.get(path, Answer(path, 404, ()))
        return found() if callable(found) else found

    async def pause(seconds: float) -> None:
        clock["now"] += seconds

    asyncio.run(crawl(get, site, bounds or Bounds(), lambda: clock["now"], pause))
    return site, asked


SITE: Pages = {
    "/": page(
        "/", '<a href="/news/1"><a href="/news/2"><a href="/me"><img src="/i.png"><a href="/gone">'
    ),
    "/news/1": page("/news/1", "one"),
    "/news/2": page("/news/2", "two"),
    "/me": page("/me", "", ("set-cookie", "PHPSESSID=secret"), ("vary", "Cookie, Accept-Encoding")),
    "/i.png": Answer(
        "/i.png", 200, (("content-type", "image/png"), ("cache-control", "max-age=99999"))
    ),
}


def test_a_look_counts_and_proposes() -> None:
    site, asked = look(SITE)
    found = sites.report(site, 3600)
    assert asked[0] == "/robots.txt"
    assert (asked.count("/news/1"), asked.count("/i.png")) == (2, 1)
    assert found["found"] == {"pages": 5, "files": 1}
    assert found["asked"] == {"pages": 4, "files": 1}
    assert found["errors"] == 1
    assert found["cookies"] == [{"name": "PHPSESSID", "pages": 1}]
    assert found["vary"] == ["cookie"]
    assert "secret" not in str(found)
    shares: dict[str, float] = found["asleep"]
    assert shares["default"] == shares["frozen"] == pytest.approx(1 / 6)
    assert shares["allowed"] == pytest.approx((1 + 5 * 2 / 4) / 6)
    assert shares["aggressive"] == pytest.approx((1 + 5 * 3 / 4) / 6)
    assert found["rules"] == [{"path": "/news/", "pages": 2}]


def test_all_pages_are_proposed_at_once_only_if_none_is_against_it() -> None:
    fit = {path: answer for path, answer in SITE.items() if path != "/me"}
    assert sites.proposed(look(fit)[0]) == [{"path": "/", "pages": 3}]


def test_a_page_that_differs_for_the_next_stranger_is_not_proposed() -> None:
    token = iter(range(100))
    pages = {**SITE, "/news/2": lambda: page("/news/2", f"token {next(token)}")}
    assert sites.proposed(look(pages)[0]) == []


def test_a_proposed_part_does_not_reach_into_another() -> None:
    pages: Pages = {
        "/": page("/", '<a href="/me"><a href="/media">'),
        "/me": page("/me"),
        "/media": page("/media", "", ("vary", "Cookie")),
    }
    assert sites.proposed(look(pages)[0]) == []


def test_an_endless_website_is_looked_at_in_part() -> None:
    class Endless(dict[str, Any]):
        def get(self, path: str, default: Any = None) -> Any:
            if path == "/robots.txt":
                return default
            more = "".join(f'<a href="{path}{n}/"><img src="{path}{n}.png">' for n in range(400))
            return page(path, more)

    site, asked = look(Endless())
    assert len(asked) == 1 + 2 * Bounds().pages + Bounds().files
    assert len(site.found) < 2 * Bounds().pages * 800


def test_loops_end_and_what_does_not_answer_is_nothing() -> None:
    loop: Pages = {"/": Answer("/", 302, (("location", "/"),))}
    site, asked = look(loop)
    assert asked == ["/robots.txt", "/"]
    assert sites.report(site, 0)["asleep"]["frozen"] is None
    silent: Any = {"/": None}
    assert look(silent)[1] == ["/robots.txt", "/"]


def robots(text: str) -> Answer:
    return Answer("/robots.txt", 200, (("content-type", "text/plain"),), text.encode())


def test_robots_are_heeded() -> None:
    rules = robots("User-agent: *\nDisallow: /news/\nCrawl-delay: 7\n")
    _, asked = look({**SITE, "/robots.txt": rules})
    assert not any(path.startswith("/news/") for path in asked)
    assert len(asked) <= 4  # in twenty seconds
    for answer in (robots("User-agent: *\nDisallow: /"), Answer("/robots.txt", 503, ())):
        with pytest.raises(NotAllowedError):
            look({**SITE, "/robots.txt": answer})
    with pytest.raises(NotAllowedError):
        look({**SITE, "/robots.txt": robots("User-agent: *\nDisallow: http://[")})
    assert not Robots(None).allow("/")
    assert not Robots(robots("User-agent: *\nDisallow: /x\n")).allow("//[")


def test_rules_are_read_as_rfc_9309_has_them() -> None:
    private = "Disallow: /private/\n"
    for text, allowed in (
        (f"User-agent: *\nAllow: /\n{private}", False),
        (f"User-agent: *\n\n{private}", False),
        (f"\ufeffUser-agent: *\n{private}", False),
        (f"User-agent: *\r{private}".replace("\n", "\r"), False),
        ("user-AGENT : *  # all\n  disallow:/private/", False),
        ("User-agent: *\nDisallow: /*/x", False),
        ("User-agent: *\nDisallow: /priv*$", False),
        ("User-agent: *\nDisallow: /private/$", True),
        ("User-agent: *\nDisallow: /PRIVATE/", True),
        ("User-agent: *\nDisallow: https://www.office.example/private/", False),
        (f"User-agent: *\n{private}Allow: /private/x", True),
        (f"User-agent: *\n{private}Allow: /private/x$", True),
        (f"User-agent: other\nUser-agent: Naproxy/1.0\n{private}", False),
        (f"User-agent: other\n{private}\nUser-agent: *\nDisallow: /y", True),
        (f"User-agent: naproxy\nDisallow: /y\n\nUser-agent: *\n{private}", True),
        (f"User-agent: naproxy\nDisallow: /y\n\nUser-agent: NAPROXY\n{private}", False),
        (f"User-agent: na\nAllow: /\n\nUser-agent: *\n{private}", False),
        (f"User-agent: naproxy-images\nAllow: /\n\nUser-agent: *\n{private}", False),
        (f"User-agent: *\nSitemap: /s.xml\n{private}", False),
        ("User-agent: *\n" + "# filled up\n" * 9000 + private, False),
        ("User-agent: *\nDisallow:", True),
        ("<!doctype html><title>Not found</title>", True),
    ):
        assert Robots(robots(text)).allow("/private/x") is allowed, text[:80]
    utf_16 = Answer("/robots.txt", 200, (), f"User-agent: *\n{private}".encode("utf-16"))
    assert not Robots(utf_16).allow("/private/x")
    umlauts = Robots(robots("User-agent: *\nDisallow: /büro\nDisallow: /%c3%a4"))
    assert not umlauts.allow("/b%C3%BCro/")
    assert not umlauts.allow("/%C3%A4")


def test_redirects_of_robots_txt_are_followed_within_the_website() -> None:
    rules = Answer("/r", 200, (("content-type", "text/plain"),), b"User-agent: *\nDisallow: /news/")
    hop = Answer("/robots.txt", 301, (("location", "http://www.office.example/r"),))
    _, asked = look({**SITE, "/robots.txt": hop, "/r": rules})
    assert asked[:2] == ["/robots.txt", "/r"]
    assert not any(path.startswith("/news/") for path in asked)
    loop = Answer("/robots.txt", 302, (("location", "/robots.txt"),))
    away = Answer("/robots.txt", 302, (("location", "http://other.example/robots.txt"),))
    assert look({**SITE, "/robots.txt": loop})[1].count("/robots.txt") == 6
    assert look({**SITE, "/robots.txt": away})[1][:2] == ["/robots.txt", "/"]


# Over the wire


def server(port: int) -> config.Server:
    text = f'[[server]]\nid = "web"\naddress = "127.0.0.1"\nport = {port}\n'
    text += 'mac = "02:00:00:00:00:01"\nhosts = ["*.office.example", "www.office.example"]\n'
    return config.parse(text).server[0]


def over_the_wire(said: bytes, path: str = "/", bounds: Bounds | None = None) -> tuple[Any, bytes]:
    """Ask a server that answers so to everything; return the answer, and what it was asked."""
    heard = bytearray()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.extend(await reader.readuntil(b"\r\n\r\n"))
        writer.write(said)
        writer.close()

    async def story() -> Any:
        listening = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with listening:
            port = listening.sockets[0].getsockname()[1]
            return await Browser(server(port), bounds or Bounds()).get(path)

    return asyncio.run(story()), bytes(heard)


def test_the_server_itself_is_asked_by_its_name() -> None:
    head = (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nSet-Cookie: a=1\r\nset-cookie: b=2\r\n\r\n"
    )
    answer, heard = over_the_wire(head + b"<p>hello")
    assert heard.startswith(b"GET / HTTP/1.1\r\nHost: www.office.example\r\n")
    assert b"\r\nX-Forwarded-Proto: http\r\n" in heard
    assert b"Cookie" not in heard
    assert (answer.status, answer.body) == (200, b"<p>hello")
    assert sites.cookies_of(answer) == ["a", "b"]


def test_what_is_no_answer_is_none() -> None:
    long = b"HTTP/1.1 200 OK\r\n" + b"X: " + b"x" * 70_000 + b"\r\n\r\n"
    for said in (
        *(b"", b"220 mail ESMTP\r\n\r\n", b"HTTP/1.1 abc OK\r\n\r\n", b"HTTP/1.1 2000\r\n\r\n"),
        *(long, b"HTTP/1.1 200 OK\r\nX: 1"),
    ):
        assert over_the_wire(said)[0] is None, said[:50]


def test_of_a_large_page_only_the_beginning_is_read() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
    answer, _ = over_the_wire(head + b"x" * 300_000, bounds=Bounds(body_bytes=1000))
    assert len(answer.body) == 1000
    rules = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n" + b"#" * 600_000
    answer, _ = over_the_wire(rules, path="/robots.txt", bounds=Bounds(body_bytes=1000))
    assert len(answer.body) == 500 << 10
    picture = b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n\r\n" + b"x" * 100_000
    assert over_the_wire(picture)[0].body == b""


def test_chunks_are_put_together_as_far_as_they_are_good() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n"
    for body, text in (
        (b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n", b"abcde"),
        (b"3\r\nabc\r\nzz\r\nde\r\n", b"abc"),
        (b"ffffffffffff\r\nabc", b"abc"),
        (b"-1\r\nabc", b""),
        (b"no chunk", b""),
    ):
        assert over_the_wire(head + body)[0].body == text
