from history_box import CURL, DAY_S, GOOGLEBOT, START_S, Box, asks
from naproxy.core import office_time, page_h
from naproxy.core.page_h import Outcome
from naproxy.core.state import Klass
from naproxy.history.write import agents, requests
from naproxy.history.write.writer import AGENTS_EVERY, PRUNE_EVERY
from naproxy.shm.events import Event

NOBODY = 0xFFFFFFFF
FACTORY_S = 1_600_000_000.0


def counted(box: Box) -> list[tuple[object, ...]]:
    return box.read(
        "SELECT agent, class, outcome, requests, delayed FROM traffic_by_agent"
        " ORDER BY agent, outcome"
    )


def test_agents_are_counted_by_name_class_and_outcome(box: Box) -> None:
    for _ in range(2):
        asks(box)
        asks(box, outcome=Outcome.HIT)
        asks(box, klass=Klass.PERSON, outcome=Outcome.FETCH)  # by the office's rule
        asks(box, CURL, Klass.API, Outcome.HELD, page_h.E_DELAYED)
        box.history.flush()
    assert sorted(counted(box)) == [
        ("Googlebot", Klass.PERSON, Outcome.FETCH, 2, 0),
        ("Googlebot", Klass.CRAWLER, Outcome.HIT, 2, 0),
        ("Googlebot", Klass.CRAWLER, Outcome.REFUSED, 2, 0),
        ("curl", Klass.API, Outcome.HELD, 2, 2),
    ]


def test_of_those_without_a_name_robots_are_counted_and_people_are_not(box: Box) -> None:
    asks(box, NOBODY, Klass.SCANNER)
    asks(box, NOBODY, Klass.PERSON)
    box.history.flush()
    assert counted(box) == [("", Klass.SCANNER, Outcome.REFUSED, 1, 0)]


def test_a_row_is_a_day_of_the_offices_time_zone(box: Box) -> None:
    office_time.follow("Europe/Zurich")
    for _ in range(48):
        asks(box)
        box.pass_s(3600)
    box.history.flush()
    found = box.read("SELECT t_s, requests FROM agent_days ORDER BY t_s")
    assert [(t_s + 3600) % DAY_S for t_s, _ in found] == [0, 0, 0]
    assert sum(n for _, n in found) == 48
    assert found[1][1] == 24


def test_counts_are_written_now_and_then_and_at_the_end(box: Box) -> None:
    asks(box)
    box.pass_s(60)
    for _ in range(AGENTS_EVERY - 1):
        box.history.tick()
    assert counted(box) == []
    box.history.tick()
    assert [row[3] for row in counted(box)] == [1]
    asks(box)
    box.restart()
    assert [row[3] for row in counted(box)] == [2]


def test_what_was_written_is_not_counted_again_after_a_crash(box: Box) -> None:
    asks(box)
    box.pass_s(60)
    late = box.monotonic_s
    asks(box)
    for _ in range(AGENTS_EVERY):
        box.history.tick()
    box.journal.close()
    box.start()
    assert box.monotonic_s == late
    asks(box)  # Varnish's ring still has it
    box.history.flush()
    assert [row[3] for row in counted(box)] == [2]


def test_before_ntp_comes_minutes_are_kept_and_then_moved_to_their_day(box: Box) -> None:
    box.synchronised = False
    box.reboot(FACTORY_S)
    asks(box)
    box.pass_s(DAY_S / 2)
    asks(box)
    box.history.flush()
    assert box.read("SELECT count(*) FROM agent_days") == [(0,)]
    box.wall_s, box.synchronised = float(START_S), True
    box.history.tick()
    box.history.flush()
    assert box.read("SELECT count(*) FROM agent_minutes") == [(0,)]
    days = [agents.midnight_s(t_s) for t_s in (START_S - DAY_S / 2, START_S)]
    expected = [(day, days.count(day)) for day in sorted(set(days))]
    assert box.read("SELECT t_s, requests FROM agent_days ORDER BY t_s") == expected


def test_minutes_that_a_run_with_an_unsure_clock_left_become_days(box: Box) -> None:
    box.synchronised = False
    box.reboot(START_S + DAY_S)
    asks(box)
    box.synchronised = True
    box.restart()
    box.history.tick()
    box.history.flush()
    assert box.read("SELECT count(*) FROM agent_minutes") == [(0,)]
    assert [row[3] for row in counted(box)] == [1]


def test_a_disk_that_fails_for_long_does_not_fill_the_memory() -> None:
    waiting = agents.AgentTraffic()
    record = Event(1, 0, 0, 0, 0, GOOGLEBOT, 0, Klass.CRAWLER, 0, 0, 200, 0)
    for minute in range(requests.MOST_WAITING + 5):
        waiting.add("web", 60.0 * minute, record)
    assert len(waiting._waiting) == requests.MOST_WAITING


def test_agents_of_long_ago_are_deleted(box: Box) -> None:
    asks(box)
    box.history.flush()
    box.pass_s((agents.DAYS + 2) * DAY_S)
    asks(box)
    for _ in range(PRUNE_EVERY):
        box.history.tick()
    box.history.flush()
    assert [row[3] for row in counted(box)] == [1]


def test_a_number_that_the_list_does_not_have_has_no_name() -> None:
    assert agents.name_of(len(agents.names())) == ""
    assert agents.name_of(NOBODY) == ""
