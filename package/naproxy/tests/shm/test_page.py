import ctypes
import os
import re
import stat
import struct
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from naproxy.core.state import Klass, State
from naproxy.shm import events, page
from naproxy.shm.ring import HOLE_S

HEADER = Path(__file__).parents[3] / "libvmod-naproxy" / "src" / "naproxy_page.h"

STRUCTURES = {
    "naproxy_rule": page.Rule,
    "naproxy_learned": page.Learned,
    "naproxy_spent": page.Spent,
    "naproxy_client": page.Client,
    "naproxy_name": page.Name,
    "naproxy_challenge": page.Challenge,
    "naproxy_server": page.Server,
    "naproxy_service": page.Service,
    "naproxy_page": page.Layout,
    "naproxy_event": page.Event,
    "naproxy_stored": page.Stored,
}

CONSTANTS = {
    "NAPROXY_PAGE_MAGIC": page.PAGE_MAGIC,
    "NAPROXY_PAGE_VERSION": page.PAGE_VERSION,
    "NAPROXY_PAGE_SIZE": page.PAGE_SIZE,
    "NAPROXY_EVENTS_MAGIC": page.EVENTS_MAGIC,
    "NAPROXY_EVENTS": page.EVENTS,
    "NAPROXY_STORES_MAGIC": page.STORES_MAGIC,
    "NAPROXY_STORES": page.STORES,
    "NAPROXY_SERVERS": page.SERVERS,
    "NAPROXY_NAMES": page.NAMES,
    "NAPROXY_NAME_LEN": page.NAME_LEN,
    "NAPROXY_CHALLENGES": page.CHALLENGES,
    "NAPROXY_TOKEN_LEN": page.TOKEN_LEN,
    "NAPROXY_ANSWER_LEN": page.ANSWER_LEN,
    "NAPROXY_SERVICES": page.SERVICES,
    "NAPROXY_ID_LEN": page.ID_LEN,
    "NAPROXY_NOTICE_LEN": page.NOTICE_LEN,
    "NAPROXY_RULES": page.RULES,
    "NAPROXY_RULE_LEN": page.RULE_LEN,
    "NAPROXY_LEARNED": page.LEARNED,
    "NAPROXY_MOST_SPENT": page.MOST_SPENT,
    "NAPROXY_WEBHOOKS": page.WEBHOOKS,
    "NAPROXY_COOKIES": page.COOKIES,
    "NAPROXY_CLIENTS": page.CLIENTS,
    "NAPROXY_WINDOW": page.WINDOW,
    "NAPROXY_DELAYS": page.DELAYS,
    "NAPROXY_CLASSES": page.CLASSES,
    "NAPROXY_OUTCOMES": page.OUTCOMES,
    "NAPROXY_REASONS": page.REASONS,
    "NAPROXY_BUDGET": sum(1 << klass for klass in Klass if not klass.robot),
    "NAPROXY_F_AGGRESSIVE": page.F_AGGRESSIVE,
    "NAPROXY_F_WAITING_PAGE": page.F_WAITING_PAGE,
    "NAPROXY_F_WOL": page.F_WOL,
    "NAPROXY_F_DEFER": page.F_DEFER,
    "NAPROXY_F_DEFAULT": page.F_DEFAULT,
    "NAPROXY_F_HTTPS_ONLY": page.F_HTTPS_ONLY,
    "NAPROXY_F_TLS": page.F_TLS,
    "NAPROXY_F_PROXY": page.F_PROXY,
    "NAPROXY_F_THROUGH": page.F_THROUGH,
    "NAPROXY_F_FROZEN": page.F_FROZEN,
    "NAPROXY_N_BELOW": page.N_BELOW,
    "NAPROXY_E_PAGE_LOAD": page.E_PAGE_LOAD,
    "NAPROXY_E_NEEDED": page.E_NEEDED,
    "NAPROXY_E_DELAYED": page.E_DELAYED,
    "NAPROXY_E_RULE": page.E_RULE,
    "NAPROXY_E_LEARNED": page.E_LEARNED,
    "NAPROXY_E_WORK": page.E_WORK,
    "NAPROXY_E_OWN": page.E_OWN,
    "NAPROXY_E_SPENT": page.E_SPENT,
    "NAPROXY_S_FREEZES": page.S_FREEZES,
    "NAPROXY_S_HTTPS": page.S_HTTPS,
    "NAPROXY_S_SAID": page.S_SAID,
    "NAPROXY_S_SAME": page.S_SAME,
    "NAPROXY_S_VARIES": page.S_VARIES,
    **{f"NAPROXY_{s.name}": s for s in State},
    **{f"NAPROXY_{k.name}": k for k in Klass},
    **{f"NAPROXY_{o.name}": o for o in page.Outcome if o is not page.Outcome.PASS},
    "NAPROXY_PASS": page.Outcome.PASS,
    **{f"NAPROXY_WAKE_{r.name}": r for r in page.Cause},
    **{f"NAPROXY_RULE_{k.name}": k for k in page.RuleKind},
    **{f"NAPROXY_LISTEN_{k.name}": k for k in page.Listen},
    "sizeof(struct naproxy_events)": page.EVENTS_SIZE,
    "sizeof(struct naproxy_stores)": page.STORES_SIZE,
    "offsetof(struct naproxy_stores, stored)": ctypes.sizeof(page.RingHead),
    "offsetof(struct naproxy_events, event)": ctypes.sizeof(page.RingHead),
    "offsetof(struct naproxy_events, head)": page.RingHead.head.offset,
    "offsetof(struct naproxy_events, count)": page.RingHead.count.offset,
}


def said_by_c(
    tmp_path: Path, expressions: list[str], flags: tuple[str, ...] = ()
) -> dict[str, int]:
    source = tmp_path / "say.c"
    lines = "".join(f'\tprintf("%llu\\n", (unsigned long long)({e}));\n' for e in expressions)
    source.write_text(
        f'#include <stdio.h>\n#include "{HEADER}"\nint\nmain(void)\n{{\n{lines}\treturn (0);\n}}\n'
    )
    program = tmp_path / "say"
    subprocess.run(["cc", "-Werror", *flags, "-o", program, source], check=True)
    output = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    return dict(zip(expressions, map(int, output.split()), strict=True))


def test_the_page_in_python_is_the_page_in_c(tmp_path: Path) -> None:
    expected: dict[str, int] = dict(CONSTANTS)
    for name, structure in STRUCTURES.items():
        expected[f"sizeof(struct {name})"] = ctypes.sizeof(structure)
        for field, *_ in structure._fields_:
            descriptor = getattr(structure, field)
            expected[f"offsetof(struct {name}, {field})"] = descriptor.offset
            expected[f"sizeof(((struct {name} *)0)->{field})"] = descriptor.size
    assert said_by_c(tmp_path, list(expected)) == expected


def test_every_constant_of_the_header_is_known_here() -> None:
    text = HEADER.read_text()
    defined = set(re.findall(r"^#define\s+(NAPROXY_\w+)\s+\S", text, re.M))
    defined |= set(re.findall(r"^\t(NAPROXY_\w+)\s*=", text, re.M))
    assert defined - set(CONSTANTS) == {"NAPROXY_PAGE_H_INCLUDED"}


def test_a_new_page_is_complete_and_for_the_group_only(tmp_path: Path) -> None:
    page.Page(tmp_path).close()
    made = tmp_path / "page"
    assert made.stat().st_size == page.PAGE_SIZE
    assert stat.S_IMODE(made.stat().st_mode) == 0o660
    assert list(tmp_path.iterdir()) == [made]
    assert struct.unpack_from("=IIII", made.read_bytes()) == (
        page.PAGE_MAGIC,
        page.PAGE_VERSION,
        page.PAGE_SIZE,
        0,
    )


def test_a_valid_page_is_kept_with_its_counters(tmp_path: Path) -> None:
    first = page.Page(tmp_path)
    first.server(2).requests[0][3] = 41
    inode = first.path.stat().st_ino
    first.close()
    second = page.Page(tmp_path)
    assert second.server(2).requests[0][3] == 41
    assert second.path.stat().st_ino == inode


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"x" * page.PAGE_SIZE,
        struct.pack("=III", page.PAGE_MAGIC, page.PAGE_VERSION, page.PAGE_SIZE),
        struct.pack("=III", page.PAGE_MAGIC, 99, page.PAGE_SIZE).ljust(page.PAGE_SIZE, b"\0"),
        struct.pack("=III", page.PAGE_MAGIC, page.PAGE_VERSION, 4096).ljust(page.PAGE_SIZE, b"\0"),
    ],
    ids=["empty", "garbage", "short", "version", "size"],
)
def test_a_malformed_page_is_set_aside_and_said(
    tmp_path: Path, content: bytes, said: list[str]
) -> None:
    (tmp_path / "page").write_bytes(content)
    fresh = page.Page(tmp_path)
    assert fresh.layout.magic == page.PAGE_MAGIC
    assert (tmp_path / "page.bad").read_bytes() == content
    assert len(said) == 1
    assert "page.bad" in said[0]


def test_noise_behind_a_good_head_is_set_aside(tmp_path: Path, said: list[str]) -> None:
    head = struct.pack("=III", page.PAGE_MAGIC, page.PAGE_VERSION, page.PAGE_SIZE)
    (tmp_path / "page").write_bytes(head + b"\xa5" * (page.PAGE_SIZE - len(head)))
    assert page.Page(tmp_path).server(0).fetching_now == 0
    assert "nonsense in the record of server 0" in said[0]


def test_a_link_in_the_place_of_the_page_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"precious")
    (tmp_path / "page").symlink_to(elsewhere)
    page.Page(tmp_path)
    assert elsewhere.read_bytes() == b"precious"
    assert not (tmp_path / "page").is_symlink()


def test_a_group_that_is_not_there_is_said_and_survived(tmp_path: Path, said: list[str]) -> None:
    page.Page(tmp_path, group="no-such-group")
    assert "no-such-group" in said[0]


def test_the_lock_is_odd_while_a_server_is_configured_and_even_after(tmp_path: Path) -> None:
    shared = page.Page(tmp_path)
    with shared.configure(0) as server:
        server.id = b"web"
        assert server.seq == 1
    assert shared.server(0).seq == 2


def test_a_lock_left_odd_by_a_dead_controller_is_taken_over(tmp_path: Path) -> None:
    shared = page.Page(tmp_path)
    shared.server(0).seq = 7
    with shared.configure(0) as server:
        assert server.seq == 7
    assert shared.server(0).seq == 8


def compiled(tmp_path: Path, body: str) -> Path:
    """A C program with the page mapped as `p`; argv[1] is the page's path."""
    source = tmp_path / "program.c"
    source.write_text(
        f'#include "{HEADER}"\n'
        "#include <fcntl.h>\n#include <linux/futex.h>\n#include <stdio.h>\n"
        "#include <sys/mman.h>\n#include <sys/syscall.h>\n#include <unistd.h>\n"
        "int\nmain(int argc, char **argv)\n{\n"
        "\tstruct naproxy_page *p = mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE,\n"
        "\t    MAP_SHARED, open(argv[argc - 1], O_RDWR), 0);\n"
        f"{body}\n}}\n"
    )
    program = tmp_path / "program"
    subprocess.run(["cc", "-O2", "-o", program, source], check=True)
    return program


TORN = r"""
	volatile struct naproxy_server *s = &p->server[0];
	unsigned seq, cap, limit, torn = 0, good = 0;
	puts("ready"); fflush(stdout);
	do {
		seq = __atomic_load_n(&s->seq, __ATOMIC_ACQUIRE);
		cap = s->hold_cap;
		limit = s->hold_limit_ms;
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (seq % 2 || seq != s->seq)
			continue;
		good++;
		torn += cap != limit;
	} while (cap != 1000000);
	printf("%u %u\n", good > 0, torn);
	return (0);
"""


def test_a_reader_never_sees_half_a_configuration(tmp_path: Path) -> None:
    shared = page.Page(tmp_path)
    program = compiled(tmp_path, TORN)
    with subprocess.Popen([program, shared.path], stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        reader.stdout.readline()
        for value in [*range(20000), 1000000]:
            with shared.configure(0) as record:
                record.hold_cap = value
                record.hold_limit_ms = value
        assert reader.stdout.read().split() == ["1", "0"]


WAIT = """
	puts("ready"); fflush(stdout);
	while (__atomic_load_n(&p->server[1].state, __ATOMIC_ACQUIRE) != NAPROXY_AWAKE)
		syscall(SYS_futex, &p->server[1].state, FUTEX_WAIT, NAPROXY_WAKING, NULL, NULL, 0);
	return (0);
"""


def test_a_change_of_state_wakes_a_waiter_in_another_process(tmp_path: Path) -> None:
    program = compiled(tmp_path, WAIT)
    shared = page.Page(tmp_path)
    shared.set_state(1, State.WAKING, 1)
    with subprocess.Popen([program, shared.path], stdout=subprocess.PIPE) as waiter:
        assert waiter.stdout is not None
        waiter.stdout.readline()
        blocked = Path(f"/proc/{waiter.pid}/wchan")
        while "futex" not in blocked.read_text() and waiter.poll() is None:
            os.sched_yield()
        assert shared.set_state(1, State.AWAKE, 2) == 1
        assert waiter.wait(10) == 0


@pytest.mark.parametrize(
    ("machine", "pointer", "number"),
    [
        ("x86_64", 8, 202),
        ("i686", 4, 240),
        ("x86_64", 4, 240),
        ("aarch64", 8, 98),
        ("armv7l", 4, 240),
    ],
)
def test_futex_has_its_number_on_every_board(machine: str, pointer: int, number: int) -> None:
    assert page.futex_number(machine, pointer) == number


def test_an_unknown_machine_is_named() -> None:
    with pytest.raises(RuntimeError, match="s390x"):
        page.futex_number("s390x", 8)


def test_a_word_written_while_it_is_read_is_read_again() -> None:
    torn = iter([0xFFFFFFFF, 0x1_00000000, 0x1_00000000])
    assert page.read_u64(lambda: next(torn)) == 0x1_00000000


def test_a_state_that_does_not_change_keeps_its_time(tmp_path: Path) -> None:
    shared = page.Page(tmp_path)
    shared.set_state(0, State.ASLEEP, 5)
    shared.set_state(0, State.ASLEEP, 9)
    assert shared.server(0).since_us == 5


def test_a_cleared_slot_forgets_its_server(tmp_path: Path) -> None:
    shared = page.Page(tmp_path)
    with shared.configure(0) as server:
        server.id = b"old"
    shared.server(0).delayed = 9
    shared.clear(0)
    assert shared.server(0).id == b""
    assert shared.server(0).delayed == 0


class Ring:
    """Writes records as the VMOD does."""

    def __init__(self, run_dir: Path) -> None:
        self.path = run_dir / "events"

    def write(self, number: int, *, complete: bool = True, delay_ms: int = 0) -> None:
        record = struct.pack(
            "=QQQQIIBBBBHBBQQ",
            number if complete else 0,
            number * 1000,
            7,
            8,
            delay_ms,
            0xFFFFFFFF,
            1,
            0,
            page.Outcome.HELD,
            page.E_NEEDED | page.E_PAGE_LOAD | page.E_OWN,
            200,
            0,
            3,
            9,
            10,
        )
        with self.path.open("r+b") as file:
            file.seek(16)
            file.write(struct.pack("=Q", number))
            file.seek(64 + (number - 1) % page.EVENTS * 64)
            file.write(record)


def test_records_are_read_once_and_in_order(tmp_path: Path) -> None:
    reader = events.Events(tmp_path)
    ring = Ring(tmp_path)
    for number in (1, 2, 3):
        ring.write(number, delay_ms=number)
    assert [(e.seq, e.delay_ms) for e in reader.read()] == [(1, 1), (2, 2), (3, 3)]
    assert list(reader.read()) == []


def test_a_record_says_what_the_vmod_wrote(tmp_path: Path) -> None:
    reader = events.Events(tmp_path)
    Ring(tmp_path).write(1, delay_ms=250)
    event = next(reader.read())
    flags = page.E_NEEDED | page.E_PAGE_LOAD | page.E_OWN
    assert event == events.Event(1, 1000, 7, 8, 250, 0xFFFFFFFF, 1, 0, 7, flags, 200, 0, 9, 10, 3)
    assert (event.needed, event.page_load, event.own, event.spent) == (True, True, True, False)


def test_records_run_over_are_counted_as_lost(tmp_path: Path) -> None:
    reader = events.Events(tmp_path)
    ring = Ring(tmp_path)
    for number in range(1, page.EVENTS + 4):
        ring.write(number)
    assert next(reader.read()).seq == 4
    assert reader.lost == 3


def test_a_record_begun_is_waited_for_and_then_given_up(tmp_path: Path) -> None:
    now = [0.0]
    reader = events.Events(tmp_path, clock=lambda: now[0])
    ring = Ring(tmp_path)
    ring.write(1, complete=False)
    ring.write(2)
    assert list(reader.read()) == []
    now[0] = HOLE_S + 0.1
    assert [e.seq for e in reader.read()] == [2]
    assert reader.lost == 1


def test_a_record_completed_late_is_not_lost(tmp_path: Path) -> None:
    reader = events.Events(tmp_path, clock=lambda: 0.0)
    ring = Ring(tmp_path)
    ring.write(1, complete=False)
    assert list(reader.read()) == []
    ring.write(1)
    assert [e.seq for e in reader.read()] == [1]
    assert reader.lost == 0


def test_a_restarted_reader_finds_what_the_ring_still_has(tmp_path: Path) -> None:
    events.Events(tmp_path).close()
    ring = Ring(tmp_path)
    ring.write(1)
    assert [e.seq for e in events.Events(tmp_path).read()] == [1]


def test_a_malformed_ring_is_set_aside(tmp_path: Path) -> None:
    (tmp_path / "events").write_bytes(b"nonsense")
    assert list(events.Events(tmp_path).read()) == []
    assert (tmp_path / "events.bad").exists()


def test_a_remembered_page_has_the_configuration_and_nothing_else(tmp_path: Path) -> None:
    made = page.Page(tmp_path)
    with made.configure(2) as server:
        server.id, server.port = b"web", 8080
    made.set_state(2, State.ASLEEP, 77)
    made.heartbeat(99)
    made.server(2).requests[0][0] = 5
    made.server(2).held_now = 1
    made.server(2).window_us[0] = 12
    made.layout.child_start_us = 3
    kept = page.Layout.from_buffer_copy(made.configuration())
    assert (kept.server[2].id, kept.server[2].port) == (b"web", 8080)
    assert (kept.heartbeat_us, kept.controller_pid, kept.child_start_us) == (0, 0, 0)
    assert (kept.server[2].state, kept.server[2].since_us) == (State.UNKNOWN, 0)
    behind = bytes(kept.server[2])[page.Server.held_now.offset :]
    assert not any(behind)


def test_a_remembered_page_has_no_addresses(tmp_path: Path) -> None:
    made = page.Page(tmp_path)
    with made.configure(None) as box:
        box.spent[3].who, box.spent[3].servers = 7, 1
    with made.configure(0) as server:
        server.spent_mask = 2
    made.layout.client[5].address = 8
    kept = page.Layout.from_buffer_copy(made.configuration())
    assert kept.server[0].spent_mask == 0
    assert not any(bytes(kept.spent) + bytes(kept.client))


def test_a_remembered_page_has_the_names_and_no_challenges(tmp_path: Path) -> None:
    made = page.Page(tmp_path)
    with made.naming() as layout:
        layout.names[0].name = b"www.example.org"
        layout.challenge[0].token = b"token"
    kept = page.Layout.from_buffer_copy(made.configuration())
    assert kept.names[0].name == b"www.example.org"
    assert kept.challenge[0].token == b""


def test_the_lock_of_the_names_is_their_own(tmp_path: Path) -> None:
    shared = page.Page(tmp_path)
    with shared.naming() as layout:
        assert (layout.names_seq, layout.seq) == (1, 0)
    assert (shared.layout.names_seq, shared.layout.seq) == (2, 0)


def test_a_remembered_page_is_taken_over(tmp_path: Path, said: list[str]) -> None:
    made = page.Page(tmp_path)
    with made.configure(0) as server:
        server.id = b"web"
    (tmp_path / "page").write_bytes(made.configuration())
    again = page.Page(tmp_path)
    assert again.server(0).id == b"web"
    assert said == []


def froze_us(opened: page.Page) -> int:
    return int(opened.server(0).froze_us)


def test_it_froze_when_it_began_to_fall_asleep_until_it_is_awake(tmp_path: Path) -> None:
    with closing(page.Page(tmp_path)) as opened:
        opened.heartbeat(page.monotonic_us())
        opened.set_state(0, State.FALLING_ASLEEP, 5)
        opened.set_state(0, State.ASLEEP, 6)
        opened.set_state(0, State.WAKING, 7)
        assert froze_us(opened) == 5
        opened.set_state(0, State.AWAKE, 8)
        assert froze_us(opened) == 0


@pytest.mark.parametrize(("away_us", "kept"), [(1_000_000, 5), (120_000_000, 0), (None, 0)])
def test_since_when_it_is_frozen_is_known_only_after_a_short_absence(
    tmp_path: Path, away_us: int | None, kept: int
) -> None:
    with closing(page.Page(tmp_path)) as opened:
        opened.set_state(0, State.ASLEEP, 5)
        opened.heartbeat(0 if away_us is None else page.monotonic_us() - away_us)
    with closing(page.Page(tmp_path)) as again:
        again.set_state(0, State.UNKNOWN, 9)
        assert froze_us(again) == kept
