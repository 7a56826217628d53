"""A log is estimated in a child process: bounded, one at a time, and its result kept."""

from __future__ import annotations

import gzip
import lzma
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from naproxy_webui.options import Settings
from naproxy_webui.pages.traffic import estimates as module
from naproxy_webui.pages.traffic.estimates import Estimates, Question

from tests.patience import PATIENCE_S

START_S = 1_700_438_400
QUESTION = {
    "on_w": 43.3,
    "off_w": 1.6,
    "proxy_w": 5,
    "wake_s": 5,
    "fraction": 0.5,
    "delta_s": 1,
    "price": 0.3,
}
Make = Callable[..., Estimates]
Log = list[tuple[str, Path]]
ASKED = Question(43.3, 1.6, 5, 5, 0.01, 1)


def line(t_s: int, path: str = "/") -> str:
    when = datetime.fromtimestamp(START_S + t_s, UTC).strftime("%d/%b/%Y:%H:%M:%S +0000")
    return (
        f'192.0.2.{t_s // 1800 % 50} - - [{when}] "GET {path} HTTP/1.1" 200 100 "-" "Mozilla/5.0"\n'
    )


LOG = "".join(line(t, f"/{t}") for t in range(0, 4 * 86400, 1800)).encode()


def sent(client: FlaskClient, data: bytes = LOG, name: str = "access.log") -> str:
    body = {"name": name, "size": len(data), "kind": "log"}
    upload = client.post("/api/uploads", json=body).json
    assert client.put(f"/api/uploads/{upload['id']}?offset=0", data=data).status_code == 200
    return str(upload["id"])


def ask(client: FlaskClient, *uploads: str, **changes: Any) -> Any:
    body = {"uploads": list(uploads), **QUESTION, **changes}
    return client.post("/api/traffic/estimate", json=body)


def ended(how: Callable[[], Any]) -> Any:
    """Wait until the state is not `running`."""
    end_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < end_s:
        said = how()
        if said["state"] != "running":
            return said
        time.sleep(0.02)
    raise AssertionError("it runs and runs")


def result(client: FlaskClient) -> dict[str, Any]:
    made = ended(lambda: client.get("/api/traffic/estimate").json)
    assert made["state"] == "done", made
    return {**made, "logs": client.get("/api/traffic/estimate/result").json["logs"]}


def test_a_log_is_estimated(client: FlaskClient) -> None:
    for name in ("access.log", "access.log.gz"):
        data = gzip.compress(LOG) if name.endswith("gz") else LOG
        answer = ask(client, sent(client, data, name))
        assert answer.status_code == 202, answer.text
        assert answer.json["state"] == "running", name
        made = result(client)
        assert made["entries"] <= 192, name
        assert made["names"] == [name], name
        [log] = made["logs"]
        assert log["requests"]["person"] == 192, name
        assert log["verdict"]["buy"] is True, name
        assert log["verdict"]["money_a_year"] > 0, name
        assert log["server"]["power"]["on_w"] == 43.3, name


def test_files_of_one_rotated_log_are_one_but_of_the_same_name_two(client: FlaskClient) -> None:
    half = LOG.index(b"\n", len(LOG) // 2) + 1
    newer, older = sent(client, LOG[half:]), sent(client, LOG[:half], "access.log.1")
    ask(client, newer, older)
    [log] = result(client)["logs"]
    assert log["requests"]["person"] == 192
    assert not [p for p in log["problems"] if p["code"] == "log.back"]
    # The files are kept for another question.
    assert ask(client, newer, sent(client), on_w=100).status_code == 202
    logs = result(client)["logs"]
    assert [each["server"]["power"]["on_w"] for each in logs] == [100, 100]


def test_a_hostile_name_is_neither_a_path_nor_an_option(
    client: FlaskClient, settings: Settings
) -> None:
    names = ["../../../etc/passwd", "--html=/tmp/x", "..", "a\0b", "<b>.log", " ", "\\\\x\\y", "-"]
    ask(client, *(sent(client, name=name) for name in names))
    made = result(client)
    assert made["names"] == names
    assert [log["requests"]["person"] for log in made["logs"]] == [192] * len(names)
    kept = {str(p.relative_to(settings.state_dir)) for p in settings.state_dir.rglob("*")}
    assert {p for p in kept if p.startswith("estimate")} == {
        *("estimate", "estimate/state.json", "estimate/result"),
        *(f"estimate/result/{n}" for n in ("report.html", "summary.json", "rows.json")),
    }


def test_a_result_reports_an_incomplete_log(client: FlaskClient) -> None:
    photo = sent(client, b"\x89PNG\r\n\x1a\n" * 100, "photo.png")
    ask(client, photo, sent(client, gzip.compress(LOG)[:-20], "access.log.gz"))
    no_log, cut_off = result(client)["logs"]
    said = {p["code"]: p["words"] for p in no_log["problems"]}
    assert said["log.empty"] == "The file holds no request. Is it an access log?"
    assert no_log["from_s"] is None
    assert "log.cut" in [p["code"] for p in cut_off["problems"]]


def test_a_log_in_doubt_has_a_result_without_a_verdict(client: FlaskClient) -> None:
    common = "".join(text.split(' "-"')[0] + "\n" for text in LOG.decode().splitlines())
    ask(client, sent(client, common.encode()))
    [log] = result(client)["logs"]
    assert log["verdict"] is None
    assert [each["words"] for each in log["doubts"]] == [
        "192 of 192 requests have no user agent, so the box cannot tell robots from people."
    ]
    assert log["understood"][0]["words"] == "common; client in field 1; 192 lines"


def test_a_compressed_log_of_iis_is_estimated(client: FlaskClient) -> None:
    head = "#Fields: date time c-ip cs-method cs-uri-stem sc-status cs(User-Agent)\r\n"
    lines = (
        f"{datetime.fromtimestamp(START_S + t_s, UTC):%Y-%m-%d %H:%M:%S} 192.0.2.{t_s // 1800 % 50}"
        f" GET /{t_s} 200 Mozilla/5.0+(X11)\r\n"
        for t_s in range(0, 4 * 86400, 1800)
    )
    ask(client, sent(client, lzma.compress((head + "".join(lines)).encode()), "u_ex231120.log.xz"))
    [log] = result(client)["logs"]
    assert log["verdict"]["buy"] is True
    assert log["understood"][0]["words"].startswith("IIS (W3C); client in c-ip")


def test_invalid_requests_are_refused(client: FlaskClient) -> None:
    upload = sent(client)
    cases: list[tuple[dict[str, Any], int, str | None]] = [
        ({"on_w": 1}, 422, "on_w"),
        ({"fraction": 0}, 400, "fraction"),
        ({"uploads": []}, 400, "uploads"),
        ({"uploads": ["../secret"]}, 404, None),
        ({"uploads": ["x" * 22]}, 404, None),
        ({"options": "--jobs=99"}, 400, "options"),
    ]
    for changes, status, where in cases:
        answer = ask(client, upload, **changes)
        assert (answer.status_code, answer.json["where"]) == (status, where), changes
    assert client.get("/api/traffic/estimate").json["state"] == "none"


def test_a_file_that_is_not_whole_or_no_log_is_refused(client: FlaskClient) -> None:
    for size, kind in ((9, "log"), (1, "image")):
        asked = {"name": "a", "size": size, "kind": kind}
        upload = client.post("/api/uploads", json=asked).json["id"]
        client.put(f"/api/uploads/{upload}?offset=0", data=b"x")
        assert ask(client, upload).status_code == 422, kind


def test_a_full_disk_is_said_at_once(client: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    upload = sent(client)
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    assert ask(client, upload).status_code == 507


def test_a_result_outlives_the_interface_and_can_be_forgotten(
    app: Flask, client: FlaskClient, settings: Settings
) -> None:
    ask(client, sent(client))
    before = result(client)
    app.extensions.pop("naproxy_estimates")
    assert result(client) == before
    client.delete("/api/traffic/estimate")
    assert client.get("/api/traffic/estimate").json["state"] == "none"
    assert client.get("/api/traffic/estimate/report").status_code == 404
    assert not (settings.state_dir / "estimate").exists()


# --------------------------------------------------------- the child, another program in its place


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Make]:
    """Return a function that makes one with a program of Python code."""
    all_of_them: list[Estimates] = []

    def make(code: str, longest_s: float = PATIENCE_S) -> Estimates:
        program = [sys.executable, "-c", code]
        found = Estimates(
            tmp_path / "estimate", program, replace(module.LIMITS, longest_s=longest_s)
        )
        all_of_them.append(found)
        return found

    yield make
    for each in all_of_them:
        each.stop()


@pytest.fixture
def log(tmp_path: Path) -> Log:
    (tmp_path / "upload").write_bytes(LOG)
    return [("access.log", tmp_path / "upload")]


def run(estimates: Estimates, log: Log) -> Any:
    estimates.start(log, ASKED)
    return ended(lambda: {"state": estimates.progress.state}) and estimates.progress


SLEEP = "import time; time.sleep(60)"


def test_one_runs_at_a_time(app: Flask, made: Make, log: Log) -> None:
    estimates = made(SLEEP)
    estimates.start(log, ASKED)
    with (
        app.test_request_context(),
        pytest.raises(module.ApiError, match="running already") as refused,
    ):
        estimates.start(log, ASKED)
    assert refused.value.status == 409


def test_it_can_be_cancelled_and_leaves_nothing(made: Make, log: Log, tmp_path: Path) -> None:
    estimates = made(SLEEP)
    estimates.start(log, ASKED)
    estimates.cancel()
    assert ended(lambda: {"state": estimates.progress.state}) == {"state": "cancelled"}
    assert list((tmp_path / "estimate").iterdir()) == []
    assert log[0][1].exists()


def test_a_slow_one_is_ended(made: Make, log: Log) -> None:
    assert run(made(SLEEP, 0.2), log).why == "time"


def test_a_large_one_is_ended(made: Make, log: Log) -> None:
    # It waits until the limit is set, which is a moment after its start.
    code = (
        "import resource, time\n"
        "while resource.getrlimit(resource.RLIMIT_AS)[0] < 0: time.sleep(0.01)\n"
        f"x = bytearray({module.LIMITS.memory_bytes})"
    )
    assert run(made(code), log).why == "memory"


def test_the_child_is_as_nice_as_can_be(made: Make, log: Log) -> None:
    code = "import os, time, sys\nwhile os.nice(0) < 19: time.sleep(0.01)\nsys.exit('nice')"
    assert run(made(code), log).words.strip() == "nice"


def test_the_programs_words_are_told(made: Make, log: Log) -> None:
    failed = run(made("import sys; sys.exit('the moon is full')"), log)
    assert (failed.state, failed.why, failed.words) == ("failed", "words", "the moon is full\n")


def test_progress_is_followed_and_nonsense_is_not(made: Make, log: Log, tmp_path: Path) -> None:
    code = f"""
import os, sys, time
for said in ('{{"log": "a", "stage": "reading", "share": 0.25, "entries": 7}}', '[]', '{{}}', 'x',
             '{{"log": "a", "stage": "boiling", "share": 2}}', '{{"log": "a", "problem": "odd"}}'):
    print(said, file=sys.stderr, flush=True)
while not os.path.exists({str(tmp_path / "go")!r}): time.sleep(0.01)
"""
    estimates = made(code)
    estimates.start(log, ASKED)
    end_s = time.monotonic() + PATIENCE_S
    while estimates.progress.entries != 7 and time.monotonic() < end_s:
        time.sleep(0.01)
    found = estimates.progress
    assert (found.stage, found.share, found.entries) == ("reading", 0.25, 7)
    (tmp_path / "go").touch()
    # Nothing was written, so there is no result.
    assert ended(lambda: {"state": estimates.progress.state}) == {"state": "failed"}


def test_endless_words_are_cut(made: Make, log: Log) -> None:
    code = "import sys\nfor _ in range(2000): sys.stderr.write('x' * 1000)\nsys.exit(1)"
    assert len(run(made(code), log).words) <= 2000


def test_a_result_that_is_too_large_fails(
    made: Make,
    log: Log,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_SUMMARY_BYTES", 3)
    code = "for name in ('report.html', 'summary.json'): open(name, 'w').write('12345')"
    assert run(made(code), log).state == "failed"
