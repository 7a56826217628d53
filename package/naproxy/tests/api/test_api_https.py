"""How HTTPS of a server is, and what there is to do: for the web interface and the command."""

import json
from typing import Any

from naproxy.api import https
from naproxy.api.https import Seen
from naproxy.core import words
from naproxy.core.reason import Reason, together

EDGE: dict[str, Any] = {"problem": None, "visited": True, "uncovered": [], "ended": []}
AROUND = Reason("server.https_around", port=443)
CIRCLE = Reason("server.leads_in_a_circle", name="one.example")
UNSERVED = Reason("server.https_unserved", name="one.example")
NOT_LOOKED = Reason("server.not_looked")
STARTING = Reason("https.starting")
DOWN = Reason("https.not_running")
BARE = Reason("https.bare", names="One.Example")
SERVE, SEND, SERVER = (Reason(f"https.do_{each}") for each in ("serve", "send", "server"))
GOOD_BOX, NOBODY = Reason("https.good_box"), Reason("https.nobody_yet")
ROUTER = Reason("https.do_router")
WITHOUT = {"uncovered": ["One.Example"]}
OLD = {"ended": [{"name": "One.Example", "day": "2026-11-22"}]}
OTHERS = {"ended": [{"name": "two.example", "day": "2026-11-22"}]}
ENDED = Reason("https.ended", names="One.Example", day="2026-11-22")
NOT_SENT_ON = Reason("https.not_sent_on")
REPLACE = Reason("https.do_replace")


def test_how_https_of_a_server_is() -> None:
    for mode, sight, edge, seen in (
        ("none", None, {}, Seen("good", Reason("https.good_none"))),
        ("unused", None, {}, Seen("good", Reason("https.good_unused"))),
        ("through", None, {}, Seen("good", Reason("https.good_through"))),
        ("box", None, {}, Seen("good", Reason("https.good_box"))),
        ("of another version", None, {}, Seen("good", Reason("https.good_none"))),
        ("none", NOT_LOOKED, {}, Seen("info", NOT_LOOKED)),
        ("none", AROUND, {}, Seen("warn", AROUND, SERVE)),
        ("box", CIRCLE, {}, Seen("warn", CIRCLE, SERVER)),
        ("box", AROUND, {}, Seen("warn", AROUND, SEND)),
        ("box", UNSERVED, WITHOUT, Seen("warn", UNSERVED, SEND)),
        ("box", None, WITHOUT, Seen("warn", BARE, SEND)),
        ("box", NOT_LOOKED, WITHOUT, Seen("warn", BARE, SEND)),
        ("box", None, {"problem": DOWN, **WITHOUT}, Seen("warn", BARE, SEND)),
        ("box", None, {"problem": DOWN}, Seen("bad", DOWN)),
        ("box", None, {"problem": STARTING}, Seen("info", STARTING)),
        ("box", AROUND, {"problem": DOWN}, Seen("bad", DOWN)),
        ("box", None, {"visited": False}, Seen("info", together(GOOD_BOX, NOBODY), ROUTER)),
        ("none", None, {"visited": False}, Seen("good", Reason("https.good_none"))),
        ("box", None, OLD, Seen("bad", ENDED, REPLACE)),
        ("box", UNSERVED, OLD, Seen("bad", ENDED, REPLACE)),
        ("box", CIRCLE, OLD, Seen("warn", CIRCLE, SERVER)),
        ("box", None, OTHERS, Seen("good", Reason("https.good_box"))),
        ("box", CIRCLE, {"problem": DOWN}, Seen("warn", CIRCLE, SERVER)),
        ("none", None, {"problem": DOWN}, Seen("good", Reason("https.good_none"))),
    ):
        status, told = json.loads(
            json.dumps([{"https": {"sight": sight}}, {**EDGE, **edge}], default=Reason.plain)
        )
        assert https.seen(mode, ["One.Example"], status, told) == seen, (mode, sight, edge)


def test_it_is_said_that_visitors_are_not_sent_to_https() -> None:
    for mode, redirect, edge, sent in (
        ("box", True, WITHOUT, False),
        ("box", True, OLD, False),
        ("box", True, {"problem": DOWN}, False),
        ("box", False, WITHOUT, True),
        ("box", True, {}, True),
        ("through", True, {"problem": DOWN}, True),
    ):
        told = json.loads(json.dumps({**EDGE, **edge}, default=Reason.plain))
        said = https.seen(mode, ["One.Example"], {}, told, redirect=redirect)
        assert (NOT_SENT_ON not in said.what.parts()) == sent, (mode, redirect, edge)


def test_a_visitor_passed_through_counts_as_seen() -> None:
    for accepted, kind in ((0, "info"), (3, "good")):
        status = {"https": {"sight": None, "through": {"accepted": accepted}}}
        assert https.seen("through", [], status, {**EDGE, "visited": False}).kind == kind, accepted


def test_many_names_without_a_certificate_are_told_shortly() -> None:
    said = https.bare_of(["bücher.example", "b.example", "c.example"])
    assert "for bücher.example and 2 more." in words.words(said)


def test_values_missing_in_the_status_are_none() -> None:
    for status in ({}, {"https": None}, {"https": {"around": None}}):
        assert https.around(status) == 0, status
        assert https.sight_of(status) == (None, False), status
    assert https.around({"https": {"around": {"today": 41, "yesterday": 3}}}) == 41
