import contextlib
import gzip
import io
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from naproxy.lab.estimate.accesslog import LINE_MAX, Entry, Log, Malformed, parse

COMMON = '192.0.2.1 - - [27/Jan/2024:00:00:02 +0000] "GET /a?b=c HTTP/1.1" 200 29663'
BROWSER = "Mozilla/5.0 (X11)"
COMBINED = f'{COMMON} "http://www.example.org/" "{BROWSER}"'
T_S = int(datetime(2024, 1, 27, 0, 0, 2, tzinfo=UTC).timestamp())


def at(stamp: str) -> int:
    return parse(COMMON.replace("27/Jan/2024:00:00:02 +0000", stamp)).t_s


def requesting(request: str) -> str:
    return COMBINED.replace("GET /a?b=c HTTP/1.1", request)


def why(line: str) -> str:
    with pytest.raises(Malformed) as error:
        parse(line)
    return str(error.value)


def write(path: Path, *lines: str) -> Path:
    path.write_bytes("".join(line + "\n" for line in lines).encode("latin-1"))
    return path


def test_common_format() -> None:
    assert parse(COMMON) == Entry(T_S, "192.0.2.1", "GET", "/a?b=c", 200, 29663, "", "")


def test_fields_of_a_line_are_read() -> None:
    for line, fields in (
        (COMBINED, {"referer": "http://www.example.org/", "agent": BROWSER}),
        (COMBINED + ' "10.0.0.1" 0.003 "x"', {"agent": BROWSER}),
        (COMMON + ' "-" "-"', {"referer": "", "agent": ""}),
        (COMMON.replace("29663", "-"), {"size": 0}),
        (COMMON + "\r", {"size": 29663}),
        (COMBINED + "\r", {"agent": BROWSER}),
        (COMMON.replace("192.0.2.1", "2001:db8::1"), {"host": "2001:db8::1"}),
        (COMMON.replace("- - [", "- John [boss] Smith ["), {"t_s": T_S}),
        (COMMON + r' "-" "ends in \\"', {"agent": "ends in \\"}),
        (COMMON + r' "-" "a \"b\" c"', {"agent": 'a "b" c'}),
        (COMMON + r' "-" "a \x22b\x22 c"', {"agent": 'a "b" c'}),
        # Four escaped quotes in a common line do not make it a combined one.
        (COMMON.replace("/a?b=c", r"/\"\"\"\""), {"path": '/""""', "agent": ""}),
        (requesting(r"GET /\xc3\xa9\t\x22 HTTP/1.1"), {"path": '/\xc3\xa9\t"'}),
        (requesting("GET /a b c HTTP/1.1"), {"path": "/a b c"}),
        (requesting("GET /old"), {"path": "/old"}),
        (requesting("PROPFIND / HTTP/1.1"), {"method": "PROPFIND"}),
    ):
        entry = parse(line)
        assert {name: getattr(entry, name) for name in fields} == fields, line


def test_offset_and_leap_second_are_part_of_the_time() -> None:
    for of_day in ("27/Jan/2024:01:00:02 +0100", "26/Jan/2024:14:30:02 -0930"):
        assert at(of_day) == T_S, of_day
    assert at("27/Jan/2024:05:45:02 +0545") == T_S
    assert at("31/Dec/2016:23:59:60 +0000") == at("01/Jan/2017:00:00:00 +0000")


def test_impossible_time_is_malformed() -> None:
    for stamp in (
        "30/Feb/2024:00:00:00 +0000",
        "27/Foo/2024:00:00:00 +0000",
        "27/anF/2024:00:00:00 +0000",
        "27/Jan/0000:00:00:00 +0000",
        "27/Jan/2024:24:00:00 +0000",
        "27/Jan/2024:00:60:00 +0000",
        "27/Jan/2024:00:00:61 +0000",
        "27/Jan/2024:00:00:-1 +0000",
        "27/Jan/2024:00:00:02 +00x0",
        "27/Jan/2024:00:00:02 +0060",
        "27/Jan/2024 00:00:02 +0000",
    ):
        assert "time" in why(COMMON.replace("27/Jan/2024:00:00:02 +0000", stamp)), stamp


def test_client_that_sent_no_http_is_malformed() -> None:
    for nothing in ("-", ""):
        assert why(requesting(nothing)) == "the client sent no request"
    for junk in (r"\x16\x03\x01\x02", "\x16\x03\x01", "SSH-2.0-Go", "GET", "GET "):
        assert why(requesting(junk)) == "the client did not speak HTTP", junk


def test_malformed_line_says_why() -> None:
    for line, reason in (
        ("", "the line is empty"),
        (" \t", "the line is empty"),
        ("hello", 'no "request" in quotes'),
        (COMBINED[:-3], "the line is cut, or a quote in it is not escaped"),
        (COMBINED[:60], "the line is cut, or a quote in it is not escaped"),
        (COMBINED.replace("X11", 'a "b'), "the line is cut, or a quote in it is not escaped"),
        (COMMON.replace("192.0.2.1", ""), "no client address at the beginning"),
        ("\0\0\0" + COMMON, "no client address at the beginning"),
        (COMMON.replace("192.0.2.1", "\xe9"), "no client address at the beginning"),
        (COMMON.replace("[", ""), "no [time] before the request"),
        ('a "GET / HTTP/1.1" 200 1', "no [time] before the request"),
        (COMMON.replace(" 200 29663", ""), "no status and size after the request"),
        (COMMON.replace("200 29663", "200"), "no status and size after the request"),
        (COMMON.replace("200", "000"), "no status and size after the request"),
        (COMMON.replace("200", "2000"), "no status and size after the request"),
        (COMMON.replace("29663", "-5"), "no status and size after the request"),
        (COMMON.replace("29663", "1_0"), "no status and size after the request"),
        (COMMON.replace("29663", "\xb2"), "no status and size after the request"),
        (COMMON.replace("29663", "9" * 5000), "no status and size after the request"),
        (COMMON.replace("/a", "/" * LINE_MAX), f"the line is longer than {LINE_MAX} bytes"),
    ):
        assert why(line) == reason, line


@given(st.text(st.characters(max_codepoint=255)))
def test_any_line_parses_or_is_malformed(line: str) -> None:
    for hostile in (line, COMBINED.replace("X11", line), COMMON.replace("/a?b=c", line)):
        with contextlib.suppress(Malformed):
            parse(hostile)


@given(st.integers(0, 4102444799))
def test_any_time_is_read_back(t_s: int) -> None:
    moment = datetime.fromtimestamp(t_s, UTC)
    assert at(moment.strftime("%d/%b/%Y:%H:%M:%S +0000")) == t_s


def test_files_are_read_in_the_order_given(tmp_path: Path) -> None:
    one = write(tmp_path / "1", COMMON, COMMON)
    two = write(tmp_path / "2", COMBINED)
    log = Log([two, one])
    assert [bool(entry.agent) for entry in log] == [True, False, False]
    assert log.lines == 3


def test_gzip_is_told_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    # Rotated logs are often concatenated: two members.
    path.write_bytes(gzip.compress(f"{COMMON}\n".encode()) + gzip.compress(f"{COMMON}\n".encode()))
    assert len(list(Log([path]))) == 2


def test_damaged_gzip_gives_what_was_readable_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "access.log.gz"
    cut = gzip.compress(f"{COMMON}\n".encode() * 30_000)[:-6]
    for damaged, readable in ((cut, True), (b"\x1f\x8b\x08\x00" + b"\xff" * 200, False)):
        path.write_bytes(damaged)
        log = Log([path])
        assert bool(list(log)) == readable
        assert log.malformed == {"the file is damaged or cut here": 1}


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.BufferedReader(io.BytesIO(f"{COMMON}\n{COMMON}".encode()))
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=stream))
    assert len(list(Log(["-"]))) == 2


def test_malformed_lines_are_counted_and_the_first_few_named(tmp_path: Path) -> None:
    path = write(tmp_path / "log", COMMON, *["junk" * 100] * 7, COMMON, "")
    log = Log([path])
    assert len(list(log)) == 2
    assert log.malformed == {'no "request" in quotes': 7, "the line is empty": 1}
    first = log.examples[0]
    assert (first.file, first.line, first.why) == (str(path), 2, 'no "request" in quotes')
    assert len(log.examples) == 5
    assert len(first.text) <= 120


def test_huge_line_is_skipped_in_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("wb") as file:
        file.write(f"{COMMON}\n".encode())
        for _ in range(5):
            file.write(b"x" * (1 << 20))
        file.write(f"\n{COMMON}\n".encode())
    log = Log([path])
    assert len(list(log)) == 2
    assert log.malformed == {f"the line is longer than {LINE_MAX} bytes": 1}


def test_iterating_again_starts_again(tmp_path: Path) -> None:
    log = Log([write(tmp_path / "log", COMMON, "junk")])
    assert len(list(log)) == len(list(log)) == 1
    assert (log.lines, log.malformed.total(), len(log.examples)) == (2, 1, 1)
