"""Whether visitors come past the box: each mode with each look."""

import json
from typing import Any

import pytest
from naproxy.core.reason import Reason
from naproxy.server import sight
from naproxy.server.sight import Led, Look, Shown

NAMES = ("shop.example", "www.shop.example")
AROUND = Reason("server.https_around", port=443)
LEADS = Reason("server.leads_around", name="shop.example", to="https://shop.example")
UNSERVED = Reason("server.https_unserved", name="www.shop.example")
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


@pytest.mark.parametrize(
    ("seen", "none", "unused", "box"),
    [
        (look("refused"), None, None, None),
        (look("silent"), None, None, None),
        (look("open"), AROUND, None, None),
        (look("unknown"), NOT_SEEN, None, None),
        (look("refused", whole=False), NOT_SEEN, NOT_SEEN, NOT_SEEN),
        (look("refused", led()), LEADS, LEADS, None),
        (look("open", led()), LEADS, LEADS, None),
        (look("refused", led(through_proxy=True)), LEADS, LEADS, CIRCLE),
        (
            look("refused", led("other.example")),
            *(Reason("server.leads_around", name="shop.example", to="https://other.example"),) * 2,
            ELSEWHERE,
        ),
        (
            look("refused", led(https=False)),
            *(Reason("server.leads_around", name="shop.example", to="http://shop.example:8080"),)
            * 3,
        ),
        (look("refused", led("partner.example", https=False)), None, None, None),
    ],
)
def test_each_mode_judges_each_look(
    seen: Look, none: Reason | None, unused: Reason | None, box: Reason | None
) -> None:
    judged = [sight.blind(seen, mode, NAMES, NAMES) for mode in ("none", "unused", "box")]
    assert judged == [none, unused, box]


@pytest.mark.parametrize("mode", ["none", "unused", "box"])
def test_who_has_not_looked_takes_it_that_they_do(mode: str) -> None:
    assert sight.blind(None, mode, NAMES, NAMES) == Reason("server.not_looked")


def test_a_way_past_the_box_is_told_although_not_all_was_seen() -> None:
    assert sight.blind(look("unknown", led(), whole=False), "none", NAMES, ()) == LEADS


@pytest.mark.parametrize(
    ("seen", "served", "wrong"),
    [
        (look("open"), (), Reason("server.https_unserved", name=BOTH)),
        (look("open"), ("shop.example",), UNSERVED),
        (look("open"), ("shop.example", "*.shop.example"), None),
        (look("unknown"), ("shop.example",), NOT_SEEN),
        (look("refused"), (), None),
        (
            look("refused", led()),
            (),
            Reason("server.leads_elsewhere", name="shop.example", to="https://shop.example"),
        ),
    ],
)
def test_the_box_serves_what_it_has_a_good_certificate_for(
    seen: Look, served: tuple[str, ...], wrong: Reason | None
) -> None:
    assert sight.blind(seen, "box", NAMES, served) == wrong


def test_a_name_is_told_as_the_settings_have_it() -> None:
    wrong = sight.blind(look("open"), "box", ("bücher.example",), ())
    assert wrong == Reason("server.https_unserved", name="bücher.example")


def test_a_server_without_names_is_served_by_any_certificate() -> None:
    assert sight.blind(look("open"), "box", (), ("shop.example",)) is None
    assert sight.blind(look("open"), "box", (), ()) == AROUND


@pytest.mark.parametrize(
    ("seen", "to"),
    [
        (led("192.0.2.9", own_name=True), "https://192.0.2.9"),
        (led(port=8443), "https://shop.example"),
    ],
    ids=["its address", "another port"],
)
def test_a_way_to_the_server_itself_is_past_the_box(seen: Led, to: str) -> None:
    wrong = sight.blind(look("refused", seen), "box", NAMES, NAMES)
    assert wrong is not None
    assert wrong.params["to"] == to


def test_a_name_below_a_served_one_is_served() -> None:
    below = led("a.shop.example", own_name=True)
    served = ("*.shop.example",)
    assert sight.blind(look("open", below), "box", served, served) is None


def test_a_look_is_kept_as_json_and_read_again() -> None:
    seen = look("open", led(), led("other.example", through_proxy=True))
    assert sight.load(json.loads(json.dumps(seen.dump()))) == seen


@pytest.mark.parametrize(
    "kept",
    [
        {},
        None,
        [1],
        {**look().dump(), "port": "ajar"},
        {**look().dump(), "led": [{"name": "x"}]},
        {**look().dump(), "led": [{**look("open", led()).dump()["led"][0], "https": "no"}]},
        {**look().dump(), "shown": None},
        {**look().dump(), "t_s": "soon"},
    ],
)
def test_a_look_that_does_not_fit_is_none(kept: Any) -> None:
    assert sight.load(kept) is None


@pytest.mark.parametrize(
    ("seen", "served", "wrong"),
    [
        (look("open"), NAMES, None),
        (look("open", led()), NAMES, None),
        (look("open", led(through_proxy=True)), NAMES, None),
        (look("open"), (), NOT_SEEN),
        (look("open"), NAMES[:1], NOT_SEEN),
        (look("open", led("other.example")), NAMES, ELSEWHERE),
    ],
)
def test_who_is_passed_on_unopened_does_not_come_past_the_box(
    seen: Look, served: tuple[str, ...], wrong: Reason | None
) -> None:
    assert sight.blind(seen, "through", NAMES, served) == wrong
