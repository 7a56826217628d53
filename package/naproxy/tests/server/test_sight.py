"""Whether visitors come past the box: each mode with each look."""

import json
from typing import Any

from naproxy.core.reason import Reason
from naproxy.server import sight
from naproxy.server.sight import Led, Look, Shown

NAMES = ("shop.example", "www.shop.example")
AROUND = Reason("server.https_around", port=443)
LEADS = Reason("server.leads_around", name="shop.example", to="https://shop.example")
ELSEWHERE = Reason("server.leads_elsewhere", name="shop.example", to="https://other.example")
CIRCLE = Reason("server.leads_in_a_circle", name="shop.example")
BOTH = Reason("core.and_more", name="shop.example", count=1)
NOT_SEEN = Reason("server.not_seen")


def led(host: str = "shop.example", *, https: bool = True, **more: Any) -> Led:
    values = {"own_name": host in NAMES, "through_proxy": False, **more}
    to = f"https://{host}" if https else f"http://{host}:8080"
    return Led("shop.example", to, host, https, **values)


def look(port: str = "refused", *leads: Led, whole: bool = True) -> Look:
    return Look(1e9, port, (Shown("shop.example", NAMES),), leads, whole)


LEADS_TO = "server.leads_around"
PLAIN = Reason(LEADS_TO, name="shop.example", to="http://shop.example:8080")
OTHER = Reason(LEADS_TO, name="shop.example", to="https://other.example")


def test_each_mode_judges_each_look() -> None:
    for seen, *expected in (
        (look("refused"), None, None, None),
        (look("silent"), None, None, None),
        (look("open"), AROUND, None, None),
        (look("unknown"), NOT_SEEN, None, None),
        (look("refused", whole=False), NOT_SEEN, NOT_SEEN, NOT_SEEN),
        (look("refused", led()), LEADS, LEADS, None),
        (look("open", led()), LEADS, LEADS, None),
        (look("refused", led(through_proxy=True)), LEADS, LEADS, CIRCLE),
        (look("refused", led("other.example")), OTHER, OTHER, ELSEWHERE),
        (look("refused", led(https=False)), PLAIN, PLAIN, PLAIN),
        (look("refused", led("partner.example", https=False)), None, None, None),
        (None, *3 * [Reason("server.not_looked")]),
    ):
        judged = [sight.blind(seen, mode, NAMES, NAMES) for mode in ("none", "unused", "box")]
        assert judged == expected, seen


def test_a_way_past_the_box_is_told_although_not_all_was_seen() -> None:
    assert sight.blind(look("unknown", led(), whole=False), "none", NAMES, ()) == LEADS


def elsewhere(to: str) -> Reason:
    return Reason("server.leads_elsewhere", name="shop.example", to=to)


def unserved(name: str | Reason) -> Reason:
    return Reason("server.https_unserved", name=name)


ALL = ("*.shop.example",)
BELOW = led("a.shop.example", own_name=True)
ADDRESS = led("192.0.2.9", own_name=True)


def test_the_box_serves_what_it_has_a_good_certificate_for() -> None:
    for seen, names, served, wrong in (
        (look("open"), NAMES, (), unserved(BOTH)),
        (look("open"), NAMES, NAMES[:1], unserved("www.shop.example")),
        (look("open"), NAMES, (NAMES[0], *ALL), None),
        (look("open"), ("bücher.example",), (), unserved("bücher.example")),
        (look("open"), (), NAMES[:1], None),
        (look("open"), (), (), AROUND),
        (look("unknown"), NAMES, NAMES[:1], NOT_SEEN),
        (look("refused"), NAMES, (), None),
        (look("refused", led()), NAMES, (), elsewhere("https://shop.example")),
        (look("refused", ADDRESS), NAMES, NAMES, elsewhere("https://192.0.2.9")),
        (look("refused", led(port=8443)), NAMES, NAMES, LEADS),
        (look("open", BELOW), ALL, ALL, None),
    ):
        assert sight.blind(seen, "box", names, served) == wrong, (seen, names, served)


def test_a_visitor_passed_through_does_not_bypass_the_box() -> None:
    for seen, served, wrong in (
        (look("open"), NAMES, None),
        (look("open", led()), NAMES, None),
        (look("open", led(through_proxy=True)), NAMES, None),
        (look("open"), (), NOT_SEEN),
        (look("open"), NAMES[:1], NOT_SEEN),
        (look("open", led("other.example")), NAMES, ELSEWHERE),
    ):
        assert sight.blind(seen, "through", NAMES, served) == wrong, (seen, served)


def test_a_look_is_kept_as_json_and_read_again() -> None:
    seen = look("open", led(), led("other.example", through_proxy=True))
    assert sight.load(json.loads(json.dumps(seen.dump()))) == seen


def test_an_invalid_look_is_discarded() -> None:
    good = look("open", led()).dump()
    for kept in (
        {},
        None,
        [1],
        {**good, "port": "ajar"},
        {**good, "led": [{"name": "x"}]},
        {**good, "led": [{**good["led"][0], "https": "no"}]},
        {**good, "shown": None},
        {**good, "t_s": "soon"},
    ):
        assert sight.load(kept) is None, kept
