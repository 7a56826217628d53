import json
import os
import re
import signal
import socket
import sqlite3
import struct
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from box import Box
from naproxy.api.client import ask
from naproxy.api.table import ROUTES
from naproxy.core import page_h
from naproxy.core.page_h import Outcome
from naproxy.core.reason import Reason, reason_of
from naproxy.core.state import Klass, State
from naproxy.history.read import recorded
from naproxy.history.read.queries import open_history

from tests.patience import PATIENCE_S, wait_for

NOBODY = 65534


def test_a_server_sleeps_when_told_and_wakes_by_a_magic_packet_when_needed(box: Box) -> None:
    box.sleep()
    assert box.server.packets == 0
    box.ask_for_wake()
    box.wait(State.AWAKE)
    assert box.server.packets >= 1
    wait_for(lambda: wakes(box)[0]["outcome"] == "up", "the ledger")
    [wake] = wakes(box)
    assert (wake["who"], wake["host"], wake["path"], wake["method"], wake["agent"]) == (
        "192.0.2.17",
        "www.example.org",
        "/news?id=3",
        "GET",
        "Firefox",
    )
    assert (wake["class"], wake["reason"]) == ("person", "page")
    assert wake["packets"] >= 1
    assert 0 < wake["waited_s"] < PATIENCE_S
    changes = [(t["from"], t["to"]) for t in transitions(box)]
    assert changes[::-1] == [
        ("unknown", "awake"),
        ("awake", "falling_asleep"),
        ("falling_asleep", "asleep"),
        ("asleep", "waking"),
        ("waking", "awake"),
    ]


def test_a_box_without_servers_takes_its_first_by_the_api(make: Callable[..., Box]) -> None:
    box = make()
    first = box.file.read_text()
    box.file.write_text(first.partition("[[server]]")[0])
    box.start()
    assert box.call("GET", "/v1/status")[1]["servers"] == []
    assert box.layout().nservers == 0
    assert box.call("PUT", "/v1/config", first.encode())[0] == 200
    box.wait(State.AWAKE)


def wakes(box: Box) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = box.call("GET", "/v1/wakes")[1]["wakes"]
    return rows


def transitions(box: Box) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = box.call("GET", "/v1/transitions")[1]["transitions"]
    return rows


def test_the_command_tells_what_happened(box: Box) -> None:
    assert "web  asleep since" in box.naproxy("sleep", "web").stdout
    assert "web  awake since" in box.naproxy("wake", "web").stdout
    assert json.loads(box.naproxy("status", "--json").stdout)["servers"][0]["id"] == "web"
    journal = box.naproxy("journal", "web", "--since", "1h", "--limit", "2").stdout.splitlines()
    assert [line.split("  ")[2].split(":")[0] for line in journal] == [
        "waking -> awake",
        "asleep -> waking",
    ]
    [wake] = box.naproxy("wakes").stdout.splitlines()
    assert "web  up after" in wake
    assert f"{Reason('server.by_hand')} by command" in wake
    assert "there is no server nope" in box.naproxy("status", "nope").stderr


def test_metrics_say_the_state_by_command_and_by_the_api(shared: Box) -> None:
    said = 'naproxy_server_state{server="web",state="awake"} 1.0'
    assert said in shared.naproxy("metrics").stdout.splitlines()
    assert said in shared.call("GET", "/v1/metrics")[1]["text"].splitlines()


def test_the_policy_puts_an_idle_server_to_sleep_by_itself(make: Callable[..., Box]) -> None:
    box = make(awake_s=0).start()
    box.wait(State.ASLEEP)
    assert "policy.nobody_yet" in reason_of(box.status()["reason"]).codes()


def test_a_refusal_is_told_in_the_servers_words_and_its_exit_status(box: Box) -> None:
    box.ssh("echo 'backup is running'; exit 1")
    done = box.naproxy("sleep", "web")
    assert done.returncode == 1
    assert "the server refuses to sleep: backup is running" in done.stderr
    assert box.record().state == State.AWAKE
    assert box.status()["inhibitors"][0]["code"] == "server.asked_again"
    box.ssh(f"touch {box.server.power}")
    assert box.naproxy("sleep", "web").returncode == 0


def test_connections_that_are_passed_on_are_requests_in_the_history(box: Box) -> None:
    layout = box.layout()
    layout.service[0].passed += 3
    for _ in range(2):
        before = layout.heartbeat_us
        wait_for(lambda before=before: layout.heartbeat_us != before, "a beat")
    box.end()
    with closing(sqlite3.connect(box.data_dir / "history.db")) as db:
        asked = "SELECT class, outcome, sum(requests) FROM traffic_minutes GROUP BY 1, 2"
        assert db.execute(asked).fetchall() == [(Klass.PERSON, Outcome.PIPE, 3)]


def test_a_sleeping_server_is_not_looked_at(box: Box) -> None:
    box.sleep()
    status, said = box.post("look")
    assert (status, said["code"]) == (409, "server.not_awake")


def test_the_mode_awake_wakes_and_is_kept_over_a_restart(box: Box) -> None:
    box.sleep()
    assert box.naproxy("mode", "web", "awake", "--for", "2h").returncode == 0
    box.wait(State.AWAKE)
    box.end()
    box.start()
    box.wait(State.AWAKE)
    status = box.status()
    assert status["mode"] == "awake"
    assert status["mode_until_s"] == pytest.approx(time.time() + 7200, abs=60)
    done = box.naproxy("sleep", "web")
    assert done.returncode == 1
    assert "kept awake by hand until" in done.stderr


# Start, stop and crash


def test_the_heartbeat_comes_from_the_loop(shared: Box) -> None:
    first = shared.layout().heartbeat_us
    wait_for(lambda: shared.layout().heartbeat_us > first, "a beat")
    assert shared.layout().controller_pid == shared.process.pid  # type: ignore[union-attr]


def test_an_orderly_stop_is_seen_at_once(box: Box) -> None:
    box.sleep()
    assert box.end() == 0
    assert box.layout().heartbeat_us == 0
    assert box.record().state == State.UNKNOWN


def test_the_journal_tells_a_cut_off_wake(box: Box) -> None:
    box.sleep()
    box.server.deaf = True
    box.ask_for_wake()
    wait_for(lambda: len(wakes(box)) == 1, "the ledger")
    box.end(signal.SIGKILL)
    box.start()
    assert wakes(box)[-1]["outcome"] == "controller ended"


def test_a_second_controller_is_refused(shared: Box) -> None:
    second = shared.popen()
    assert second.wait(PATIENCE_S) == 1
    assert "another controller" in shared.log()
    assert shared.call("GET", "/v1/health")[0] == 200


def test_a_bad_configuration_is_refused_at_the_start_in_words(make: Callable[..., Box]) -> None:
    box = make()
    box.file.write_text("[box]\nnotise = 1\n")
    assert box.popen().wait(PATIENCE_S) == 2
    assert "box.notise: is not known; did you mean notice?" in box.log()


def test_sums_that_the_page_omits_are_in_the_status(shared: Box) -> None:
    record = shared.record()
    record.requests[Klass.PERSON][Outcome.HIT] = 5
    record.requests[Klass.API][Outcome.HELD] = 2
    record.requests[Klass.PERSON][Outcome.WAITING_PAGE] = 1
    record.requests[Klass.PERSON][Outcome.STATUS] = 10
    record.requests[Klass.CRAWLER][Outcome.HIT] = 100
    record.delays[11] = 2
    counters = shared.status()["counters"]
    assert counters["total"] == 8
    assert (counters["delays"][0], counters["delays"][11]) == (5, 2)


# Configuration while running


def test_a_bad_configuration_names_the_key_and_changes_nothing(shared: Box) -> None:
    before = shared.file.read_bytes()
    status, answer = shared.call("PUT", "/v1/config", before.replace(b"port = ", b"port = 9"))
    assert status == 422
    assert answer["where"] == "server.web.port"
    assert answer["error"] == "must be 1 to 65535"
    assert shared.file.read_bytes() == before
    assert shared.status()["state"] == "awake"


def test_a_new_address_is_used_at_once(shared: Box) -> None:
    moved = shared.file.read_text().replace("127.0.0.1", "127.0.0.2").encode()
    status, answer = shared.call("PUT", "/v1/config", moved)
    assert status == 200
    assert answer["server"][0]["address"] == "127.0.0.2"
    assert shared.file.read_bytes() == moved
    assert bytes(shared.record().address)[:4] == bytes([127, 0, 0, 2])


def test_an_older_file_holds_without_arguments_and_warns(make: Callable[..., Box]) -> None:
    box = make()
    old = f'[box]\ndata_dir = "{box.directory}/old"\nrun_dir = "/nowhere"\n'
    box.file.write_text(box.file.read_text().replace("[box]\n", old))
    box.arguments = [each for each in box.arguments if "data-dir" not in each]
    box.start()
    assert (box.directory / "old/history.db").exists()
    assert f"{box.file}: box.data_dir: is now --data-dir" in box.log()
    text = box.file.read_text().replace('interface = "lo"', 'interface = "lo"\nnotice = "Hi"')
    assert box.call("PUT", "/v1/config", text.encode())[0] == 200
    text = text.replace('run_dir = "/nowhere"\n', "")
    status, answer = box.call("PUT", "/v1/config", text.encode())
    assert (status, answer["where"]) == (422, "box.run_dir")
    box.file.write_text(text)
    assert box.call("POST", "/v1/config/reload", b"{}")[0] == 200
    assert box.call("PUT", "/v1/config", text.encode())[0] == 200


def test_servers_come_and_go_and_the_others_keep_their_counters(shared: Box) -> None:
    shared.record().delayed = 7
    text = shared.file.read_text()
    second = text[text.index("[[server]]") :].replace('"web"', '"shop"')
    assert shared.call("PUT", "/v1/config", (text + second).encode())[0] == 200
    assert shared.layout().nservers == 2
    assert shared.layout().server[1].id == b"shop"
    assert shared.call("PUT", "/v1/config", text.encode())[0] == 200
    assert shared.layout().nservers == 1
    assert shared.layout().server[1].id == b""
    assert shared.record().delayed == 7
    assert shared.call("POST", "/v1/servers/shop/wake", b"{}")[0] == 404


def test_sighup_reads_the_file_again_unless_it_is_bad(shared: Box) -> None:
    assert shared.process
    for text, true in (
        ('[box]\nnotice = "hello"\n', lambda: shared.layout().notice == b"hello"),
        ("nonsense", lambda: "not used" in shared.log()),
    ):
        shared.file.write_text(text)
        shared.process.send_signal(signal.SIGHUP)
        wait_for(true, text)
    assert shared.layout().notice == b"hello"


# Requests that ended


def test_requests_in_the_ring_reach_the_policy_and_the_history(box: Box) -> None:
    ring = box.run_dir / "events"
    now_us = time.monotonic_ns() // 1000
    with ring.open("r+b") as file:
        for number in range(1, 31):
            record = struct.pack(
                "=QQQQIIBBBBHBBQQ",
                *(number, now_us, 7, 8, 100 if number <= 2 else 0, 0xFFFFFFFF),
                *(0, 0, page_h.Outcome.FETCH, page_h.E_NEEDED, 200, 0, 0, 9, 10),
            )
            file.seek(64 + 64 * (number - 1))
            file.write(record)
        file.seek(16)
        file.write(struct.pack("=Q", 30))
    spent = Reason("policy.budget", used=2, allowed=3)
    wait_for(lambda: spent in reason_of(box.status()["decision"]["reason"]).parts(), "30 requests")
    box.end()
    with closing(open_history(box.data_dir)) as db:
        kept = recorded.requests(db, "web", 0, time.time() + 60)
        assert sum(each[1] for each in recorded.blocks(db, "web", 0, time.time() + 60)) > 0
    assert len(kept) == 30
    assert list(kept.waited_s) == pytest.approx([0.1] * 2 + [0.0] * 28)


# Garbage


def test_garbage_on_the_wake_socket_is_counted_and_ignored(box: Box) -> None:
    box.sleep()
    garbage = [b"", b"\x00" * 1024, b"x" * 2000, b"naproxy-wake 1\nserver=nope\nreason=page\n"]
    for data in garbage:
        box.datagram(data)
    wait_for(
        lambda: box.call("GET", "/v1/status")[1]["box"]["bad_datagrams"] == len(garbage),
        "the count",
    )
    assert box.record().state == State.ASLEEP
    box.ask_for_wake()
    box.wait(State.AWAKE)


def raw(box: Box, data: bytes, *, close: bool = True) -> bytes:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(5)
        sock.connect(str(box.run_dir / "control.sock"))
        sock.sendall(data)
        if close:
            sock.shutdown(socket.SHUT_WR)
        answer = b""
        while more := sock.recv(65536):
            answer += more
        return answer


HOSTILE = [
    (b"", b""),
    (b"\r\n\r\n", b"400"),
    (b"\x00\xff" * 100 + b"\r\n\r\n", b"400"),
    (b"GET /v1/status\r\n\r\n", b"400"),
    (b"GET /v1/status HTTP/2.0\r\n\r\n", b"400"),
    (b"GET http://x/ HTTP/1.1\r\n\r\n", b"400"),
    (b"GET //[ HTTP/1.1\r\n\r\n", b"400"),
    (b"GET /v1/status HTTP/1.1\r\nno colon\r\n\r\n", b"400"),
    (b"GET /v1/status HTTP/1.1\r\nA : b\r\n\r\n", b"400"),
    (b"GET /v1/status HTTP/1.1\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\n", b"400"),
    (b"GET /v1/status HTTP/1.1\r\nContent-Length: -1\r\n\r\n", b"400"),
    (b"GET /v1/status HTTP/1.1\r\nContent-Length: 1e3\r\n\r\n", b"400"),
    (b"PUT /v1/config HTTP/1.1\r\nContent-Length: 1048577\r\n\r\n", b"413"),
    (b"PUT /v1/config HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"411"),
    (b"PUT /v1/config HTTP/1.1\r\nContent-Length: 3\r\n\r\n\xff\xfe\xfd", b"422"),
    (b"GET /" + b"a" * 20000 + b" HTTP/1.1\r\n\r\n", b"431"),
    (b"DELETE /v1/config HTTP/1.1\r\n\r\n", b"405"),
    (b"GET /v2/status HTTP/1.1\r\n\r\n", b"404"),
    (b"GET /v1/transitions?limit=-1 HTTP/1.1\r\n\r\n", b"400"),
    (b"GET /v1/transitions?limit=nan HTTP/1.1\r\n\r\n", b"400"),
    (b"GET /v1/wakes?server=nope HTTP/1.1\r\n\r\n", b"404"),
    (b"POST /v1/servers/nope/wake HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", b"404"),
    (b"POST /v1/servers/web/wake HTTP/1.1\r\nContent-Length: 2\r\n\r\n[]", b"400"),
    (b"POST /v1/servers/web/wake HTTP/1.1\r\nContent-Length: 3\r\n\r\n{x}", b"400"),
    (b'POST /v1/servers/web/wake HTTP/1.1\r\nContent-Length: 7\r\n\r\n{"a":1}', b"400"),
    (b'POST /v1/servers/web/mode HTTP/1.1\r\nContent-Length: 12\r\n\r\n{"mode":"x"}', b"400"),
]


def test_garbage_on_the_control_socket_gets_an_error_and_harms_nothing(shared: Box) -> None:
    for data, status in HOSTILE:
        answer = raw(shared, data)
        assert answer[9:12] == status, (data[:60], answer)
    deep = b"[" * 100000
    head = b"POST /v1/servers/web/mode HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(deep)
    assert raw(shared, head + deep)[9:12] == b"400"
    for text in (b"a." * 60_000 + b"a = 1", b"[box]\nnotice = " + b"9" * 5000):
        status, answer = shared.call("PUT", "/v1/config", text)
        assert (status, answer["code"]) in ((422, "config.many_parts"), (422, "config.long_word"))
    assert shared.call("GET", "/v1/health")[0] == 200
    assert shared.record().state == State.AWAKE


def asked_as_nobody(path: Path, method: str, target: str, body: object = None) -> int:
    """Return the status that a program of another user gets, which the socket's group lets in."""
    for folder in (path, *path.parents):
        with suppress(PermissionError):
            folder.chmod(folder.stat().st_mode | 0o007)
    child = os.fork()
    if child == 0:
        status = 0
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            status = ask(str(path), method, target, body).status - 400
        finally:
            os._exit(status % 256)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) + 400


def test_no_program_of_the_group_but_the_web_interface_gets_a_backup_or_a_key(shared: Box) -> None:
    path = shared.run_dir / "control.sock"
    for method, target, body in (
        ("POST", "/v1/box/backup", {"secrets": True}),
        ("POST", "/v1/box/backup", None),
        ("GET", "/v1/box/backup/part", None),
        ("PUT", "/v1/box/restore/part?offset=0", b"x"),
        ("POST", "/v1/box/restore/check", None),
        ("POST", "/v1/box/restore", {"secrets": True}),
        ("POST", "/v1/servers/web/agent/code", None),
        ("POST", "/v1/servers/web/agent/key", None),
        ("POST", "/v1/agent-key", {"code": "abc"}),
    ):
        assert asked_as_nobody(path, method, target, body) == 403, target
    assert asked_as_nobody(path, "POST", "/v1/servers/web/mode") == 400  # It may control the box.


def test_the_socket_for_readers_tells_how_servers_are_and_nothing_else(shared: Box) -> None:
    path = str(shared.run_dir / "status.sock")
    assert ask(path, "GET", "/v1/status").body["servers"][0]["id"] == "web"
    for name, route in ROUTES.items():
        if name not in ("status", "health"):
            target = re.sub(r"<[^>]*>", "web", route.path)
            assert ask(path, route.method, target, {}).status == 403, name


def test_an_invalid_mode_is_rejected_and_changes_nothing(shared: Box) -> None:
    bodies: list[dict[str, Any]] = [
        *({"mode": "awake", "until_s": until_s} for until_s in ("soon", True, 1, 1e300)),
        *({"mode": "auto", "until_s": 4e9}, {"mode": None}, {}),
    ]
    for body in bodies:
        status, answer = shared.post("mode", **body)
        assert status == 400, body
        assert answer["where"] in ("mode", "until_s"), body
    assert shared.status()["mode"] == "auto"
