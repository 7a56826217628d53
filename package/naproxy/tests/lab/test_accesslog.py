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
COMBINED = COMMON + ' "http://www.example.org/" "Mozilla/5.0 (X11)"'
T_S = int(datetime(2024, 1, 27, 0, 0, 2, tzinfo=UTC).timestamp())


def at(stamp: str) -> int:
    return parse(COMMON.replace("27/Jan/2024:00:00:02 +0000", stamp)).t_s


def requesting(request: str) -> Entry:
    return parse(COMBINED.replace("GET /a?b=c HTTP/1.1", request))


def why(line: str) -> str:
    with pytest.raises(Malformed) as error:
        parse(line)
    return str(error.value)


def write(path: Path, *lines: str) -> Path:
    path.write_bytes("".join(line + "\n" for line in lines).encode("latin-1"))
    return path


def test_common_format() -> None:
    assert parse(COMMON) == Entry(T_S, "192.0.2.1", "GET", "/a?b=c", 200, 29663, "", "")


def test_combined_format() -> None:
    entry = parse(COMBINED)
    assert (entry.referer, entry.agent) == ("http://www.example.org/", "Mozilla/5.0 (X11)")


def test_combined_with_further_fields() -> None:
    assert parse(COMBINED + ' "10.0.0.1" 0.003 "x"').agent == "Mozilla/5.0 (X11)"


def test_dash_is_no_referer_and_no_agent() -> None:
    entry = parse(COMMON + ' "-" "-"')
    assert (entry.referer, entry.agent) == ("", "")


def test_dash_is_no_body() -> None:
    assert parse(COMMON.replace("29663", "-")).size == 0


def test_carriage_return_at_the_end() -> None:
    assert parse(COMMON + "\r").size == 29663
    assert parse(COMBINED + "\r").agent == "Mozilla/5.0 (X11)"


def test_ipv6_client() -> None:
    assert parse(COMMON.replace("192.0.2.1", "2001:db8::1")).host == "2001:db8::1"


def test_user_name_with_spaces_and_brackets() -> None:
    assert parse(COMMON.replace("- - [", "- John [boss] Smith [")).t_s == T_S


def test_time_zones() -> None:
    assert at("27/Jan/2024:01:00:02 +0100") == T_S
    assert at("26/Jan/2024:14:30:02 -0930") == T_S
    assert at("27/Jan/2024:05:45:02 +0545") == T_S


def test_leap_second_is_the_next_minutes_first() -> None:
    assert at("31/Dec/2016:23:59:60 +0000") == at("01/Jan/2017:00:00:00 +0000")


def test_year_wraps() -> None:
    assert at("01/Jan/2024:00:00:00 +0000") - at("31/Dec/2023:23:59:59 +0000") == 1


@pytest.mark.parametrize(
    "stamp",
    [
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
    ],
)
def test_impossible_time(stamp: str) -> None:
    assert "time" in why(COMMON.replace("27/Jan/2024:00:00:02 +0000", stamp))


@pytest.mark.parametrize("quote", [r"\"", r"\x22"])
def test_escaped_quotes_are_part_of_the_text(quote: str) -> None:
    line = COMMON.replace("/a?b=c", f"/{quote}") + f' "-" "a {quote}b{quote} c"'
    assert (parse(line).path, parse(line).agent) == ('/"', 'a "b" c')


def test_escaped_backslash_before_the_closing_quote() -> None:
    assert parse(COMMON + r' "-" "ends in \\"').agent == "ends in \\"


def test_four_escaped_quotes_do_not_look_like_the_combined_format() -> None:
    entry = parse(COMMON.replace("/a?b=c", r"/\"\"\"\""))
    assert (entry.path, entry.agent) == ('/""""', "")


def test_escaped_bytes_and_controls() -> None:
    assert requesting(r"GET /\xc3\xa9\t HTTP/1.1").path == "/\xc3\xa9\t"


def test_path_with_spaces() -> None:
    assert requesting("GET /a b c HTTP/1.1").path == "/a b c"


def test_http_0_9_names_no_version() -> None:
    assert requesting("GET /old").path == "/old"


def test_unusual_method() -> None:
    assert requesting("PROPFIND / HTTP/1.1").method == "PROPFIND"


@pytest.mark.parametrize("request_line", ["-", ""])
def test_client_that_sent_nothing(request_line: str) -> None:
    line = COMBINED.replace("GET /a?b=c HTTP/1.1", request_line)
    assert why(line) == "the client sent no request"


@pytest.mark.parametrize("junk", [r"\x16\x03\x01\x02", "\x16\x03\x01", "SSH-2.0-Go", "GET", "GET "])
def test_client_that_did_not_speak_http(junk: str) -> None:
    line = COMBINED.replace("GET /a?b=c HTTP/1.1", junk)
    assert why(line) == "the client did not speak HTTP"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
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
    ],
)
def test_malformed_line_says_why(line: str, reason: str) -> None:
    assert why(line) == reason


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


def test_cut_gzip_gives_what_was_readable_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "access.log.gz"
    path.write_bytes(gzip.compress(f"{COMMON}\n".encode() * 5)[:-6])
    log = Log([path])
    list(log)
    assert log.malformed == {"the gzip file is damaged or cut here": 1}


def test_gzip_of_garbage_says_so(tmp_path: Path) -> None:
    path = tmp_path / "access.log.gz"
    path.write_bytes(b"\x1f\x8b\x08\x00" + b"\xff" * 200)
    log = Log([path])
    assert list(log) == []
    assert log.malformed == {"the gzip file is damaged or cut here": 1}


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.BufferedReader(io.BytesIO(f"{COMMON}\n{COMMON}".encode()))
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=stream))
    assert len(list(Log(["-"]))) == 2


def test_empty_file(tmp_path: Path) -> None:
    assert list(Log([write(tmp_path / "empty")])) == []


def test_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        list(Log([tmp_path / "missing"]))


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
    assert (log.lines, log.malformed.total()) == (2, 1)
