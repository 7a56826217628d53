"""Who comes past the box: what the agent counts as a visit. No socket, no clock."""

import subprocess
import sys
from pathlib import Path

import pytest

from naproxy_agent import Connection, Visits, read_tcp

BOX = "192.0.2.1"
OTHER_BOX = "2001:db8::1"
ANNA, BERT = "192.0.2.7", "2001:db8::7"
PORTS = (80, 443)


class Door:
    """Connections as the test says, and the counting of them."""

    def __init__(self):
        self.connected = ()
        self.visits = Visits(frozenset({OTHER_BOX}), lambda: self.connected)

    def see(self, t_s, *peers, port=443):
        self.connected = tuple(Connection(port, peer) for peer in peers)
        self.visits.look(t_s)
        return self.visits.total


@pytest.fixture
def door():
    """The box has asked."""
    door = Door()
    door.visits.ask(PORTS, BOX, 0.0)
    return door


def test_before_the_box_asks_nobody_is_counted():
    door = Door()
    assert door.see(0.0, ANNA) == 0
    assert door.visits.due_in_s(0.0) is None


def test_a_question_counts_at_once_and_then_it_is_looked_every_twenty_seconds():
    door = Door()
    door.connected = (Connection(80, ANNA),)
    door.visits.ask(PORTS, BOX, 100.0)
    assert (door.visits.total, door.visits.here) == (1, 1)
    assert door.visits.due_in_s(105.0) == Visits.EVERY_S - 5.0
    assert door.visits.due_in_s(500.0) == 0.0


def test_many_questions_do_not_have_it_look_more_than_once_a_second(door):
    door.connected = (Connection(80, ANNA),)
    door.visits.ask(PORTS, BOX, 0.9)
    assert door.visits.total == 0
    door.visits.ask(PORTS, BOX, 1.0)
    assert door.visits.total == 1


def test_who_is_seen_again_makes_a_new_visit_after_half_an_hour_only(door):
    assert door.see(0.0, ANNA) == 1
    assert door.see(1700.0) == 1
    assert door.see(1799.0, ANNA) == 1
    assert door.see(3598.0, ANNA) == 1
    assert door.see(3598.0 + Visits.SILENT_S, ANNA) == 2


def test_a_visitor_who_is_led_from_80_to_443_makes_one_visit(door):
    door.connected = (Connection(80, ANNA), Connection(443, ANNA))
    door.visits.look(0.0)
    assert (door.visits.total, door.visits.here) == (1, 1)


def test_two_visitors_make_two_and_are_here_until_they_leave(door):
    assert door.see(0.0, ANNA, BERT) == 2
    assert door.visits.here == 2
    assert door.see(20.0) == 2
    assert door.visits.here == 0


def test_the_box_and_ports_that_nobody_asked_for_do_not_count(door):
    assert door.see(0.0, BOX, OTHER_BOX) == 0
    assert door.see(0.0, ANNA, port=22) == 0


def test_the_last_question_says_at_which_ports_it_counts(door):
    door.visits.ask((8080,), BOX, 5.0)
    assert door.see(10.0, ANNA, port=443) == 0
    assert door.see(10.0, ANNA, port=8080) == 1


def test_what_it_remembers_is_bounded_and_newcomers_do_not_push_out_who_stays(door):
    crowd = [f"10.0.{i // 256}.{i % 256}" for i in range(Visits.MOST)]
    door.see(0.0, *crowd)
    assert door.see(20.0, *crowd, "192.0.2.9") == Visits.MOST
    assert len(door.visits._seen) == Visits.MOST
    # They sort before who stays.
    newcomers = [f"1.0.0.{i}" for i in range(10)]
    for t_s in (40.0, 60.0):
        assert door.see(t_s, crowd[0], *newcomers) == Visits.MOST + 10


def test_tables_that_cannot_be_read_do_not_stop_the_next_look():
    def unreadable():
        raise OSError("no table")

    visits = Visits(frozenset(), unreadable)
    with pytest.raises(OSError, match="no table"):
        visits.ask(PORTS, BOX, 0.0)
    assert visits.due_in_s(0.0) == Visits.EVERY_S


def test_a_table_of_a_hundred_thousand_connections_fits_into_the_service_s_memory(tmp_path):
    (tmp_path / "proc/net").mkdir(parents=True)
    row = "  {i:d}: 020000C0:01BB {peer:08X}:{port:04X} {state} 00000000:00000000 "
    row += "00:00000000 00000000     0        0 {i:d} 1 0000000000000000 100 0 0 10 0\n"
    with (tmp_path / "proc/net/tcp").open("w") as table:
        table.write("  sl  local_address rem_address   st\n")
        table.write(row.format(i=0, peer=0, port=0, state="0A"))
        for i in range(100_000):
            peer = 0x0100000A + (i % 50_000 << 8)
            table.write(row.format(i=i, peer=peer, port=i // 50_000 + 40000, state="01"))
    limit = 40 << 20
    source = (
        "from naproxy_agent import Path, read_tcp\n"
        f"found = read_tcp(Path({str(tmp_path)!r}))\n"
        "peak = Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0]\n"
        "print(len(found), int(peak) * 1024)\n"
    )
    path = next(each for each in sys.path if each.endswith("naproxy-agent/src"))
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, check=True, cwd=path
    )
    number, most = map(int, done.stdout.split())
    assert number == 16384
    assert most < limit


def test_this_machine_s_own_visits_are_counted_without_error():
    visits = Visits(frozenset(), lambda: read_tcp(Path("/")))
    visits.ask(PORTS, BOX, 0.0)
    assert visits.due_in_s(0.0) == Visits.EVERY_S
