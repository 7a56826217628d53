"""Search engines: how long one is refused, when it may crawl, and who is one at all."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from naproxy.controller import verifying
from naproxy.controller.context import BoxContext
from naproxy.controller.engines import NETWORKS, SearchEngines
from naproxy.controller.verifying import Dns, Verifier, belongs, domains, engine_of
from naproxy.core.page_h import Outcome
from naproxy.core.reason import Reason
from naproxy.core.request import Refusal
from naproxy.core.state import Klass, State
from naproxy.history.write.journal import Journal
from naproxy.server.engines import MOST, QUIET_S, WINDOW_S, Engines
from naproxy.shm.page import Page
from samples import FETCH

DAY_S = 86400.0
GOOGLE = "Google"
ADDRESS = "192.0.2.7"
GOOGLEBOT = next(agent for agent in range(1000) if engine_of(agent) == GOOGLE)
NAMES = {ADDRESS: "crawl-7.googlebot.com."}
ADDRESSES = {"crawl-7.googlebot.com": ["192.0.2.7"]}
REFUSED = Refusal(GOOGLE, ADDRESS, 77)
HELD = replace(
    FETCH, klass=Klass.CRAWLER, agent=GOOGLEBOT, outcome=Outcome.HELD, flags=0, network=77
)


def refused(limit_s: float = DAY_S) -> Engines:
    engines = Engines(limit_s)
    engines.refused(GOOGLE, 1000.0)
    engines.refused(GOOGLE, 1000.0 + DAY_S / 2)
    return engines


def let_in() -> Engines:
    engines = refused()
    engines.served(GOOGLE, 1000.0 + DAY_S, held=True)
    return engines


def test_an_engine_may_wake_the_server_after_a_day_of_refusals() -> None:
    engines = refused()
    assert not engines.due(GOOGLE, 999.0 + DAY_S)
    assert engines.due(GOOGLE, 1000.0 + DAY_S)
    assert not engines.due("Bing", 1000.0 + DAY_S)
    assert not refused(limit_s=0).due(GOOGLE, 1e9)


def test_an_engine_that_was_served_meanwhile_starts_again() -> None:
    engines = refused()
    engines.served(GOOGLE, 5000.0)
    assert not engines.due(GOOGLE, 1000.0 + DAY_S)
    engines.refused(GOOGLE, 6000.0)
    assert engines.due(GOOGLE, 6000.0 + DAY_S)


def test_the_server_stays_awake_for_it_while_it_goes_on() -> None:
    engines, t_s = let_in(), 1000.0 + DAY_S
    while t_s < 1000.0 + DAY_S + WINDOW_S:
        assert engines.crawls(t_s) == (GOOGLE, 1000.0 + DAY_S + WINDOW_S)
        engines.served(GOOGLE, t_s)
        t_s += QUIET_S - 1
    assert engines.crawls(t_s) is None
    engines = let_in()  # and asks no more
    assert engines.crawls(999.0 + DAY_S + QUIET_S)
    assert not engines.crawls(1000.0 + DAY_S + QUIET_S)


def test_an_engine_held_for_another_reason_gets_no_window() -> None:
    engines = refused()
    engines.served(GOOGLE, 2000.0, held=True)
    assert engines.crawls(2000.0) is None


def test_kept_values_are_restored_and_nonsense_is_ignored() -> None:
    again = Engines(DAY_S)
    again.load({**refused().dump(), "x": 5, "Bing": {"refused_since_s": "x", "y": 1}}, 2000.0)
    assert again.due(GOOGLE, 1000.0 + DAY_S)
    assert not again.due("Bing", 1e9)
    early = Engines(DAY_S)
    early.load(refused().dump(), 500.0)
    assert not early.due(GOOGLE, 1e9)


def test_not_more_engines_are_remembered_than_there_is_room_for() -> None:
    engines = Engines(DAY_S)
    for n in range(3 * MOST):
        engines.refused(str(n), 1.0)
    assert len(engines.known) == MOST


# ------------------------------------------------------------------- who is one


def dns(
    names: dict[str, str] = NAMES, addresses: dict[str, list[str]] = ADDRESSES, calls: Any = None
) -> Dns:
    def of(table: dict[str, Any]) -> Callable[[str], Awaitable[Any]]:
        async def ask(what: str) -> Any:
            if calls is not None:
                calls.append(what)
            if what not in table:
                raise OSError("no such name")
            return table[what]

        return ask

    return Dns(of(names), of(addresses))


def real(address: str, asked: Dns, engine: str = GOOGLE) -> bool:
    return asyncio.run(belongs(address, domains()[engine], asked))


def test_an_address_whose_name_has_it_is_the_engines() -> None:
    assert real(ADDRESS, dns())
    assert not real(ADDRESS, dns(), "Bing")


def test_a_false_engine_is_not_verified() -> None:
    for name, addresses in (
        ("crawl-7.googlebot.com", ["198.51.100.1"]),
        ("crawl-7.googlebot.com", []),
        ("crawl-7.googlebot.com", ["not an address"]),
        ("crawl-7.googlebot.com.evil.example", [ADDRESS]),
        ("evilgooglebot.com", [ADDRESS]),
        ("googlebot.com", [ADDRESS]),
        ("", [ADDRESS]),
        ("x" * 5000, [ADDRESS]),
    ):
        assert not real(ADDRESS, dns({ADDRESS: name}, {name: addresses})), (name, addresses)
    for no_address in ("", "crawl-7.googlebot.com", "192.0.2.8", "::1%eth0"):
        assert not real(no_address, dns()), no_address


def test_the_same_address_written_otherwise_is_the_same() -> None:
    name = "crawl-7.googlebot.com"
    assert real("2001:DB8:0::7", dns({"2001:db8::7": name}, {name: ["2001:db8:0:0::7"]}))


class Asked:
    """A verifier, and what it found."""

    def __init__(self, **how: Any) -> None:
        self.calls: list[str] = []
        self.now_s = 0.0
        self.found = 0
        self.verifier = Verifier(dns(calls=self.calls, **how), lambda: self.now_s)

    async def ask(self, *refusals: Refusal) -> None:
        for refusal in refusals:
            self.verifier.ask(refusal, self._count)
        while self.verifier._asking:
            await asyncio.sleep(0)

    def _count(self) -> None:
        self.found += 1


async def test_the_verdict_on_an_address_holds_for_a_while() -> None:
    asked = Asked()
    await asked.ask(REFUSED, REFUSED)
    await asked.ask(REFUSED)
    assert (asked.found, len(asked.calls)) == (2, 2)
    asked.now_s = verifying.TRUE_S
    await asked.ask(REFUSED)
    assert (asked.found, len(asked.calls)) == (3, 4)


async def test_a_liar_is_not_asked_after_each_time() -> None:
    asked = Asked(names={})
    await asked.ask(REFUSED)
    await asked.ask(REFUSED)
    assert (asked.found, len(asked.calls)) == (0, 1)
    asked.now_s = verifying.FALSE_S
    await asked.ask(REFUSED)
    assert len(asked.calls) == 2


async def test_a_flood_of_addresses_asks_for_few_at_once() -> None:
    asked = Asked()
    await asked.ask(*(Refusal(GOOGLE, f"198.51.{n // 256}.{n % 256}", n) for n in range(5000)))
    assert len(asked.calls) == verifying.ASKED


async def test_an_engine_that_nobody_knows_is_not_asked_after() -> None:
    asked = Asked()
    await asked.ask(Refusal("Nobody", ADDRESS, 1))
    assert asked.calls == []


# ------------------------------------------------------------------- one server's


class Sure(Verifier):
    """Believes everybody."""

    def ask(self, refusal: Refusal, found: Callable[[], None]) -> None:
        found()


class At:
    """One server's engines, with a page, at a time that the test sets."""

    def __init__(self, directory: Path) -> None:
        self.page = Page(directory)
        self.t_s = 1000.0
        self.box = BoxContext(self.page, Journal(directory / "data"), 0.0, verifier=Sure())
        self.engines = SearchEngines(self.box, 0, DAY_S)
        self.engines._t_s = lambda: self.t_s  # type: ignore[method-assign]

    def refuse(self, networks: Iterable[int] = (77,)) -> None:
        for network in networks:
            self.engines.told(Refusal(GOOGLE, ADDRESS, network), State.ASLEEP)


@pytest.fixture
def at(tmp_path: Path) -> At:
    return At(tmp_path)


def test_the_networks_of_an_engine_are_let_in_when_it_is_due(at: At) -> None:
    at.refuse([77, 78])
    assert at.engines.let_in() == []
    at.t_s += DAY_S
    assert at.engines.let_in() == [77, 78]


def test_the_engine_that_woke_the_server_crawls_and_others_take_turns(at: At) -> None:
    at.refuse()
    at.t_s += DAY_S
    at.engines.heard([HELD])
    at.engines.look()
    assert at.engines.inhibitor() == Reason("server.engine_crawls", engine=GOOGLE)
    assert at.page.server(0).crawl_ms == 1000
    assert at.engines.let_in() == []
    told = {"name": GOOGLE, "crawls": True, "refused_since_s": None}
    assert at.engines.status() == [{**told, "served_s": at.t_s, "let_in_s": at.t_s}]
    at.t_s += QUIET_S
    at.engines.look()
    assert at.engines.inhibitor() is None
    assert at.page.server(0).crawl_ms == 0


def test_a_refusal_by_pace_while_the_server_is_awake_does_not_count(at: At) -> None:
    at.engines.told(REFUSED, State.AWAKE)
    assert at.engines.status() == []


def test_answers_to_impostors_do_not_count_as_the_engines(at: At) -> None:
    at.refuse()
    other = replace(HELD, outcome=Outcome.FETCH)
    at.engines.heard([replace(other, network=5), replace(other, agent=GOOGLEBOT + 1)])
    at.t_s += DAY_S
    assert at.engines.let_in() == [77]


def test_not_more_networks_are_remembered_than_there_is_room_for(at: At) -> None:
    at.refuse(range(3 * NETWORKS))
    at.t_s += DAY_S
    assert at.engines.let_in() == list(range(2 * NETWORKS, 3 * NETWORKS))
