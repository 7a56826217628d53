"""Connections that are passed on unopened: who is told of them, and what they count for."""

import json

import pytest
from naproxy.config import document as config
from naproxy.controller import slots
from naproxy.controller.through import QUIET_US, Through
from naproxy.core import page_h
from naproxy.core.page_h import Listen, Outcome
from naproxy.core.state import Klass
from naproxy.shm.page import Page, monotonic_us
from problems import problems

SERVER = """
[[server]]
id = "{id}"
address = "192.0.2.10"
mac = "02:00:00:00:00:01"
hosts = {hosts}
[server.https]
mode = "{mode}"
to_server_port = 8443
[server.hold]
limit_s = 12.5
"""


def servers(*ids: str, mode: str = "through") -> config.Config:
    return config.parse(
        "".join(
            SERVER.format(id=name, mode=mode, hosts=json.dumps([f"{name}.example"])) for name in ids
        )
    )


def write(shared: Page, wanted: config.Config) -> dict[str, int]:
    found = slots.assign(shared, wanted.server)
    slots.write_services(shared, wanted.server, found)
    return found


def services(shared: Page) -> list[tuple[str, int]]:
    listed = shared.layout.service
    return [(each.id.decode(), each.server) for each in listed if each.listen != Listen.NONE]


def test_only_servers_with_that_mode_are_in_the_page(shared: Page) -> None:
    write(shared, servers("one", "two"))
    assert services(shared) == [("one", 0), ("two", 1)]
    write(shared, servers("one", "two", mode="none"))
    assert services(shared) == []


def test_a_service_has_its_servers_port_and_limits(shared: Page) -> None:
    write(shared, servers("one"))
    service = shared.layout.service[0]
    assert (service.listen, service.port, service.hold_limit_ms, service.most_held) == (
        *(Listen.EDGE, 8443),
        *(12500, 510),
    )
    assert service.most_open == slots.MOST_OPEN
    assert service.seq % 2 == 0


def test_counters_stay_at_a_change_and_go_with_the_server(shared: Page) -> None:
    write(shared, servers("one"))
    shared.layout.service[0].accepted = 5
    write(shared, servers("one"))
    assert shared.layout.service[0].accepted == 5
    write(shared, servers("two"))
    assert shared.layout.service[0].accepted == 0


def test_a_page_for_the_next_start_has_the_services_without_their_counters(shared: Page) -> None:
    write(shared, servers("one"))
    shared.layout.service[0].accepted = shared.layout.service[0].open_now = 5
    kept = page_h.Layout.from_buffer_copy(shared.configuration()).service[0]
    assert (kept.id, kept.port, kept.accepted, kept.open_now) == (b"one", 8443, 0, 0)


def test_without_names_nobody_can_be_passed_on() -> None:
    found = problems(SERVER.format(id="one", hosts="[]", mode="through"))
    assert found == [("server.one.https.mode", "config.through_names")]


# What becomes of them


@pytest.fixture
def record(shared: Page) -> page_h.Service:
    write(shared, servers("one"))
    found: page_h.Service = shared.layout.service[0]
    return found


def test_each_connection_is_a_request_of_a_person(shared: Page, record: page_h.Service) -> None:
    record.passed = 100
    through = Through(shared, 0, lambda: 77)
    assert list(through.events(1000)) == []
    record.passed += 2
    first, second = through.events(1000)
    assert first == second
    assert (first.t_us, first.klass, first.outcome) == (77, Klass.PERSON, Outcome.PIPE)
    assert (first.needed, first.own, first.page_load) == (True, False, False)
    assert list(through.events(1000)) == []
    record.passed = 1  # it begins anew
    assert list(through.events(1000)) == []


def test_only_joined_connections_are_requests(shared: Page, record: page_h.Service) -> None:
    through = Through(shared, 0)
    for counter, outcomes in (
        ("passed", [Outcome.PIPE]),
        ("held", [Outcome.HELD]),
        *((never_there, []) for never_there in ("refused", "limit", "gone", "failed")),
    ):
        setattr(record, counter, 1)
        assert [event.outcome for event in through.events(1000)] == outcomes, counter


def test_a_visitor_held_for_long_was_delayed(shared: Page, record: page_h.Service) -> None:
    for held_ms, delayed in ((1999, 0), (2002, page_h.E_DELAYED)):
        record.held = record.held_ms = 0
        through = Through(shared, 0)
        record.held, record.held_ms = 2, held_ms
        found = [(event.delay_ms, event.flags & page_h.E_DELAYED) for event in through.events(1000)]
        assert found == [(held_ms // 2, delayed)] * 2


def test_connections_quiet_for_a_minute_are_not_busy(shared: Page, record: page_h.Service) -> None:
    now_us = 10**9
    through = Through(shared, 0, lambda: now_us)
    record.open_now, record.last_active_us = 3, now_us
    assert through.busy == 3
    now_us += QUIET_US
    assert through.busy == 0


def test_a_server_without_that_mode_has_none(shared: Page) -> None:
    write(shared, servers("one", mode="none"))
    record = shared.layout.service[0]
    record.open_now, record.last_active_us = 3, monotonic_us()
    through = Through(shared, 0)
    assert (through.busy, through.held, through.status()) == (0, 0, None)


def test_the_status_has_their_numbers(shared: Page, record: page_h.Service) -> None:
    record.open_now, record.held_now, record.accepted, record.refused = 5, 2, 9, 1
    told = Through(shared, 0).status()
    assert told
    assert (told["open"], told["waiting"], told["accepted"], told["refused"]) == (5, 2, 9, 1)
