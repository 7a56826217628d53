"""Passwords: accepted ones, their digests, and the cost of a check."""

from __future__ import annotations

from naproxy_webui.auth.passwords import GOAL_S, MOST, Cost, make, matches, refusal, rounds

CHEAP = Cost(n=2, r=1, p=1)


def test_a_password_matches_itself_only() -> None:
    kept = make("correct horse", CHEAP)
    assert kept != make("correct horse", CHEAP)
    assert matches("correct horse", kept, CHEAP)
    for wrong in ("correct hors", "Correct horse", "", "correct horse ", "x" * (MOST + 1)):
        assert not matches(wrong, kept, CHEAP), wrong
    assert not matches("", None, CHEAP)


def test_a_digest_contains_its_parameters() -> None:
    kept = make("correct horse", Cost(n=4, r=2, p=3))
    assert kept.startswith("scrypt$4$2$3$")
    assert matches("correct horse", kept, CHEAP)


def test_a_foreign_digest_matches_nothing() -> None:
    for kept in (
        "",
        "x",
        "scrypt$2$1$1$a$b",
        "scrypt$3$1$1$YQ==$YQ==",
        "scrypt$1048576$99$1$YQ==$YQ==",
        "$" * 9,
    ):
        assert not matches("correct horse", kept, CHEAP), kept


def test_half_characters_are_just_another_password() -> None:
    kept = make("\ud800 half a character", CHEAP)
    assert matches("\ud800 half a character", kept, CHEAP)
    assert not matches("? half a character", kept, CHEAP)


def test_easily_guessed_passwords_are_refused() -> None:
    for password in (
        "naproxy 2026!",
        "Password123",
        "1234567890",
        "qwertyuiop1",
        "aaaaaaaaaaaaaa",
        "abababababab",
        "2026-11-22-10",
        "anna.muster",
    ):
        assert refusal(password, "anna.muster") == "account.password_simple", password


def test_a_sentence_is_taken_in_any_language() -> None:
    for password in ("the cat is on the roof", "Zürich-Örlikon", "密码密码是一个很长的句子吗"):
        assert refusal(password, "anna") is None, password


def test_the_length_counts_composed_characters() -> None:
    assert refusal("e\u0301" * 6 + "xyz") == "account.password_short"


def test_the_rounds_follow_the_machine() -> None:
    for one_s, p in ((0.03, 5), (0.1, 5), (0.12, 4), (0.4, 1), (9.0, 1), (0.0, 5)):
        assert rounds(one_s).p == p, one_s
        assert p == 1 or p * one_s <= GOAL_S, one_s


def test_a_check_needs_16_mib() -> None:
    assert 128 * Cost().n * Cost().r == 16 << 20
