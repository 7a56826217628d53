"""What is known of uacme: its arguments, its words, and when it is run."""

from __future__ import annotations

import pytest
from naproxy.config import document as config
from naproxy.config.document import Config
from naproxy.core.reason import WrongError
from naproxy.edge import acme
from naproxy.edge.acme import Life, Tried, refusal, when
from naproxy.edge.challenges import FORGOTTEN_S, MOST, Challenges

HOUR_S, DAY_S = 3600.0, 86400.0
T_S = 1_800_000_000.0
LIFE = Life(T_S, T_S + 90 * DAY_S, "a1b2")

SITES = """
[https]
acme_directory = "{directory}"
acme_email = "office@one.example"
acme_terms = true
acme_eab_id = "kid-1"
acme_eab_key = "aGVsbG8"
[[server]]
id = "web"
address = "192.0.2.10"
mac = "02:00:00:00:00:01"
hosts = ["one.example", "*.one.example", "bücher.example"]
https = {{ mode = "box" }}
[[server]]
id = "other"
address = "192.0.2.11"
mac = "02:00:00:00:00:02"
hosts = ["two.example"]
[[certificate]]
id = "main"
source = "acme"
{more}
"""


def parsed(more: str = "", directory: str = "letsencrypt") -> Config:
    return config.parse(SITES.format(more=more, directory=directory))


# When


def test_the_first_is_issued_at_once_and_renewed_after_two_thirds_of_its_life() -> None:
    assert when(None, Tried()) <= 0
    due_s = when(LIFE, Tried())
    assert abs(due_s - (T_S + 60 * DAY_S)) <= 12 * HOUR_S


def test_boxes_renew_at_other_times_from_each_other() -> None:
    due = [when(Life(T_S, T_S + 90 * DAY_S, f"{n}"), Tried()) for n in range(200)]
    assert len({round(each) for each in due}) > 190
    assert max(due) - min(due) > 20 * HOUR_S
    assert when(LIFE, Tried()) == when(LIFE, Tried())


def test_a_short_one_is_renewed_in_its_last_third_too() -> None:
    for n in range(200):
        due_s = when(Life(T_S, T_S + 6 * DAY_S, f"{n}"), Tried())
        assert T_S + 3.6 * DAY_S < due_s < T_S + 4.4 * DAY_S


def test_after_failures_it_waits_longer_and_longer() -> None:
    over = Life(T_S - 80 * DAY_S, T_S + 10 * DAY_S, "a")
    for failures, hours in ((1, 1), (2, 4), (3, 24), (4, 48), (5, 48), (1000, 48)):
        for life in (None, over):
            assert when(life, Tried(failures, T_S)) == T_S + hours * HOUR_S, failures


def test_a_short_lived_one_is_tried_often_enough_before_its_end() -> None:
    for life_s, least, most_wait_s in (
        (6 * DAY_S, 10, 4 * HOUR_S),
        (DAY_S, 10, HOUR_S),
        (HOUR_S, 10, 120.0),
        (47 * DAY_S, 10, 26 * HOUR_S),
        (90 * DAY_S, 10, 48 * HOUR_S),
    ):
        life = Life(T_S, T_S + life_s, "a")
        now_s, tries = when(life, Tried()), 0
        while now_s < life.not_after_s:
            tries += 1
            before_s, now_s = now_s, when(life, Tried(tries, now_s))
            assert 60 <= now_s - before_s <= most_wait_s, life_s
        assert tries >= least, life_s


def test_a_limit_without_a_time_does_not_outlast_a_short_lived_one() -> None:
    said = (
        "uacme: the server reported the following error:\n"
        '{"type": "urn:ietf:params:acme:error:rateLimited", "detail": "slow down"}'
    )
    assert refusal(said, "http-01", T_S).until_s == T_S + 7 * DAY_S
    assert refusal(said, "http-01", T_S, 90 * DAY_S).until_s == T_S + 7 * DAY_S
    assert T_S < refusal(said, "http-01", T_S, 6 * DAY_S).until_s < T_S + 12 * HOUR_S
    named = said.replace("slow down", "retry after 2027-01-20 10:00:00")
    assert refusal(named, "http-01", T_S, 6 * DAY_S).until_s > T_S + 4 * DAY_S, "it said so"


def test_a_failure_long_before_brings_no_renewal_forward_and_a_limit_holds() -> None:
    assert when(LIFE, Tried(1, T_S)) == when(LIFE, Tried())
    assert when(None, Tried(1, T_S, T_S + 5 * DAY_S)) == T_S + 5 * DAY_S


# Names, issuers, arguments


def test_without_names_it_is_for_all_that_the_box_serves() -> None:
    served = parsed()
    assert acme.names_for(served.certificate[0], served) == (
        "one.example",
        "xn--bcher-kva.example",
    )
    by_dns = parsed('challenge = "dns-01"\nhook = "dns"')
    assert "*.one.example" in acme.names_for(by_dns.certificate[0], by_dns)
    named = parsed('names = ["two.example", "bücher.example"]')
    assert acme.names_for(named.certificate[0], named) == ("two.example", "xn--bcher-kva.example")


def test_a_trial_goes_where_it_costs_nothing() -> None:
    https = parsed().https
    assert acme.issuer(https).url == "https://acme-v02.api.letsencrypt.org/directory"
    assert acme.issuer(https, trial=True).folder == "staging"
    own = parsed(directory="https://ca.office.example/acme/dir").https
    assert acme.issuer(own, trial=True) == acme.issuer(own)
    other = parsed(directory="https://ca.office.example/acme/dir2").https
    assert acme.issuer(own).folder != acme.issuer(other).folder


def test_the_account_with_one_issuer_is_not_told_to_another() -> None:
    https = parsed().https
    assert "kid-1:aGVsbG8" in acme.register(acme.issuer(https), "/f", https)
    trial = acme.register(acme.issuer(https, trial=True), "/f", https)
    assert not any("kid-1" in word for word in trial)


NO_ISSUER = (
    *("http://ca.example/dir", "https://", "https://ca.example", "-h", "https://-h/d"),
    *("https://ca.example/dir dir", "https://ca.example/\\nX", "file:///etc"),
)


@pytest.mark.parametrize(
    ("line", "key"),
    [
        *((f'[https]\nacme_directory = "{each}"', "acme_directory") for each in NO_ISSUER),
        ('[https]\nacme_email = "-h"', "acme_email"),
        ('[https]\nacme_email = "a b@c"', "acme_email"),
        ('[https]\nacme_eab_id = "-x"', "acme_eab_id"),
        ('[https]\nacme_eab_id = "a:b"', "acme_eab_id"),
        ('[https]\nacme_eab_key = "a b"', "acme_eab_key"),
        ('[[certificate]]\nid = "m"\nsource = "acme"\nchallenge = "dns-01"', "hook"),
        ('[[certificate]]\nid = "m"\nhook = "../sh"', "hook"),
        ('[[certificate]]\nid = "m"\nsource = "acme"\nnames = ["*.a.example"]', "names"),
        ('[[certificate]]\nid = "m"\nsource = "acme"\nchallenge = "tls-alpn-01"', "challenge"),
    ],
)
def test_what_could_not_be_obeyed_is_refused(line: str, key: str) -> None:
    with pytest.raises(config.ConfigError, match=key):
        config.parse(line)


# Words, as uacme 1.7.4 writes them


def problem(kind: str, detail: str, before: str = "") -> str:
    return (
        f"uacme: {before}\nuacme: the server reported the following error:\n"
        f'{{\n    "type": "urn:ietf:params:acme:error:{kind}",\n    "detail": "{detail}",\n'
        '    "status": 403\n}\nuacme: failed to authorize order at https://ca.example/order/1\n'
    )


UNREACHED = "uacme: curl_get: GET https://ca.example/dir failed: Couldn't resolve host name\n"
SAID = {
    problem("unauthorized", "returned 404"): "https.acme_not_seen",
    problem("connection", "Timeout"): "https.acme_not_seen",
    problem("dns", "NXDOMAIN"): "https.acme_not_seen",
    problem("caa", "CAA record prevents"): "https.acme_caa",
    problem("rejectedIdentifier", "forbidden by policy"): "https.acme_refused",
    problem("externalAccountRequired", "give one"): "https.acme_eab",
    problem("userActionRequired", "see terms"): "https.acme_terms_new",
    problem("badNonce", "invalid anti-replay nonce"): "https.acme_nonce",
    problem("serverInternal", ""): "https.acme_refused",
    f"{UNREACHED}uacme: failed to fetch directory at https://ca.example/dir\n": (
        "https.acme_unreached"
    ),
    "uacme: failed to fetch directory at https://ca.example/no\n": "https.acme_no_directory",
    "uacme: no challenge completed\nuacme: failed to authorize order\n": "https.acme_no_challenge",
    "naproxy acme-hook: no token\nuacme: no challenge completed\n": "https.acme_hook",
    "uacme: this ACME server requires external credentials, please supply them with -e\n": (
        "https.acme_eab"
    ),
    "": "https.acme_failed",
    "uacme: failed to access /x\n": "https.acme_failed",
    "uacme: the server reported the following error:\n<html>": "https.acme_failed",
    "uacme: the server reported the following error:\n" + "[" * 100_000: "https.acme_failed",
}


def test_its_words_become_a_reason() -> None:
    for said, code in SAID.items():
        found = refusal(said, "http-01", T_S)
        assert found.reason.code == code, said[:200]
        assert len(str(found.reason)) < 600, said[:200]
        assert found.again == (code == "https.acme_nonce"), said[:200]


def test_what_the_issuer_says_is_passed_on_safely() -> None:
    said = refusal(problem("unauthorized", "\\u001b[31m" + "x" * 5000), "http-01", T_S)
    assert str(said.reason).isprintable()
    assert len(str(said.reason)) < 600


def test_what_is_not_in_the_dns_is_said_otherwise_than_what_port_80_lacks() -> None:
    said = problem("unauthorized", "No TXT record found")
    assert refusal(said, "dns-01", T_S).reason.code == "https.acme_not_seen_dns"
    assert refusal(said, "", T_S).reason.code == "https.acme_account"


def test_a_limit_holds_as_long_as_the_issuer_says_else_a_week() -> None:
    said = problem("rateLimited", "too many certificates, retry after 2027-01-20 08:00:00 UTC: see")
    found = refusal(said, "http-01", T_S)
    assert (found.reason.code, found.until_s) == ("https.acme_limited", 1_800_432_000.0)
    for silent in ("too many", "retry after 2027-99-99 99:99:99"):
        assert refusal(problem("rateLimited", silent), "http-01", T_S).until_s == T_S + 7 * DAY_S


# Answers to questions


class Shown:
    def __init__(self) -> None:
        self.answers: dict[str, str] = {"left": "by one before"}
        self.t_s = 0.0
        self.challenges = Challenges(lambda answers: self._show(dict(answers)), lambda: self.t_s)

    def _show(self, answers: dict[str, str]) -> None:
        if "bad" in answers:
            raise ValueError
        self.answers = answers


def test_answers_are_shown_until_they_are_taken_back_or_forgotten() -> None:
    shown = Shown()
    assert shown.answers == {}
    shown.challenges.put("a", "1")
    shown.t_s = FORGOTTEN_S / 2
    shown.challenges.put("b", "2")
    assert shown.answers == {"a": "1", "b": "2"}
    shown.t_s = FORGOTTEN_S
    shown.challenges.forget()
    assert shown.answers == {"b": "2"}
    shown.challenges.remove("b")
    shown.challenges.remove("unknown")
    assert shown.answers == {}


def test_more_answers_than_there_is_room_for_are_refused() -> None:
    shown = Shown()
    for number in range(MOST):
        shown.challenges.put(f"{number}", "x")
    with pytest.raises(WrongError, match="open already"):
        shown.challenges.put("more", "x")
    shown.challenges.put("0", "again")
    assert len(shown.answers) == MOST


def test_what_varnish_would_not_take_is_refused_and_changes_nothing() -> None:
    shown = Shown()
    shown.challenges.put("a", "1")
    with pytest.raises(WrongError, match="not a token"):
        shown.challenges.put("bad", "x")
    shown.challenges.put("b", "2")
    assert shown.answers == {"a": "1", "b": "2"}
