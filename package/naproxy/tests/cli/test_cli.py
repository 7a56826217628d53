import json
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from naproxy.api import client
from naproxy.api import command as asking
from naproxy.cli import __main__ as cli
from naproxy.cli import certificate, commands
from naproxy.core.reason import Reason, own_words, plain, together

Printed = pytest.CaptureFixture[str]

NOW_S = time.mktime((2026, 3, 1, 14, 15, 0, 0, 0, -1))
IDLE = Reason("policy.idle", idle_s=63)
WAITS = Reason("policy.idle_of", idle_s=3, least_s=5)


def server(**changes: Any) -> dict[str, Any]:
    return {
        "id": "web",
        "state": "awake",
        "since_s": NOW_S - 720,
        "reason": Reason("server.up_after", took_s=4.2).plain(),
        "mode": "auto",
        "mode_until_s": None,
        "held": 0,
        "over_share": {"addresses": 0, "networks": 0, "robots": False},
        "eta_s": None,
        "inhibitors": [],
        "appointments": [],
        "engines": [],
        "warming": {"fetches": 0, "took_s": 0.0, "since_s": None, "wakes_avoided": 0},
        "pages": {"on": False},
        "calendar": None,
        "sleeps_itself": None,
        "alert": None,
        "not_armed": None,
        "rungs": [],
        "commissioning": None,
        "decision": {"sleep": False, "reason": WAITS.plain(), "next_check_s": None},
        **changes,
    }


def told(**changes: Any) -> list[str]:
    return [line.strip() for line in commands.describe(server(**changes), NOW_S)]


def at(seconds: float) -> str:
    return commands.clock(NOW_S + seconds, NOW_S)


def test_a_sleeping_servers_status_is_one_line_with_the_reason() -> None:
    reason = together(IDLE, Reason("policy.budget", used=2, allowed=20))
    idle = "Nobody had needed it for 63 s."
    budget = "2 of 20 allowed waits are used up."
    assert told(state="asleep", reason=reason.plain()) == [
        f"web  asleep since 14:03 (12 min): {idle} {budget}"
    ]


ENGINE = {"name": "Google", "crawls": False, "served_s": NOW_S - 60, "let_in_s": None}
ENGINE["refused_since_s"] = None
WARMED = {"fetches": 9, "took_s": 1.4, "since_s": NOW_S - 86400, "wakes_avoided": 3}
CHECKED = {"on": True, "verified": 12, "settling": 3, "answered": 40, "old": 2}
WANTS = {"sleep": True, "reason": IDLE.plain(), "next_check_s": None}


def test_a_status_has_a_line_for_whatever_else_is_known() -> None:
    coming = [{"t_s": NOW_S + 60, "name": "backup.timer"}, {"t_s": NOW_S + 86400, "name": "b"}]
    choir = {"t_s": NOW_S + 60, "end_s": NOW_S + 3660, "name": "Choir"}
    problem = Reason("server.calendar_status", status=404).plain()
    not_tested = Reason("server.not_commissioned", server="web")
    busy = plain([Reason("server.kept_awake"), Reason("server.fetching", number=2)])
    visits = {"today": 41, "yesterday": 0, "total": 99, "how": "ssh"}
    refused = {**ENGINE, "refused_since_s": NOW_S - 9, "let_in_s": NOW_S - 60}
    unseen = {**ENGINE, "served_s": None}
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, f"does not sleep: {WAITS}"),
        (
            {"decision": WANTS, "inhibitors": busy},
            "It would sleep (Nobody had needed it for 63 s), but:"
            " It is kept awake by hand. It is answering requests now (2).",
        ),
        ({"state": "waking", "eta_s": 3.2}, "expected up in 3 s"),
        ({"state": "waking", "eta_s": 0.0}, "expected up in 1 s"),
        ({"state": "waking", "held": 7}, "requests waiting for it: 7"),
        (
            {"over_share": {"addresses": 2, "networks": 0, "robots": True}},
            "over their share of it today: 2 addresses, robots",
        ),
        ({"state": "trouble", "alert": own_words("no").plain()}, "ALERT: no"),
        (
            {"appointments": coming},
            f"its own appointments: backup.timer, {at(60)}; b, {at(86400)}",
        ),
        (
            {"calendar": {"events": [choir], "problem": problem}},
            "ITS CALENDAR: The answer for it has the status 404.",
        ),
        (
            {"calendar": {"events": [choir], "problem": None}},
            f"by its calendar: Choir, {at(60)} to {at(3660)}",
        ),
        (
            {"warming": WARMED},
            f"the cache before its sleeps: 3 wakes avoided since {at(-86400)[:10]}, took 1 s",
        ),
        ({"pages": CHECKED}, "pages that are the same for everybody: 12, 3 more are being checked"),
        ({"pages": CHECKED}, "pages answered while it slept: 40, 2 of them out of date"),
        ({"engines": [ENGINE]}, f"search engine Google: answered last {at(-60)}"),
        (
            {"engines": [refused]},
            f"search engine Google: refused since {at(-9)}; it woke it {at(-60)}",
        ),
        ({"engines": [unseen]}, "search engine Google: no visit is known"),
        ({"not_armed": not_tested.plain()}, f"does not sleep by itself: {not_tested}"),
        (
            {"https": {"sight": None, "around": visits}},
            "41 visits today did not come through the box",
        ),
        ({"mode": "awake", "mode_until_s": NOW_S + 3600}, "kept awake until 15:15"),
    ]
    for changes, line in cases:
        assert line in told(**changes), changes


def test_a_cache_that_was_warmed_before_a_sleep_that_failed_has_no_since() -> None:
    assert told(warming={**WARMED, "since_s": None, "wakes_avoided": 0}) == told()


def test_obstacles_to_https_are_printed_once() -> None:
    sight = Reason("server.https_around", port=443)
    https = {"sight": sight.plain(), "around": None}
    assert "\n".join(told(not_armed=sight.plain(), https=https)).count(str(sight)) == 1
    tripped = Reason("server.tripped", why=own_words("it did not wake"), server="web")
    assert told(not_armed=tripped.plain(), https=https)[-1] == f"HTTPS: {sight}"


def test_reasons_against_sleep_and_arming_are_printed_once() -> None:
    sight = Reason("server.https_around", port=443)
    https = {"sight": sight.plain(), "around": None}
    more = {"decision": WANTS, "inhibitors": plain([sight]), "https": https}
    for why in (sight, Reason("server.tripped", why=own_words("no"), server="web")):
        lines = told(not_armed=why.plain(), **more)
        assert "\n".join(lines).count(str(sight)) == 1, why
    assert lines[-1] == f"does not sleep by itself: {why}"


def test_a_span_of_time_reads_easily() -> None:
    for seconds, words in (
        *((0, "14:15 (0 s)"), (99, "14:13 (99 s)"), (720, "14:03 (12 min)")),
        *((7200, "12:15 (2 h)"), (400000, "(5 days)"), (-3, "(0 s)")),
        (86400, "2026-02-28 14:15 (24 h)"),
    ):
        assert told(since_s=NOW_S - seconds)[0].count(words) == 1, seconds


def refused(*arguments: str) -> str:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    return str(ended.value.code)


def test_a_bad_command_line_is_refused(capsys: Printed) -> None:
    for arguments in (
        ("mode", "web", "asleep"),
        ("mode", "web", "awake", "--for", "soon"),
        ("mode", "web", "awake", "--until", "25:61"),
        ("mode", "web", "awake", "--until", "18:00", "--for", "2h"),
        ("wake",),
        ("nonsense",),
        (),
    ):
        assert refused(*arguments) == "2", arguments
        assert "error: " in capsys.readouterr().err, arguments


def test_help_lists_every_command_that_is_there(capsys: Printed) -> None:
    assert refused("--help") == "0"
    said = capsys.readouterr().out
    for command in ("controller", "status", "wake", "sleep", "mode", "journal", "wakes", "config"):
        assert re.search(rf"^ +{command}\s", said, re.M)


def test_a_command_whose_module_is_missing_does_not_break_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: Printed
) -> None:
    monkeypatch.setitem(cli.COMMANDS, "estimate", "naproxy.no_such_module")
    assert refused("--help") == "0"
    assert "status" in capsys.readouterr().out


def test_a_missing_or_dead_socket_is_said(tmp_path: Path, capsys: Printed) -> None:
    path = tmp_path / "control.sock"
    assert cli.main(["status", "--socket", str(path)]) == 1
    assert f"no controller runs: there is no {path}" in capsys.readouterr().err
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(path))
    assert cli.main(["status", "--socket", str(path)]) == 1
    assert "nobody listens" in capsys.readouterr().err


def test_times_of_a_command_are_printed_in_the_offices_zone(
    monkeypatch: pytest.MonkeyPatch, capsys: Printed
) -> None:
    now = server()
    status = {"box": {"time_zone": "Asia/Kathmandu"}, "servers": [now]}

    def ask(_path: str, _method: str, target: str, *_: Any, **__: Any) -> client.Answer:
        return client.Answer(200, status if target == "/v1/status" else now)

    monkeypatch.setattr(asking, "ask", ask)
    since = datetime.fromtimestamp(now["since_s"], ZoneInfo("Asia/Kathmandu"))
    for command in (("wake", "web"), ("sleep", "web"), ("mode", "web", "auto"), ("arm", "web")):
        now["state"] = "asleep" if command[0] == "sleep" else "awake"
        assert cli.main([*command, "--socket", "none"]) == 0, command
        assert f"{since:%H:%M} (" in capsys.readouterr().out, command


@pytest.fixture
def answering(tmp_path: Path) -> Iterator[tuple[Path, list[bytes]]]:
    """A socket that gives the first of the answers to whoever asks."""
    path, answers = tmp_path / "control.sock", [b""]
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    listening.listen()

    def serve() -> None:
        while True:
            try:
                peer, _ = listening.accept()
            except OSError:
                return
            with peer:
                peer.recv(65536)
                peer.sendall(answers[0])

    threading.Thread(target=serve, daemon=True).start()
    yield path, answers
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()


def test_a_controller_that_answers_nonsense_is_said(
    answering: tuple[Path, list[bytes]], capsys: Printed
) -> None:
    for words in (b"", b"garbage\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n<p>"):
        path, answers = answering
        answers[0] = words
        assert cli.main(["status", "--socket", str(path)]) == 1, words
        assert "does not answer" in capsys.readouterr().err, words


def test_an_answer_that_comes_before_the_body_was_read_is_told(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    refusal = b'HTTP/1.1 413 X\r\nContent-Length: 18\r\n\r\n{"error": "large"}'
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()

        def serve() -> None:
            with listening.accept()[0] as peer:
                peer.recv(100)
                peer.sendall(refusal)

        server = threading.Thread(target=serve)
        server.start()
        answer = client.ask(str(path), "PUT", "/v1/config", b"x" * (4 << 20))
        server.join()
    assert (answer.status, answer.body) == (413, {"error": "large"})


def test_config_check_tells_all_errors_and_old_keys(tmp_path: Path, capsys: Printed) -> None:
    file = tmp_path / "naproxy.toml"
    for text, status, words in (
        (None, 1, ["No such file"]),
        (
            "[box]\nnotise = 1\nproxy_w = -9\n",
            1,
            [
                "box.notise: is not known; did you mean notice?",
                "box.proxy_w: must be 0 to 10000",
            ],
        ),
        (
            '[box]\nhelper = "/usr/sbin/naproxy-system"\n',
            0,
            ["warning: box.helper: is now --helper"],
        ),
    ):
        if text is not None:
            file.write_text(text)
        assert cli.main(["config", "check", str(file)]) == status, text
        said = capsys.readouterr().err
        assert [each for each in words if each not in said] == [], text


def test_config_keys_are_listed_as_json_too(capsys: Printed) -> None:
    assert cli.main(["config", "keys", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert "office.name" in [key["path"] for key in listed["keys"]]


def test_a_closed_pipe_is_not_an_error() -> None:
    # `true` has ended long before Python has started.
    done = subprocess.run(
        ["sh", "-c", '"$0" -m naproxy.cli config keys | true', sys.executable],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""


def said_of(asked: list[str] | None, source: str = "acme", **more: Any) -> list[str]:
    nothing = {"names": [], "not_after_s": None, "notes": []}
    said = {"id": "issued", "source": source, "asked": asked, "next_try_s": NOW_S, **nothing}
    return [line.strip() for line in certificate.describe({**said, **more})]


def test_a_certificate_is_told_by_whether_it_is_there() -> None:
    at = time.strftime("%Y-%m-%d %H:%M", time.localtime(NOW_S))
    assert said_of(["a.example", "b.example"]) == [
        "issued: a.example, b.example, not there yet",
        f"next try: {at}",
    ]
    assert said_of([], "upload", next_try_s=None) == ["issued: not there yet"]
    assert said_of(None, "upload", next_try_s=None) == ["issued: not readable"]
    [_, line] = said_of(None, names=["a.example"])
    assert line.startswith("the box has it issued anew at ")
