import ctypes
import json
import socket
from typing import Any

import pytest
from naproxy.config import document as config
from naproxy.controller import slots
from naproxy.core import page_h
from naproxy.core.state import Klass
from naproxy.shm import page
from problems import problems

SERVER = """
[[server]]
id = "{id}"
address = "{address}"
mac = "02:00:00:00:00:01"
hosts = {hosts}
port = 8080
waiting_page = false
wake_classes = ["person", "api"]
first_byte_timeout_s = 33
[[server.wake]]
[[server.wake]]
driver = "udp"
address = "192.0.2.255"
ports = [7, 9]
[server.cache]
mode = "aggressive"
[server.hold]
limit_s = 12.5
[server.promise]
delta_s = 1.5
"""


def loaded(
    *ids: str, address: str = "192.0.2.10", hosts: str = '["a.example"]', extra: str = ""
) -> config.Config:
    servers = [
        SERVER.format(id=name, address=address, hosts=hosts if n == 0 else "[]")
        for n, name in enumerate(ids)
    ]
    return config.parse("".join(servers) + extra)


def write(shared: page.Page, wanted: config.Config) -> dict[str, int]:
    found = slots.assign(shared, wanted.server)
    slots.write_names(shared, wanted.server, found)
    for server in wanted.server:
        slots.write_server(
            shared,
            found[server.id],
            server,
            "lo",
            default=server.id == "web",
            wake_expect_s=4.2,
            hold_s=12.5,
        )
    slots.write_box(shared, wanted, found)
    return found


def test_a_servers_record_says_what_its_configuration_says(shared: page.Page) -> None:
    write(shared, loaded("web"))
    record: Any = shared.server(0)
    assert record.id == b"web"
    assert record.flags == (
        page_h.F_AGGRESSIVE | page_h.F_FROZEN | page_h.F_WOL | page_h.F_DEFER | page_h.F_DEFAULT
    )
    assert (record.family, record.port, bytes(record.address)) == (
        4,
        8080,
        bytes([192, 0, 2, 10]) + bytes(12),
    )
    assert bytes(record.mac) == b"\x02\0\0\0\0\x01"
    assert (bytes(record.wol_address)[:4], record.wol_port) == (bytes([192, 0, 2, 255]), 7)
    assert record.wakes_mask == 1 << Klass.PERSON | 1 << Klass.API
    assert record.wake_expect_ms == 4200
    assert (record.hold_cap, record.hold_limit_ms) == (510, 12500)
    assert (record.release_batch, record.release_ms) == (20, 10)
    assert (record.crawler_retry_s, record.grace_s, record.delta_ms) == (3600, 3600, 1500)
    assert (record.connect_timeout_ms, record.first_byte_timeout_ms) == (10000, 33000)
    assert record.reach_ms == 2000
    assert record.seq % 2 == 0


def test_varnish_sends_to_the_wires_own_address_where_the_box_sends_to_everybody(
    shared: page.Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots, "broadcast_of", {"lo": "192.0.2.255", "v0": "198.51.100.255"}.get)
    for way, sent in (
        ('driver = "etherwake"', "192.0.2.255"),
        ('driver = "udp"', "192.0.2.255"),
        ('driver = "udp"\naddress = "255.255.255.255"', "192.0.2.255"),
        ('driver = "udp"\naddress = "255.255.255.255"\ninterface = "v0"', "198.51.100.255"),
        ('driver = "udp"\naddress = "203.0.113.255"', "203.0.113.255"),
    ):
        least = 'id = "web"\naddress = "192.0.2.10"\nmac = "02:00:00:00:00:01"\n'
        write(shared, config.parse(f"[[server]]\n{least}[[server.wake]]\n{way}\n"))
        assert bytes(shared.server(0).wol_address)[:4] == socket.inet_aton(sent), way


HTTPS = '[server.https]\nmode = "box"\nredirect = {}\n'


def test_visitors_are_sent_to_https_while_all_names_are_served_there(shared: page.Page) -> None:
    two, both = '["one.example", "a.two.example"]', {"one.example", "*.two.example"}
    nothing: set[str] = set()
    for hosts, redirect, served, sent in (
        (two, "true", both, True),
        (two, "true", {"one.example"}, False),
        (two, "true", nothing, False),
        (two, "false", both, False),
        ("[]", "true", nothing, False),
        ("[]", "true", {"one.example"}, True),
    ):
        [server] = loaded("web", hosts=hosts, extra=HTTPS.format(redirect)).server
        for before in (0, page_h.F_HTTPS_ONLY):
            shared.server(0).flags = page_h.F_WAITING_PAGE | before
            slots.write_redirect(shared, 0, server, served)
            wanted = page_h.F_WAITING_PAGE | (page_h.F_HTTPS_ONLY if sent else 0)
            assert shared.server(0).flags == wanted, (hosts, redirect, served)


def test_a_new_configuration_does_not_end_the_way_to_https(shared: page.Page) -> None:
    wanted = loaded("web", extra=HTTPS.format("true"))
    write(shared, wanted)
    slots.write_redirect(shared, 0, wanted.server[0], {"a.example"})
    write(shared, wanted)
    assert shared.server(0).flags & page_h.F_HTTPS_ONLY


def test_private_headers_are_told_by_their_hashes_whatever_their_case(shared: page.Page) -> None:
    text = SERVER.format(id="web", address="192.0.2.10", hosts='["a.example"]')
    named = text.replace(
        'mode = "aggressive"',
        'mode = "aggressive"\ncookies = ["a"]\nprivate_headers = ["X-Employee"]',
    )
    write(shared, config.parse(named))
    assert list(shared.server(0).cookie)[:3] == [page.fnv(b"a"), page.fnv(b";x-employee"), 0]


def test_harmless_cookies_are_told_by_their_hashes(shared: page.Page) -> None:
    text = SERVER.format(id="web", address="192.0.2.10", hosts='["a.example"]')
    named = text.replace("[server.hold]", 'cookies = ["a", "pll_*"]\n[server.hold]')
    write(shared, config.parse(named))
    assert list(shared.server(0).cookie)[:3] == [0xAF63DC4C8601EC8C, page.fnv(b"pll_*"), 0]
    write(shared, config.parse(text))
    assert not any(shared.server(0).cookie)


def test_an_ipv6_address_has_sixteen_bytes(shared: page.Page) -> None:
    write(shared, loaded("web", address="2001:db8::1"))
    assert shared.server(0).family == 6
    assert bytes(shared.server(0).address).hex() == "20010db8000000000000000000000001"


def names(shared: page.Page) -> list[tuple[int, int, bytes]]:
    return [(n.server, n.flags, n.name) for n in shared.layout.names if n.name]


def test_names_are_written_as_requests_have_them(shared: page.Page) -> None:
    write(shared, loaded("shop", "web", hosts='["faß.de", "*.example.org"]'))
    assert names(shared) == [(0, 0, b"xn--fa-hia.de"), (0, page_h.N_BELOW, b"example.org")]
    assert shared.layout.names_seq % 2 == 0


def test_every_server_may_have_all_its_names(shared: page.Page) -> None:
    label = "a" * 62
    hosts = [
        [f"{label}.{label}.{label}.{server}{n:03}.{'b' * 59}" for n in range(config.SITES)]
        for server in range(page_h.SERVERS)
    ]
    assert len(hosts[0][0]) == 253
    servers = [
        SERVER.format(id=f"s{n}", address="192.0.2.10", hosts=json.dumps(each))
        for n, each in enumerate(hosts)
    ]
    found = write(shared, config.parse("".join(servers)))
    assert found == {f"s{n}": n for n in range(page_h.SERVERS)}
    wanted = [(n, 0, host.encode()) for n, each in enumerate(hosts) for host in each]
    assert names(shared) == wanted


def test_names_are_the_new_ones_before_a_slot_has_its_new_server(shared: page.Page) -> None:
    write(shared, loaded("web"))
    wanted = loaded("shop", hosts="[]")
    found = slots.assign(shared, wanted.server)
    assert (found, shared.server(0).id) == ({"shop": 0}, b"")
    slots.write_names(shared, wanted.server, found)
    assert (names(shared), shared.server(0).id) == ([], b"")


def test_challenges_are_those_of_now(shared: page.Page) -> None:
    slots.write_challenges(shared, {"one": "one.print", "two": "two.print"})
    slots.write_challenges(shared, {"two": "two.print"})
    kept = [(each.token, each.answer) for each in shared.layout.challenge if each.token]
    assert kept == [(b"two", b"two.print")]


def test_challenges_that_varnish_would_not_take_are_refused(shared: page.Page) -> None:
    write(shared, loaded("web"))
    for answers in (
        *({"": "a"}, {"../x": "a"}, {"a": "b\r\nc"}, {"a\n": "b"}, {"ä": "b"}),
        *({"a" * 128: "b"}, {"a": "b" * 384}, {str(n): "a" for n in range(9)}),
    ):
        with pytest.raises(ValueError, match=r"challenges|none"):
            slots.write_challenges(shared, answers)
        assert shared.layout.names_seq % 2 == 0, answers
        assert names(shared) == [(0, 0, b"a.example")], answers


def test_a_server_keeps_its_slot_and_counters_in_another_order(shared: page.Page) -> None:
    assert write(shared, loaded("web", "shop")) == {"web": 0, "shop": 1}
    shared.server(1).delayed = 9
    assert write(shared, loaded("shop", "web")) == {"web": 0, "shop": 1}
    assert shared.server(1).delayed == 9


def test_a_slot_that_changes_hands_starts_at_nothing(shared: page.Page) -> None:
    write(shared, loaded("web", "shop"))
    shared.server(1).delayed = 9
    assert write(shared, loaded("web", "wiki"))["wiki"] == 1
    assert shared.server(1).delayed == 0


def test_slots_in_use_are_counted_to_the_last(shared: page.Page) -> None:
    write(shared, loaded("a", "b", "c"))
    write(shared, loaded("c"))
    assert shared.layout.nservers == 3
    assert shared.server(0).id == b""


def test_garbage_in_a_slot_is_cleared(shared: page.Page) -> None:
    ctypes.memset(ctypes.addressof(shared.server(0)), 0xFF, ctypes.sizeof(page_h.Server) - 1)
    write(shared, loaded("web"))
    assert shared.server(0).id == b"web"
    assert shared.server(0).delayed == 0


FEED = '[[rule]]\nkind = "path"\ntext = "/feed"\ntreat_as = "feed"\n'
RULES = """
[[rule]]
kind = "agent"
text = "OurBot"
treat_as = "crawler"
[[rule]]
kind = "path"
text = "/feed"
treat_as = "feed"
server = "shop"
"""


def rules(shared: page.Page) -> list[tuple[int, int, int, bytes]]:
    found = [(r.kind, r.klass, r.server, r.text) for r in shared.layout.rules]
    return found[: [kind for kind, *_ in found].index(page_h.RuleKind.NONE)]


def test_rules_are_for_one_server_or_for_all(shared: page.Page) -> None:
    write(shared, loaded("web", "shop", extra=RULES))
    assert rules(shared) == [
        (page_h.RuleKind.AGENT, Klass.CRAWLER, page.EVERY_SERVER, b"OurBot"),
        (page_h.RuleKind.PATH, Klass.FEED, 1, b"/feed"),
    ]
    write(shared, loaded("web", "shop"))
    assert rules(shared) == []


def test_a_notice_of_the_most_bytes_still_ends(shared: page.Page) -> None:
    write(shared, loaded("web", extra=f'[box]\nnotice = "{"x" * 511}"'))
    raw = bytes(shared.layout)
    offset = page_h.Layout.notice.offset
    assert raw[offset : offset + 512] == b"x" * 511 + b"\0"


def test_an_interface_without_a_broadcast_address_gets_everybody() -> None:
    assert slots.broadcast_of("nope0") == "255.255.255.255"


def test_paths_that_mean_work_are_rules_behind_the_offices(shared: page.Page) -> None:
    work = '[server.awake]\nwork_paths = ["/backup"]\n'
    found = write(shared, loaded("web", extra=work + FEED))
    assert [(kind, server, text) for kind, _, server, text in rules(shared)] == [
        (page_h.RuleKind.PATH, page.EVERY_SERVER, b"/feed"),
        (page_h.RuleKind.WORK, found["web"], b"/backup"),
    ]


def test_how_long_paths_are_kept_stands_behind_the_other_rules(shared: page.Page) -> None:
    kept = (
        '[[cache_rule]]\npath = "/images/"\nkeep_s = 86400\n'
        '[[cache_rule]]\npath = "/live"\nkeep_s = 0\nserver = "web"\n'
    )
    found = write(shared, loaded("web", extra=FEED + kept))
    images, live = shared.layout.rules[1], shared.layout.rules[2]
    assert (images.kind, images.server) == (page_h.RuleKind.KEEP, page.EVERY_SERVER)
    assert (images.text, images.keep_s) == (b"/images/", 86400)
    assert (live.text, live.keep_s, live.server) == (b"/live", 0, found["web"])
    write(shared, loaded("web"))
    assert rules(shared) == []


def test_each_thing_that_a_rule_of_the_cache_says_is_a_row(shared: page.Page) -> None:
    cache_rules = (
        '[[cache_rule]]\npath = "/news/"\nasleep = "yes"\nbrowser_s = 60\n'
        '[[cache_rule]]\npath = "/camera/"\nasleep = "no"\n'
    )
    write(shared, loaded("web", extra=cache_rules))
    assert [(r.kind, r.text, r.keep_s) for r in shared.layout.rules[:4]] == [
        (page_h.RuleKind.ASLEEP, b"/news/", 1),
        (page_h.RuleKind.BROWSER, b"/news/", 60),
        (page_h.RuleKind.ASLEEP, b"/camera/", 0),
        (page_h.RuleKind.NONE, b"", 0),
    ]


def test_a_bad_rule_of_the_cache_is_named() -> None:
    server = SERVER.format(id="web", address="192.0.2.10", hosts="[]")
    for text, key in (
        ('path = "images"\nkeep_s = 1', "path"),
        ('path = "/a"\nkeep_s = -2', "keep_s"),
        ('path = "/a"\nbrowser_s = -2', "browser_s"),
        ('path = "/a"\nasleep = "maybe"', "asleep"),
        ('path = "/a"', "keep_s"),
        ('path = "/a"\nkeep_s = -1\nserver = "web"', "keep_s"),
        ('path = "/a"\nkeep_s = 0\nasleep = "yes"', "asleep"),
        ('path = "/a"\nkeep_s = 1\nserver = "nobody"', "server"),
    ):
        found = [where for where, _ in problems(f"{server}[[cache_rule]]\n{text}\n")]
        assert found == [f"cache_rule.1.{key}"], text


def test_each_thing_that_a_rule_of_the_cache_says_takes_the_room_of_one() -> None:
    server = SERVER.format(id="web", address="192.0.2.10", hosts="[]")
    one = '[[cache_rule]]\npath = "/a"\nasleep = "yes"\nbrowser_s = 0\n'
    assert problems(server + page_h.RULES // 2 * one) == []
    [(_, code)] = problems(server + (page_h.RULES // 2 + 1) * one)
    assert code == "config.many_rules"


def test_a_server_is_marked_for_how_https_is_served_and_asked(shared: page.Page) -> None:
    for lines, flags, port, hsts_s in (
        ("", 0, 8080, 0),
        ('to_server = "https"', page_h.F_TLS, 443, 0),
        ("tell_client_by_proxy = true", page_h.F_PROXY, 8080, 0),
        ('mode = "box"\nhsts_s = 63072000', 0, 8080, 63072000),
        ('mode = "through"', page_h.F_THROUGH, 8080, 0),
    ):
        write(shared, loaded("web", extra=f"[server.https]\n{lines}\n"))
        record = shared.server(0)
        found = record.flags & (page_h.F_TLS | page_h.F_PROXY | page_h.F_THROUGH)
        assert (found, record.port, record.hsts_s) == (flags, port, hsts_s), lines
