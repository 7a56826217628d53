"""Logs of every kind of server are read alike, or a doubt is named."""

from __future__ import annotations

import bz2
import codecs
import gzip
import json
import lzma
import random
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import log_formats
import pytest
import zstandard
from log_formats import FORMATS, WITHOUT_AGENT, combined, common, iis
from naproxy.cli import __main__ as cli
from naproxy.lab.estimate import estimate
from naproxy.lab.estimate.accesslog import Entry, Log

START_S = 1_704_067_200  # 1 January 2024, a Monday
DAY_S = 86400
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:121.0) Gecko/20100101 Firefox/121.0"
GOOGLE = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"
KUMA = "Mozilla/5.0+(compatible; UptimeRobot/2.0; http://www.uptimerobot.com/)"


def office(days: int = 4) -> Iterator[Entry]:
    """People by day, Google and a monitor all the time."""
    chance = random.Random(1)
    for minute in range(0, days * 1440, 5):
        t_s = START_S + minute * 60
        yield Entry(t_s + 2, "203.0.113.9", "GET", "/", 200, 1234, "", KUMA)
        if chance.random() < 0.3:
            path = f"/p{chance.randrange(90)}.html"
            yield Entry(t_s + 9, "198.51.100.4", "GET", path, 200, 1234, "", GOOGLE)
        if 8 <= minute // 60 % 24 < 18 and chance.random() < 0.5:
            host, page = f"192.0.2.{chance.randrange(40)}", f"/a{chance.randrange(9)}.html?b=1"
            yield Entry(t_s + 30, host, "GET", page, 200, 5000, "", FIREFOX)
            link = f"http://www.example.org{page}"
            yield Entry(t_s + 31, host, "GET", "/style.css", 304, 0, link, FIREFOX)


OFFICE = list(office())


class Said(NamedTuple):
    status: int
    out: str
    err: str
    summary: dict[str, Any]

    @property
    def doubts(self) -> list[str]:
        return [each["code"] for each in self.summary["doubts"]]

    @property
    def problems(self) -> list[str]:
        return [each["code"] for each in self.summary["problems"]]


def estimated(tmp_path: Path, *args: str | Path) -> Said:
    """Run the command on one log, for the box's own policy."""
    file = tmp_path / "summary.json"
    file.unlink(missing_ok=True)
    options = ["--policy", "teacher", "--jobs", "1", "--summary", str(file)]
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        status = cli.main(["estimate", *map(str, args), *options])
    [summary] = json.loads(file.read_text()) if file.exists() else [{}]
    return Said(status, out.getvalue(), err.getvalue(), summary)


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), "latin-1")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("formats")
    log_formats.write(made, OFFICE)
    return made


@pytest.fixture(scope="module")
def reference(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    said = estimated(tmp_path_factory.mktemp("reference"), folder / "combined.log")
    assert said.status == 0, said
    verdict: dict[str, Any] = said.summary["verdict"]
    return verdict


LEFT_OUT: dict[str, Callable[[Entry], Entry]] = {
    # IIS writes a space as it writes a plus, and this one no size.
    "iis": lambda entry: entry._replace(size=0, agent=entry.agent.replace("+", " ")),
    "logfmt": lambda entry: entry._replace(referer=""),
    "aws-alb": lambda entry: entry._replace(referer=""),
}
"""What a format does not say."""


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_is_found_out_and_every_line_read(folder: Path, name: str) -> None:
    log = Log([folder / f"{name}.log"])
    found = list(log)
    assert found == list(map(LEFT_OUT.get(name, Entry._make), OFFICE))
    assert (log.malformed.total(), log.lines) == (0, len(OFFICE))


@pytest.mark.parametrize(
    "name",
    [
        *("vhost", "host-before-referer", "forwarded-list", "behind-many-proxies", "syslog"),
        *("docker-compose", "kubernetes", "journalctl-json", "caddy", "traefik", "nginx-json"),
        *("nginx-proxy-manager", "haproxy", "aws-alb", "iis", "cloudfront"),
    ],
)
def test_the_verdict_is_the_same_in_every_format(
    folder: Path, tmp_path: Path, reference: dict[str, Any], name: str
) -> None:
    said = estimated(tmp_path, folder / f"{name}.log")
    assert said.status == 0, said
    assert said.summary["verdict"]["buy"] == reference["buy"]
    assert said.summary["verdict"]["kwh_a_year"] == pytest.approx(reference["kwh_a_year"], rel=0.02)


@pytest.mark.parametrize("name", FORMATS)
def test_what_was_understood_is_told(folder: Path, name: str) -> None:
    log = Log([folder / f"{name}.log"])
    next(iter(log))
    [found] = log.formats
    assert FORMATS[name].name in f"{found.name}; {found.client}"


def test_what_was_understood_comes_first(folder: Path, tmp_path: Path) -> None:
    said = estimated(tmp_path, folder / "vhost.log")
    first = said.out.splitlines()[0]
    assert first == (f"vhost: combined with virtual host; client in field 2; {len(OFFICE)} lines")


def test_a_format_that_changes_in_a_file_is_followed(tmp_path: Path) -> None:
    half = len(OFFICE) // 2
    for one, other in (("combined", "vhost"), ("vhost", "combined"), ("combined", "caddy")):
        lines = [FORMATS[one].line(entry) for entry in OFFICE[:half]]
        lines += [FORMATS[other].line(entry) for entry in OFFICE[half:]]
        log = Log([write(tmp_path / "a.log", lines)])
        assert list(log) == OFFICE, (one, other)
        assert len(log.formats) == 2
        assert log.malformed.total() == 0


@pytest.mark.parametrize(
    "form",
    [
        # Captured headers in HAProxy's CLF, and its format's empty fields.
        '{e.host} - - [{clf}] "{request}" {e.status} {e.size} "" "" 33317 658 "{{{e.agent}}}"',
        "{iso} | {e.host} | {e.method} | {e.path} | {e.status} | {e.size} | {e.agent}",
        # What connected is named first, then a list of which the first is the visitor.
        '10.0.0.1 {e.host}, 172.68.1.1 - - [{clf}] "{request}" {e.status} {e.size} "-" "{e.agent}"',
        # Amazon's storage, Envoy, the log of a Kubernetes ingress.
        '79a5 bucket [{clf}] {e.host} 79a5 3E57 REST.GET.OBJECT - "{request}" {e.status} - {e.size}'
        ' - 7 - "-" "{e.agent}" - s9lz= SigV2',
        '[{iso}] "{request}" {e.status} - 0 {e.size} 3 2 "{e.host}" "{e.agent}" "abc"'
        ' "10.0.0.1:80"',
        '{e.host} - - [{clf}] "{request}" {e.status} {e.size} "-" "{e.agent}" 478 0.003 [web-80] []'
        " 10.1.2.3:8080 5000 0.003 200 9d6f",
        # Names of visitors, behind the virtual host's.
        'www.example.org:80 v{e.host}.example.net - - [{clf}] "{request}" {e.status} 1 "-"'
        ' "{e.agent}"',
        # Amazon's older load balancer: a client with its port is not a program of syslog's.
        "{iso} my-elb {e.host}:2817 10.0.0.1:80 0.00007 0.001 0.00005 {e.status} {e.status} 0"
        ' {e.size} "{e.method} http://www.example.org:80{e.path} HTTP/1.1" "{e.agent}" - -',
        # Varnish and Squid write whole addresses.
        '{e.host} - - [{clf}] "{e.method} http://www.example.org{e.path} HTTP/1.1" {e.status}'
        ' {e.size} "-" "{e.agent}"',
        # Cloudflare's nanoseconds, and Apache's time in brackets, in objects.
        '{{"ClientIP":"{e.host}","ClientRequestMethod":"{e.method}","ClientRequestURI":"{e.path}",'
        '"EdgeStartTimestamp":{e.t_s}123456789,"EdgeResponseStatus":{e.status},'
        '"ClientRequestUserAgent":"{e.agent}"}}',
        '{{"time":"[{clf}]","remoteIP":"{e.host}","method":"{e.method}","request":"{e.path}",'
        '"status":"{e.status}","userAgent":"{e.agent}"}}',
        # Times that look like statuses.
        '{e.host} - - [{clf}] "{request}" {t} {e.status} {e.size} "-" "{e.agent}"',
    ],
)
def test_fields_in_any_order_are_found(tmp_path: Path, form: str) -> None:
    lines = [
        form.format(
            e=entry,
            t=entry.t_s // 300 * 37 % 499 + 100,
            clf=log_formats.clf(entry),
            iso=log_formats.iso(entry),
            request=log_formats.request(entry),
        )
        for entry in OFFICE
    ]
    found = list(Log([write(tmp_path / "a.log", lines)]))
    host = "v{}.example.net" if "v{e.host}" in form else "{}"
    assert [(e.t_s, e.host, e.path, e.status, e.agent) for e in found] == [
        (e.t_s, host.format(e.host), e.path, e.status, e.agent) for e in OFFICE
    ]


def test_lines_of_iis_are_read_where_their_header_is_lost(tmp_path: Path) -> None:
    found = list(Log([write(tmp_path / "a.log", [iis(entry) for entry in OFFICE])]))
    assert [entry[:5] for entry in found] == [entry[:5] for entry in OFFICE]


def test_user_agents_of_amazon_have_their_spaces_without_a_header_too(tmp_path: Path) -> None:
    lines = [
        f"{e.t_s}.123\t{e.host}\t0.01\t{e.status}\t{e.size}\t{e.method}\thttps\twww.example.org"
        f"\t{e.path}\t300\tFRA\t{e.agent.replace(' ', '%20')}\t-"
        for e in OFFICE
    ]
    found = list(Log([write(tmp_path / "a.log", lines)]))
    assert {entry.agent for entry in found} == {entry.agent for entry in OFFICE}


# ------------------------------------------------------------------------------- doubts


def no_verdict(tmp_path: Path, *args: str | Path) -> Said:
    said = estimated(tmp_path, *args)
    assert said.status == 3, said
    assert said.summary["verdict"] is None
    assert "uy it" not in said.out
    # The doubt stands before the figures, and instead of the advice.
    assert said.out.index("No verdict: ") < said.out.index("policy  ")
    assert said.out.splitlines()[-1].startswith("No verdict: ")
    return said


@pytest.mark.parametrize("name", WITHOUT_AGENT)
def test_a_log_without_user_agents_gets_no_verdict(tmp_path: Path, name: str) -> None:
    lines = [WITHOUT_AGENT[name](entry) for entry in OFFICE]
    assert no_verdict(tmp_path, write(tmp_path / "a.log", lines)).doubts == ["log.no_agents"]


def test_a_log_that_had_no_user_agents_at_first_gets_no_verdict(tmp_path: Path) -> None:
    third = len(OFFICE) // 3
    lines = [*map(common, OFFICE[:third]), *map(combined, OFFICE[third:])]
    assert no_verdict(tmp_path, write(tmp_path / "a.log", lines)).doubts == ["log.no_agents"]


def test_words_of_a_user_agent_without_quotes_are_no_user_agent(tmp_path: Path) -> None:
    lines = [f"{common(entry)} {entry.agent}" for entry in OFFICE]
    assert no_verdict(tmp_path, write(tmp_path / "a.log", lines)).doubts == ["log.no_agents"]


def test_a_log_of_a_proxys_address_gets_no_verdict(tmp_path: Path) -> None:
    lines = [combined(entry, "10.0.0.1") for entry in OFFICE]
    assert no_verdict(tmp_path, write(tmp_path / "a.log", lines)).doubts == ["log.one_client"]
    # Cloudflare's are many.
    lines = [combined(entry, f"172.68.{n % 7}.{n % 50}") for n, entry in enumerate(OFFICE)]
    assert no_verdict(tmp_path, write(tmp_path / "a.log", lines)).doubts == ["log.only_proxies"]


def test_a_log_with_another_client_in_each_line_gets_no_verdict(tmp_path: Path) -> None:
    lines = [combined(entry, f"r{n:06}") for n, entry in enumerate(OFFICE)]
    assert no_verdict(tmp_path, write(tmp_path / "a.log", lines)).doubts == ["log.client_each"]


def test_a_log_with_a_file_missing_gets_no_verdict(tmp_path: Path) -> None:
    lines = [
        combined(entry._replace(t_s=entry.t_s + (7 * DAY_S if n > len(OFFICE) // 2 else 0)))
        for n, entry in enumerate(OFFICE)
    ]
    assert no_verdict(tmp_path, write(tmp_path / "a.log", lines)).doubts == ["log.holes"]


def test_a_log_without_one_of_its_daily_files_gets_no_verdict(tmp_path: Path) -> None:
    lines = [combined(entry) for entry in OFFICE if (entry.t_s - START_S) // DAY_S != 1]
    assert no_verdict(tmp_path, write(tmp_path / "a.log", lines)).doubts == ["log.holes"]


@pytest.mark.parametrize("days", [5, 7, 21])
def test_quiet_nights_and_weekends_of_an_intranet_do_not_count_as_gaps(
    tmp_path: Path, days: int
) -> None:
    chance = random.Random(5)
    lines = [
        combined(Entry(t_s, f"192.168.1.{t_s % 60}", "GET", f"/{t_s % 99}", 200, 9, "", FIREFOX))
        for day in range(days)
        if day % 7 < 5
        for t_s in sorted(chance.sample(range(28_800, 64_800), 1000))
        for t_s in [START_S + day * DAY_S + t_s]
    ]
    said = estimated(tmp_path, write(tmp_path / "a.log", lines))
    assert (said.status, said.problems) == (0, [])


def test_a_log_of_which_a_tenth_has_no_user_agent_gets_no_verdict(tmp_path: Path) -> None:
    lines = [combined(e if n % 8 else e._replace(agent="")) for n, e in enumerate(OFFICE)]
    assert no_verdict(tmp_path, write(tmp_path / "a.log", lines)).doubts == ["log.no_agents"]


@pytest.mark.parametrize("count", [1, 10, 100])
def test_a_log_of_a_few_lines_or_hours_gets_no_verdict(tmp_path: Path, count: int) -> None:
    lines = [combined(entry) for entry in OFFICE[:count]]
    assert no_verdict(tmp_path, write(tmp_path / "a.log", lines)).doubts == ["log.short"]


def test_a_file_without_a_readable_line_among_others_is_named(tmp_path: Path) -> None:
    write(tmp_path / "a.log", [combined(entry) for entry in OFFICE])
    (tmp_path / "a.log.1").write_bytes(random.Random(2).randbytes(9000))
    (tmp_path / "a.log.2").write_bytes(b"")
    said = no_verdict(tmp_path, *sorted(tmp_path.glob("a.log*")))
    [doubt] = said.summary["doubts"]
    assert (doubt["code"], doubt["params"]["file"]) == ("log.unread", "a.log.1")


def test_a_log_of_which_half_is_unreadable_gets_no_verdict(tmp_path: Path) -> None:
    lines = [text for entry in OFFICE for text in ("panic: of something", combined(entry))]
    lines.append("panic: once more")
    said = no_verdict(tmp_path, write(tmp_path / "a.log", lines))
    assert said.doubts == ["log.malformed"]
    assert (
        'skipped (first: line 1, no "request" in quotes: panic: of something)'
        in said.out.splitlines()[0]
    )


@pytest.mark.parametrize("year", [2038, 1970])
def test_a_line_of_an_impossible_year_is_left_out_and_named(
    tmp_path: Path, reference: dict[str, Any], year: int
) -> None:
    for place in (0, len(OFFICE) // 2, len(OFFICE)):
        lines = [combined(entry) for entry in OFFICE]
        odd = combined(OFFICE[0]).replace("/2024:", f"/{year}:")
        lines.insert(place, odd)
        said = estimated(tmp_path, write(tmp_path / "a.log", lines))
        assert said.status == 0
        assert said.summary["verdict"]["kwh_a_year"] == pytest.approx(reference["kwh_a_year"])
        [problem] = said.summary["problems"]
        assert problem["code"] == "log.wrong_years"
        assert (problem["params"]["count"], problem["params"]["line"]) == (1, place + 1)


def test_a_log_over_several_years_is_read_to_its_end(tmp_path: Path) -> None:
    entries = [
        Entry(START_S + n * DAY_S, "192.0.2.1", "GET", f"/{n}", 200, 1, "", FIREFOX)
        for n in range(1500)
    ]
    assert list(Log([write(tmp_path / "a.log", [combined(each) for each in entries])])) == entries


def test_two_sites_in_one_file_are_sorted_and_reported(
    tmp_path: Path, reference: dict[str, Any]
) -> None:
    lines = [combined(entry) for entry in (*OFFICE[::2], *OFFICE[1::2])]
    said = estimated(tmp_path, write(tmp_path / "a.log", lines))
    assert said.problems == ["log.overlap"]
    assert said.summary["verdict"]["kwh_a_year"] == pytest.approx(reference["kwh_a_year"], rel=0.02)


# -------------------------------------------------------------------------------- files

TEXT = "".join(f"{combined(entry)}\n" for entry in OFFICE).encode()
PACKED: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda data: zstandard.compress(data[:9000]) + zstandard.compress(data[9000:]),
    "utf-16": lambda data: data.decode().replace("\n", "\r\n").encode("utf-16"),
    "utf-16-le without a mark": lambda data: data.decode().encode("utf-16-le"),
    "utf-16-be without a mark": lambda data: data.decode().encode("utf-16-be"),
    "utf-8 with a mark": lambda data: codecs.BOM_UTF8 + data,
    "utf-16 in gz": lambda data: gzip.compress(data.decode().encode("utf-16")),
    "carriage returns": lambda data: data.replace(b"\n", b"\r"),
}


@pytest.mark.parametrize("how", PACKED)
def test_a_file_is_unpacked_and_decoded(tmp_path: Path, how: str) -> None:
    path = tmp_path / "access"
    path.write_bytes(PACKED[how](TEXT))
    assert list(Log([path])) == OFFICE


@pytest.mark.parametrize("how", ["gz", "bz2", "xz"])
def test_a_cut_file_gives_what_was_readable_and_says_so(tmp_path: Path, how: str) -> None:
    path = tmp_path / "access"
    # Of a block that is not complete bzip2 unpacks nothing.
    data = PACKED[how](TEXT * (20 if how == "bz2" else 1))
    path.write_bytes(data[: len(data) * 2 // 3])
    log = Log([path])
    found = list(log)
    assert len(found) > len(OFFICE) // 2
    assert found[: len(OFFICE)] == OFFICE[: len(found)]
    assert log.damaged == ["the file is damaged or cut here"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"PK\x03\x04" + b"x" * 100, "this is a zip archive, not a log: unpack it first"),
        (gzip.compress(b"a.log" + bytes(252) + b"ustar\x0000" + bytes(247)), "a tar archive"),
        (b"ElfFile\0" + bytes(100), "a log of Windows' Event Viewer"),
    ],
    ids=["zip", "tar", "evtx"],
)
def test_an_archive_is_refused_in_words(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(content)
    said = estimated(tmp_path, path)
    assert said.status == 1
    assert words in said.err
    assert not said.out


def test_a_box_without_zstd_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(PACKED["zst"](TEXT))
    monkeypatch.setitem(__import__("sys").modules, "zstandard", None)
    said = estimated(tmp_path, path)
    assert said.status == 1
    assert "use unzstd first, or install Python's zstandard" in said.err


@pytest.mark.parametrize(
    "names",
    [
        ["localhost_access_log.2024-01-%02d.txt", "txt"],
        ["access_log.2024-01-%02d-00_00_00", ""],
        ["access.log.17040672%02d", ""],
        ["u_ex2401%02d.log", ""],
        ["u_ex2401%02d_x.log", ""],
        ["access-2024-01-%02dT00-00-00.000.log.gz", ""],
        ["E2ABC.2024-01-%02d-13.0a1b2c3d.gz", ""],
        ["1_elb_eu_app.web.50dc_202401%02dT0005Z_172.160.1.192_20sg8hgm.log.gz", ""],
        ["access.log.%d.xz", ""],
        ["2024/01/%02d/access.log", ""],
    ],
    ids=lambda names: str(names[0]),
)
def test_daily_files_are_one_log(tmp_path: Path, names: list[str]) -> None:
    form = names[0]
    files = []
    for day in (3, 1, 2, 4):
        some = [each for each in OFFICE if (each.t_s - START_S) // DAY_S == day - 1]
        file = tmp_path / (form % day)
        file.parent.mkdir(parents=True, exist_ok=True)
        if form.startswith("u_ex"):
            text = FORMATS["iis"].header + "".join(f"{iis(entry)}\n" for entry in some)
        else:
            text = "".join(f"{combined(entry)}\n" for entry in some)
        data = text.encode()
        packed = PACKED.get(file.suffix[1:])
        file.write_bytes(packed(data) if packed else data)
        files.append(file)
    [(_, grouped)] = estimate.group([str(file) for file in files])
    assert len(list(Log(grouped))) == len(OFFICE)
    assert grouped == sorted(map(str, files))


def test_a_header_in_the_middle_changes_the_columns(tmp_path: Path) -> None:
    half = len(OFFICE) // 2
    other = "#Fields: time c-ip cs-method cs-uri-stem sc-status cs(User-Agent) date"
    lines = FORMATS["iis"].header.splitlines() + [iis(entry) for entry in OFFICE[:half]]
    lines += ["#Software: IIS", other]
    for entry in OFFICE[half:]:
        day, clock = log_formats.when(entry, "%Y-%m-%d %H:%M:%S").split()
        agent = entry.agent.replace(" ", "+")
        path = entry.path.partition("?")[0]
        lines.append(f"{clock} {entry.host} GET {path} {entry.status} {agent} {day}")
    found = list(Log([write(tmp_path / "u_ex240101.log", lines)]))
    assert [(each.t_s, each.host, each.agent) for each in found] == [
        (each.t_s, each.host, each.agent.replace("+", " ")) for each in OFFICE
    ]


# ------------------------------------------------------------------------------ --format

DESCRIBED = {
    "goaccess": '%h %^[%d:%t %^] "%r" %s %b "%R" "%u"',
    "goaccess-name": "COMBINED",
    "apache": r"%h %l %u %t \"%r\" %>s %b \"%{Referer}i\" \"%{User-Agent}i\"",
    "nginx": '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent'
    ' "$http_referer" "$http_user_agent"',
}


@pytest.mark.parametrize("who", DESCRIBED)
def test_a_described_format_is_read(
    folder: Path, tmp_path: Path, reference: dict[str, Any], who: str
) -> None:
    said = estimated(tmp_path, folder / "combined.log", f"--format={DESCRIBED[who]}")
    assert said.status == 0, said
    assert said.summary["verdict"]["kwh_a_year"] == pytest.approx(reference["kwh_a_year"])
    assert DESCRIBED[who] in said.out.splitlines()[0]


def test_a_format_that_is_not_found_out_is_read_as_described(tmp_path: Path) -> None:
    lines = [
        f"{e.status}!{e.host}!{log_formats.when(e, '%d.%m.')}!{e.t_s}!{e.method}!{e.path}!{e.agent}"
        for e in OFFICE
    ]
    path = write(tmp_path / "a.log", lines)
    assert no_verdict(tmp_path, path).doubts[0] == "log.empty"
    said = estimated(tmp_path, path, "--format=%s!%h!%^!%x!%m!%U!%u")
    assert said.status == 0, said
    assert sum(said.summary["requests"].values()) == len(OFFICE)


@pytest.mark.parametrize(
    ("described", "words"),
    [
        ("%h%h %x", "two fields with nothing between them"),
        ("%h %r %s", "has no time"),
        ("(a+)+$", "has no client's address"),
        ("%h %Z", "%Z, which Apache does not know"),
        ("%h " * 1000, "longer than"),
    ],
)
def test_a_format_that_cannot_be_used_is_refused(
    folder: Path, tmp_path: Path, described: str, words: str
) -> None:
    said = estimated(tmp_path, folder / "combined.log", f"--format={described}")
    assert said.status == 2
    assert words in said.err


# ------------------------------------------------------------------------------- hostile

HOSTILE: dict[str, bytes] = {
    "a line of 10 MB": b"x" * (10 << 20) + b"\n",
    "NULs": b"\0" * (1 << 20),
    "binary": random.Random(1).randbytes(1 << 20),
    "a bomb": gzip.compress(b"\0" * (96 << 20)),
    "a bomb of lines": gzip.compress(b"\n" * (96 << 20)),
    "deep JSON": b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"\n",
    "deep JSON, again and again": (b'{"a":' * 9_000 + b"1" + b"}" * 9_000 + b"\n") * 100,
    "open brackets": (b"[ " * 30_000 + b"\n") * 40,
    "open quotes": (b'a="\\" ' * 9_000 + b"\n") * 40,
    "addresses": (b"1.2.3.4, " * 7_000 + b"\n") * 40,
    "fields": b"#Fields: " + b"date time " * 5_000 + b"\n" + (b"1 " * 10_000 + b"\n") * 40,
    "numbers": b"9" * 60_000 + b"\n",
    "pairs": (b"a=1 " * 15_000 + b"\n") * 40,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_soon(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(HOSTILE[name])
    begun_s = time.process_time()
    assert no_verdict(tmp_path, path).doubts[0] == "log.empty"
    assert time.process_time() - begun_s < 20


@pytest.mark.parametrize("name", [n for n, each in HOSTILE.items() if each[:2] != b"\x1f\x8b"])
def test_a_hostile_line_among_others_is_skipped(tmp_path: Path, name: str) -> None:
    for form in ("combined", "caddy", "iis", "haproxy"):
        made = FORMATS[form]
        lines = [made.line(entry) for entry in OFFICE[:300]]
        path = write(tmp_path / "a.log", [*made.header.splitlines(), *lines])
        with path.open("ab") as file:
            file.write(HOSTILE[name])
        log = Log([path])
        assert sum(1 for _ in log) == 300, form
        assert log.malformed.total() >= (name != "NULs"), form


def test_a_catastrophic_line_takes_no_time(tmp_path: Path) -> None:
    lines = [combined(entry) for entry in OFFICE[:10]] + ['"' + "\\" * 60_000, "%" * 60_000] * 20
    begun_s = time.process_time()
    described = "--format=" + " ".join(["%^"] * 40) + " %h %x %r %s"
    said = estimated(tmp_path, write(tmp_path / "a.log", lines), described)
    assert said.status == 3
    assert time.process_time() - begun_s < 20


def test_a_common_log_says_why_no_verdict_is_given(tmp_path: Path) -> None:
    said = no_verdict(tmp_path, write(tmp_path / "a.log", [common(entry) for entry in OFFICE]))
    assert "cannot tell robots from people" in said.out
