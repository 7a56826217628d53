"""The controller's reasons in plain words: all that the real policies and vetoes say is known."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from flask import Flask
from hypothesis import given
from hypothesis import strategies as st
from naproxy import policy
from naproxy.arming import Arming
from naproxy.config import parse
from naproxy.drivers.openssh import Ssh, SshSettings
from naproxy.policy.base import Klass, Request, State
from naproxy.seeing import Metered, Pinged, Sight, Sign
from naproxy.vetoes import Guard, Readings, Settings
from naproxy_webui import reasons


@pytest.fixture(autouse=True)
def in_german(app: Flask) -> Iterator[None]:
    """What is not known stays English, which a German text shows."""
    with app.test_request_context(headers={"Accept-Language": "de"}):
        yield


def is_german(words: str) -> bool:
    said = set(re.findall(r"[a-zäöüß]+", words.lower()))
    return bool(said) and not said & {"the", "it", "is", "of", "not", "and", "for", "requests"}


@pytest.mark.parametrize("name", ["timeout", "thesis", "schedule", "teacher"])
def test_what_a_policy_says_is_known(name: str) -> None:
    config = parse(
        '[[server]]\nid = "web"\naddress = "192.0.2.1"\nmac = "02:00:00:00:00:01"\n'
        f'[server.policy]\nname = "{name}"\n'
    )
    settings = config.server[0].policy
    setup = policy.Setup(
        on_w=43.3, off_w=1.6, switch_j=170.7, fraction=0.01, delta_s=0.05, sleep_s=4, wake_s=5
    )
    made = policy.make(settings, setup)
    said = set()
    made.observed(0.0, State.AWAKE)
    for step in range(400):
        t_s = step * 37.0
        if step % 7 == 0 and step < 200:
            made.request(Request(t_s, step, Klass.PERSON, True, True, 1, 0.0))
        said.add(made.decide(t_s).reason)
    assert said
    for words in said:
        assert is_german(reasons.plain(words)), words


def test_what_a_veto_says_is_known() -> None:
    settings = Settings(hours=("mon-sun 00:00-24:00",), work_paths=("/backup",), least_s=100)
    seen = Readings(wall_s=1.8e9, awake_s=5, worked_s=3, fetching=2, piping=1)
    said = Guard(settings).vetoes(seen)
    said += Guard(settings).vetoes(Readings(wall_s=5.0))
    assert len(said) >= 5
    for words in said:
        assert is_german(reasons.plain(words)), words


def test_why_it_is_not_armed_is_known() -> None:
    arming = Arming("web")
    said = [arming.why_not]
    arming.trip("not up after 5 calls to wake in 30 s: no answer")
    said.append(arming.why_not)
    for words in said:
        shown = reasons.plain(words)
        assert shown.startswith(("Er wurde noch nicht erprobt", "Er ist einmal nicht aufgewacht"))


def test_a_decision_that_was_vetoed_tells_the_vetoes() -> None:
    words = "would sleep (idle 63 s), but: office hours until 18:00; it woke 4 s ago; 3 s left"
    assert reasons.sentences(words) == [
        "Bürozeit bis 18:00.",
        "Er ist vor 4\u00a0s aufgewacht und bleibt noch 3\u00a0s wach.",
    ]


def test_what_a_server_says_itself_is_told_as_it_came() -> None:
    assert reasons.plain("apt upgrades <b>now</b>") == "Apt upgrades <b>now</b>."


def test_long_times_are_told_as_such() -> None:
    assert "1\u00a0h 2\u00a0min" in reasons.plain("idle 3720 s")


@given(st.text(max_size=2000))
def test_whatever_it_says_something_is_told(words: str) -> None:
    shown = reasons.sentences(words)
    assert sum(len(each) for each in shown) < 4000
    assert bool(shown) == bool(words[: reasons.MOST_CHARS].strip())


@pytest.mark.parametrize(
    "log",
    [
        "WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!",
        "Host key verification failed.",
        "naproxy@192.0.2.2: Permission denied (publickey).",
    ],
)
def test_why_the_box_was_not_let_in_is_known(log: str) -> None:
    said = Ssh(SshSettings(), "192.0.2.2").failure(log)
    assert is_german(reasons.plain(said)), said


def sights() -> Iterator[str]:
    """Yield what the box says of a server that did not wake, for all that can be seen of it."""
    for sign in (Sign.SILENT, Sign.REFUSING):
        for watts in (None, 0.0, 1.6, 43.0):
            for pings in (None, True, False):
                sight = Sight(43.3)
                if pings is not None:
                    sight.see(0.0, State.AWAKE, 0.0, Pinged(True, 0.0))
                    sight.see(10.0, State.WAKING, 9.0, Pinged(pings, 9.5))
                if watts is not None:
                    sight.see(10.0, State.WAKING, 9.0, Metered(watts))
                yield sight.why_not_up(10.0, sign, "keine Antwort")


def test_why_it_is_not_up_is_known() -> None:
    said = set(sights())
    assert len(said) >= 6
    for words in said:
        called = "not up after 6 calls to wake in 60 s"
        for told in (words, f"still not up: {words}", f"{called}: {words}"):
            assert is_german(reasons.plain(told)), told
