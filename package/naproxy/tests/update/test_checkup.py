"""What the image's check finds on a box with real sockets, TLS and SQLite."""

import json
import socket
import sqlite3
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from typing import Any

import pytest
from certificates import Authority
from naproxy.update import checkup
from naproxy.update.checkup import Box, HistoryOpens, Places
from naproxy.update.health import UnhealthyError, problem_of
from naproxy.update.updates import confirmed_last

MOUNTS = "/dev/root / squashfs ro 0 0\n/dev/vda4 /data ext4 rw,noatime 0 0\n"


class Server(ThreadingMixIn, HTTPServer):
    """Answers `status` and `body` to everything."""

    status, body = 200, b"{}"
    headers: tuple[tuple[str, str], ...] = (("X-Naproxy", "status"),)


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.send_response(self.server.status)
        for name, value in self.server.headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(self.server.body)

    def do_POST(self) -> None:
        # Answering and closing before the body is read breaks the pipe of who writes it.
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.do_GET()

    def log_message(self, *_: Any) -> None:
        pass


class UnixServer(ThreadingMixIn, UnixStreamServer):
    """The same on a unix socket."""

    status, body, headers = 200, b"{}", ()

    def get_request(self) -> tuple[socket.socket, Any]:
        return super().get_request()[0], ("unix", 0)


def serve(server: Any) -> Any:
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    return server


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    own = Authority(tmp_path_factory.mktemp("authority")).root
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own.file, own.key_file)
    return context


@pytest.fixture
def box(tmp_path: Path, tls: ssl.SSLContext) -> Iterator[dict[str, Any]]:
    """Servers that are in order, a history, and where all that is."""
    found = {
        "varnish": serve(Server(("127.0.0.1", 0), Handler)),
        "ui": Server(("127.0.0.1", 0), Handler),
        "controller": serve(UnixServer(str(tmp_path / "sock"), Handler)),
    }
    found["ui"].socket = tls.wrap_socket(found["ui"].socket, server_side=True)
    serve(found["ui"])
    (tmp_path / "mounts").write_text(MOUNTS)
    (tmp_path / "cmdline").write_text("root=/dev/vda3 rauc.slot=B panic=10\n")
    with sqlite3.connect(tmp_path / "history.db") as db:
        db.execute("CREATE TABLE a (b)")
        db.executemany("INSERT INTO a VALUES (?)", [("x" * 1000,)] * 100)
    db.close()
    found["places"] = Places(
        tmp_path,
        mounts=tmp_path / "mounts",
        command_line=tmp_path / "cmdline",
        socket=str(tmp_path / "sock"),
        web_port=found["varnish"].server_port,
        ui_port=found["ui"].server_port,
        rauc_conf=str(tmp_path / "none.conf"),
    )
    yield found
    for name in ("varnish", "ui", "controller"):
        found[name].shutdown()
        found[name].server_close()


def test_a_box_in_order_passes_all_checks(box: dict[str, Any]) -> None:
    checks = checkup.checks(box["places"])
    assert len(checks) == 5
    for check in checks:
        check()


def test_data_that_is_not_kept_is_found(box: dict[str, Any], tmp_path: Path) -> None:
    for mounts, words in (
        ("/dev/root / squashfs ro 0 0\n", "not on the disk"),
        (MOUNTS.replace("/dev/vda4 /data ext4", "tmpfs /data tmpfs"), "not on the disk"),
        (MOUNTS + "tmpfs /data tmpfs rw 0 0\n", "not on the disk"),
        (MOUNTS.replace("rw,noatime", "ro,noatime"), "cannot be written"),
    ):
        box["places"].mounts.write_text(mounts)
        with pytest.raises(UnhealthyError, match=words):
            checkup.data_is_kept(box["places"])
    box["places"].mounts.write_text(MOUNTS)
    with pytest.raises(UnhealthyError, match="cannot be written"):
        checkup.data_is_kept(Places(tmp_path / "gone", mounts=box["places"].mounts))


def test_a_controller_that_does_not_beat_is_found(box: dict[str, Any]) -> None:
    box["controller"].status, box["controller"].body = 503, b'{"error": "the loop stands"}'
    with pytest.raises(UnhealthyError, match="the loop stands"):
        checkup.controller_beats(box["places"])


def test_a_varnish_of_others_is_found_and_a_box_that_is_not_set_up_is_in_order(
    box: dict[str, Any],
) -> None:
    box["varnish"].headers = (("X-Varnish", "3"),)
    with pytest.raises(UnhealthyError, match="something other"):
        checkup.varnish_serves(box["places"])
    box["varnish"].status, box["varnish"].headers = 503, (("X-Naproxy", "error"),)
    checkup.varnish_serves(box["places"])


def test_https_that_is_missing_is_a_note_only(box: dict[str, Any]) -> None:
    missing = b'{"problem": {"code": "https.not_running", "params": {}}}'
    for body, code in ((missing, "https.not_running"), (b'{"problem": null}', None)):
        box["controller"].body = body
        found = checkup.https_missing(box["places"])
        assert (found.code if found else None) == code
        assert problem_of(checkup.checks(box["places"])) is None


def test_an_interface_with_nobody_behind_it_is_found(box: dict[str, Any]) -> None:
    for good in (200, 302, 421):
        box["ui"].status = good
        checkup.interface_answers(box["places"])
    box["ui"].status = 503
    with pytest.raises(UnhealthyError, match="answers 503"):
        checkup.interface_answers(box["places"])


def test_what_is_not_there_is_found(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        gone = Places(tmp_path, socket=str(tmp_path / "none"), web_port=port, ui_port=port)
        for check, words in (
            (checkup.varnish_serves, "does not answer"),
            (checkup.interface_answers, "does not answer"),
            (checkup.controller_beats, "no controller runs"),
            (lambda places: HistoryOpens(places)(), "cannot open"),
        ):
            with pytest.raises(UnhealthyError, match=words):
                check(gone)


def test_a_history_that_is_damaged_is_found(box: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "history.db"
    data = bytearray(file.read_bytes())
    data[4096:] = b"\xff" * len(data[4096:])
    file.write_bytes(data)
    with pytest.raises(UnhealthyError, match=r"damaged|malformed"):
        HistoryOpens(box["places"])()


def test_a_history_that_was_whole_is_not_read_again(box: dict[str, Any], tmp_path: Path) -> None:
    opens = HistoryOpens(box["places"])
    opens()
    (tmp_path / "history.db").unlink()
    opens()


def test_what_runs_is_known_without_rauc(box: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "update").mkdir()
    said = {"slot": "A", "installed": ""}
    (tmp_path / "update/confirmed.json").write_text(json.dumps(said))
    seen = Box(box["places"], lambda _: None).seen()
    assert (seen.running, seen.slots, seen.confirmed) == ("B", None, ("A", ""))


def test_a_record_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    for text in ("", "{", "[]", '{"slot": "A"}', "null"):
        (tmp_path / "confirmed.json").write_text(text)
        assert confirmed_last(tmp_path) is None, text


def test_it_is_confirmed_through_the_controller(box: dict[str, Any]) -> None:
    does = Box(box["places"], lambda _: None)
    does.confirm()
    box["controller"].status, box["controller"].body = 502, b'{"error": "RAUC says no"}'
    with pytest.raises(UnhealthyError, match="RAUC says no"):
        does.confirm()


def test_giving_way_tells_the_boot_loader_and_restarts_also_by_force(box: dict[str, Any]) -> None:
    ran: list[Any] = []
    Box(box["places"], ran.append, ran.append).give_way()
    assert ran[0][-3:] == ["status", "mark-bad", "booted"]
    assert ran[1:] == [["reboot"], 90.0, ["reboot", "-f"]]
