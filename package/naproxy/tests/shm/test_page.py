import ctypes
import os
import re
import runpy
import stat
import struct
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from naproxy.core import page_h
from naproxy.core.state import State
from naproxy.shm import events, page
from naproxy.shm.ring import HOLE_S

HEADER = Path(__file__).parents[3] / "libvmod-naproxy" / "src" / "naproxy_page.h"

STRUCTURES = {
    {"Layout": "naproxy_page"}.get(name, f"naproxy_{name.lower()}"): found
    for name, found in vars(page_h).items()
    if isinstance(found, type) and issubclass(found, ctypes.Structure)
}
ENUMERATIONS = {
    page_h.State: "",
    page_h.Klass: "",
    page_h.Outcome: "",
    page_h.Cause: "WAKE_",
    page_h.RuleKind: "RULE_",
    page_h.Listen: "LISTEN_",
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
    text = HEADER.read_text()
    expected: dict[str, int] = {
        f"NAPROXY_{name}": getattr(page_h, name)
        for name in re.findall(r"^#define\s+NAPROXY_(\w+)[ \t]+\S", text, re.M)
    }
    for kind, begins in ENUMERATIONS.items():
        expected |= {f"NAPROXY_{begins}{each.name}": each for each in kind}
    assert set(re.findall(r"^\t(NAPROXY_\w+)\s*=", text, re.M)) <= set(expected)
    for name, structure in STRUCTURES.items():
        expected[f"sizeof(struct {name})"] = ctypes.sizeof(structure)
        for field, *_ in structure._fields_:
            descriptor = getattr(structure, field)
            expected[f"offsetof(struct {name}, {field})"] = descriptor.offset
            expected[f"sizeof(((struct {name} *)0)->{field})"] = descriptor.size
    assert said_by_c(tmp_path, list(expected)) == expected


def test_a_header_that_cannot_be_read_is_refused() -> None:
    made = runpy.run_path(str(Path(__file__).parents[2] / "page_h.py"))
    text = HEADER.read_text()
    for good, bad in (
        ("uint32_t\tmagic;", "double\tmagic;"),
        ("NAPROXY_ASLEEP = 3,", "NAPROXY_ASLEEP,"),
        ("O(1, STALE, stale, older, 0)", "O(1, STALE, stale)"),
        ("O(1, STALE, stale, older, 0)", "O(1, STALE, old, older, 0)"),
        ("C(KEPT, kept, STALE, kept)", "C(KEPT, kept)"),
        ("#define NAPROXY_WINDOW\t\t10", '#define NAPROXY_WINDOW\t\t"ten"'),
    ):
        assert good in text
        with pytest.raises(made["HeaderError"]):
            made["made_of"](text.replace(good, bad))


@pytest.fixture
def shared(tmp_path: Path) -> page.Page:
    return page.Page(tmp_path)


def test_a_new_page_is_complete_and_for_the_group_only(tmp_path: Path) -> None:
    page.Page(tmp_path).close()
    made = tmp_path / "page"
    assert made.stat().st_size == page_h.PAGE_SIZE
    assert stat.S_IMODE(made.stat().st_mode) == 0o660
    assert list(tmp_path.iterdir()) == [made]
    assert struct.unpack_from("=IIII", made.read_bytes()) == (
        page_h.PAGE_MAGIC,
        page_h.PAGE_VERSION,
        page_h.PAGE_SIZE,
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


def test_a_malformed_page_is_set_aside_and_said(tmp_path: Path, said: list[str]) -> None:
    def head(version: int = page_h.PAGE_VERSION, size: int = page_h.PAGE_SIZE) -> bytes:
        return struct.pack("=III", page_h.PAGE_MAGIC, version, size)

    for content in (
        *(b"", b"x" * page_h.PAGE_SIZE, head()),
        *(wrong.ljust(page_h.PAGE_SIZE, b"\0") for wrong in (head(version=99), head(size=4096))),
    ):
        said.clear()
        (tmp_path / "page").write_bytes(content)
        fresh = page.Page(tmp_path)
        assert fresh.layout.magic == page_h.PAGE_MAGIC, content[:20]
        assert (tmp_path / "page.bad").read_bytes() == content
        assert (len(said), "page.bad" in said[0]) == (1, True), content[:20]


def test_noise_behind_a_good_head_is_set_aside(tmp_path: Path, said: list[str]) -> None:
    head = struct.pack("=III", page_h.PAGE_MAGIC, page_h.PAGE_VERSION, page_h.PAGE_SIZE)
    (tmp_path / "page").write_bytes(head + b"\xa5" * (page_h.PAGE_SIZE - len(head)))
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


def test_the_lock_is_odd_while_a_server_is_configured_and_even_after(shared: page.Page) -> None:
    for before, during, after in ((0, 1, 2), (7, 7, 8)):  # a controller that died left it odd
        shared.server(0).seq = before
        with shared.configure(0) as server:
            assert server.seq == during
        assert shared.server(0).seq == after


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


def test_a_reader_never_sees_half_a_configuration(tmp_path: Path, shared: page.Page) -> None:
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


def test_a_change_of_state_wakes_another_process(tmp_path: Path, shared: page.Page) -> None:
    program = compiled(tmp_path, WAIT)
    shared.set_state(1, State.WAKING, 1)
    with subprocess.Popen([program, shared.path], stdout=subprocess.PIPE) as waiter:
        assert waiter.stdout is not None
        waiter.stdout.readline()
        blocked = Path(f"/proc/{waiter.pid}/wchan")
        while "futex" not in blocked.read_text() and waiter.poll() is None:
            os.sched_yield()
        assert shared.set_state(1, State.AWAKE, 2) == 1
        assert waiter.wait(10) == 0


def test_futex_has_its_number_on_every_board() -> None:
    for machine, pointer, number in (
        *(("x86_64", 8, 202), ("x86_64", 4, 240), ("i686", 4, 240)),
        *(("aarch64", 8, 98), ("armv7l", 4, 240)),
    ):
        assert page.futex_number(machine, pointer) == number, machine
    with pytest.raises(RuntimeError, match="s390x"):
        page.futex_number("s390x", 8)


def test_a_word_written_while_it_is_read_is_read_again() -> None:
    torn = iter([0xFFFFFFFF, 0x1_00000000, 0x1_00000000])
    assert page.read_u64(lambda: next(torn)) == 0x1_00000000


def test_a_state_that_does_not_change_keeps_its_time(shared: page.Page) -> None:
    shared.set_state(0, State.ASLEEP, 5)
    shared.set_state(0, State.ASLEEP, 9)
    assert shared.server(0).since_us == 5


FLAGS = page_h.E_NEEDED | page_h.E_PAGE_LOAD | page_h.E_OWN


class Ring:
    """Writes records as the VMOD does."""

    def __init__(self, run_dir: Path) -> None:
        self.path = run_dir / "events"
        self.now_s = 0.0

    def write(self, number: int, *, complete: bool = True, delay_ms: int = 0) -> None:
        record = struct.pack(
            "=QQQQIIBBBBHBBQQ",
            *(number if complete else 0, number * 1000, 7, 8, delay_ms, 0xFFFFFFFF),
            *(1, 0, page_h.Outcome.HELD, FLAGS, 200, 0, 3, 9, 10),
        )
        with self.path.open("r+b") as file:
            file.seek(16)
            file.write(struct.pack("=Q", number))
            file.seek(64 + (number - 1) % page_h.EVENTS * 64)
            file.write(record)


@pytest.fixture
def ring(tmp_path: Path) -> Ring:
    return Ring(tmp_path)


@pytest.fixture
def reader(tmp_path: Path, ring: Ring) -> events.Events:
    return events.Events(tmp_path, clock=lambda: ring.now_s)


def test_records_are_read_once_and_in_order(ring: Ring, reader: events.Events) -> None:
    for number in (1, 2, 3):
        ring.write(number, delay_ms=number)
    assert [(e.seq, e.delay_ms) for e in reader.read()] == [(1, 1), (2, 2), (3, 3)]
    assert list(reader.read()) == []


def test_a_record_says_what_the_vmod_wrote(ring: Ring, reader: events.Events) -> None:
    ring.write(1, delay_ms=250)
    event = next(reader.read())
    assert event == events.Event(1, 1000, 7, 8, 250, 0xFFFFFFFF, 1, 0, 7, FLAGS, 200, 0, 9, 10, 3)
    assert (event.needed, event.page_load, event.own, event.spent) == (True, True, True, False)


def test_records_run_over_are_counted_as_lost(ring: Ring, reader: events.Events) -> None:
    for number in range(1, page_h.EVENTS + 4):
        ring.write(number)
    assert next(reader.read()).seq == 4
    assert reader.lost == 3


def test_a_record_begun_is_waited_for_and_then_given_up(ring: Ring, reader: events.Events) -> None:
    ring.write(1, complete=False)
    ring.write(2)
    assert list(reader.read()) == []
    ring.now_s = HOLE_S + 0.1
    assert [e.seq for e in reader.read()] == [2]
    assert reader.lost == 1


def test_a_record_completed_late_is_not_lost(ring: Ring, reader: events.Events) -> None:
    ring.write(1, complete=False)
    assert list(reader.read()) == []
    ring.write(1)
    assert [e.seq for e in reader.read()] == [1]
    assert reader.lost == 0


def test_a_restarted_reader_finds_the_rings_records(
    tmp_path: Path, ring: Ring, reader: events.Events
) -> None:
    reader.close()
    ring.write(1)
    assert [e.seq for e in events.Events(tmp_path).read()] == [1]


def test_a_malformed_ring_is_set_aside(tmp_path: Path) -> None:
    (tmp_path / "events").write_bytes(b"nonsense")
    assert list(events.Events(tmp_path).read()) == []
    assert (tmp_path / "events.bad").exists()


def kept(shared: page.Page) -> page_h.Layout:
    """Return the page that is remembered for the next start."""
    return page_h.Layout.from_buffer_copy(shared.configuration())


def test_verified_pages_are_those_that_were_written_last(shared: page.Page) -> None:
    shared.verify(1, [3, 5, 7])
    assert list(shared.layout.verified[1])[:4] == [3, 5, 7, 0]
    before = shared.layout.seq
    shared.verify(1, [3, 5, 7])
    assert shared.layout.seq == before, "nothing is new to Varnish"
    shared.verify(1, [5])
    assert list(shared.layout.verified[1])[:2] == [5, 0]
    assert not any(shared.layout.verified[0])


def test_who_gets_a_slot_has_no_verified_pages(shared: page.Page) -> None:
    shared.verify(1, [3, 5, 7])
    shared.clear(1)
    assert not any(shared.layout.verified[1])


def test_a_remembered_page_has_the_configuration_and_nothing_else(shared: page.Page) -> None:
    with shared.configure(2) as server:
        server.id, server.port, server.spent_mask = b"web", 8080, 2
    with shared.configure(None) as box:
        box.spent[3].who, box.spent[3].servers = 7, 1
    with shared.naming() as layout:
        layout.names[0].name = b"www.example.org"
        layout.challenge[0].token = b"token"
    shared.set_state(2, State.ASLEEP, 77)
    shared.heartbeat(99)
    shared.server(2).requests[0][0] = 5
    shared.server(2).held_now = 1
    shared.server(2).window_us[0] = 12
    shared.layout.client[5].address = 8
    shared.verify(2, [9])
    shared.layout.child_start_us = 3
    found = kept(shared)
    server = found.server[2]
    assert (server.id, server.port, server.spent_mask) == (b"web", 8080, 0)
    assert (found.heartbeat_us, found.controller_pid, found.child_start_us) == (0, 0, 0)
    assert (server.state, server.since_us) == (State.UNKNOWN, 0)
    assert not any(bytes(server)[page_h.Server.held_now.offset :])
    assert not any(bytes(found.spent) + bytes(found.client) + bytes(found.verified))
    assert (found.names[0].name, found.challenge[0].token) == (b"www.example.org", b"")


def test_the_lock_of_the_names_is_their_own(shared: page.Page) -> None:
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


def test_it_froze_when_it_began_to_fall_asleep_until_it_is_awake(shared: page.Page) -> None:
    shared.heartbeat(page.monotonic_us())
    for at_us, state in ((5, State.FALLING_ASLEEP), (6, State.ASLEEP), (7, State.WAKING)):
        shared.set_state(0, state, at_us)
    assert shared.server(0).froze_us == 5
    shared.set_state(0, State.AWAKE, 8)
    assert shared.server(0).froze_us == 0


@pytest.mark.parametrize(("away_us", "kept"), [(1_000_000, 5), (120_000_000, 0), (None, 0)])
def test_a_short_absence_keeps_froze_us(tmp_path: Path, away_us: int | None, kept: int) -> None:
    with closing(page.Page(tmp_path)) as opened:
        opened.set_state(0, State.ASLEEP, 5)
        opened.heartbeat(0 if away_us is None else page.monotonic_us() - away_us)
    with closing(page.Page(tmp_path)) as again:
        again.set_state(0, State.UNKNOWN, 9)
        assert again.server(0).froze_us == kept
