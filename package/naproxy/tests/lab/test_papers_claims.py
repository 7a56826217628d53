"""The documents' computable numbers, printed next to computed."""

import subprocess
import sys

import pytest
from naproxy.lab.papers.claims import Claim, documents

DISAGREE = {
    "table I: resources": 241,
    "table 2: 10 large files, h2s, 4 hosts, %": 0.0563,
    "table 2: 42 medium files, h1s, 1 host, %": 0.259,
    "table 2: 400 small files, h2s, 1 host, %": 4.85,
    "saving: chapter 1 says up to, chapter 4 about, %": 25,
    "table 5.4, seek, bare metal: mean is at most the maximum, ms": 0.434,
    "table 5.4, seek, Xen: minimum is at most the 95th percentile, ms": 0.008,
    "table 5.4, read, Xen: the same, ms": 0.047,
    "table 6.1: Atom N450, Mhash/J": 0.246,
    "table 6.1: ATI 5770, Mhash/J": 1.986,
    "power of the network, all at 2000 Mhash/J, GW": 0.597,
    "the same, all at 2 Mhash/J, GW": 597,
    "figure 5: 19.5 W for 23 s, J": 448.5,
}
"""By hand, with a pocket calculator."""


@pytest.fixture(scope="module")
def claims() -> list[Claim]:
    return [claim for found in documents().values() for claim in found]


def test_what_does_not_agree_is_named_with_its_reason(claims: list[Claim]) -> None:
    found = {claim.what: claim for claim in claims}
    assert len(found) == len(claims), "two claims have one name"
    wrong = {what for what, claim in found.items() if not claim.agrees}
    assert wrong == set(DISAGREE)
    for what, value in DISAGREE.items():
        assert found[what].computed == pytest.approx(value, rel=2e-3), what
        assert found[what].note, what
    assert list(documents()) == sorted(documents())


def test_an_independent_calculation_finds_the_same(claims: list[Claim]) -> None:
    computed = {claim.what: claim.computed for claim in claims}
    sieve = bytearray([1]) * 20_001
    sieve[:2] = b"\0\0"
    for n in range(2, 142):
        if sieve[n]:
            sieve[n * n :: n] = bytes(len(sieve[n * n :: n]))
    for what, value in (
        ("primes up to 20,000", sum(sieve)),
        ("table I: size, KB", 2626.088),
        ("table 4.3, survey: requests, by who served", 20245 + 21444 + 7),
        ("table 4.3, sleep: the same, by fate", 29879 + 2674 + 241 + 7511),
        ("table 4.3, sleep: mean delay, s", (20280 * 0.111 + 20018 * 0.005) / 40298),
        ("gap that breaks even by table 4.2 (taken as 5 s), s", 170.7 / 41.7),
        ("table 5.7, random, Docker: requests/s", 39190 / 300),
        ("table 5.5: sequential operations, 10 GB by 16 kB", 655_360),
    ):
        assert computed[what] == pytest.approx(value), what


def test_rounding_is_no_disagreement_but_a_wrong_count_is() -> None:
    assert Claim("", 0.1, 0.137, unit=0.1).agrees
    assert not Claim("", 0.1, 0.151, unit=0.1).agrees
    assert Claim("", 1000, 1009).agrees
    assert not Claim("", 1000, 1011).agrees
    assert not Claim("", 240, 241, exact=True).agrees


def test_the_module_prints_all_of_them(claims: list[Claim]) -> None:
    out = subprocess.run(
        [sys.executable, "-m", "naproxy.lab.papers"], check=True, capture_output=True, text=True
    ).stdout
    assert all(claim.what in out for claim in claims)
    assert f"{len(claims) - len(DISAGREE)} of {len(claims)} numbers agree" in out
    assert out.count("does not agree") == len(DISAGREE)
