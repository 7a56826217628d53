"""What becomes of files that servers give whole, in parts, cut short, endless, or not at all."""

from __future__ import annotations

import random
import re
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from naproxy.cli.__main__ import main
from naproxy.lab.transfer.fetch import File, Job, fetch
from naproxy.lab.transfer.sla import parse

BODY = random.Random(18).randbytes(300_000)


class Handler(BaseHTTPRequestHandler):
    """Answers by what the path says."""

    protocol_version = "HTTP/1.1"
    ranges = 0

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(BODY)))
        self.end_headers()

    def do_GET(self) -> None:
        match self.path.partition("?")[0]:
            case "/missing":
                self._send(404, b"none")
            case "/short":
                self.send_response(200)
                self.send_header("Content-Length", str(len(BODY)))
                self.end_headers()
                self.wfile.write(BODY[:1000])
                self.close_connection = True
            case "/to-a-file":
                self._send(302, b"", {"Location": "file:///etc/hostname"})
            case "/moved":
                self._send(302, b"", {"Location": "/whole"})
            case "/parts" | "/edited":
                self._part()
            case _:
                self._send(200, BODY)

    def _part(self) -> None:
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if not wanted:
            self._send(200, BODY)
            return
        Handler.ranges += 1
        first, last = map(int, wanted.groups())
        tag = f'"{Handler.ranges}"' if self.path == "/edited" else '"1"'
        span = {"Content-Range": f"bytes {first}-{last}/{len(BODY)}", "ETag": tag}
        self._send(206, BODY[first : last + 1], span)

    def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has enough hangs up."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def one(url: str, to: Path | None = None, *, follow: bool = False) -> File:
    """Fetch one file, in three parts if the server gives parts."""
    report = fetch(
        [Job(url, to=to)],
        parse("maxthr"),
        follow=follow,
        bandwidth_bytes_s=1e12,
        buffer_bytes=len(BODY) // 3,
    )
    return report.files[0]


def code(file: File) -> str:
    assert file.problem
    return file.problem.code


@pytest.mark.parametrize("path", ["whole", "parts", "edited"])
def test_a_file_is_kept_as_the_server_has_it(url: str, tmp_path: Path, path: str) -> None:
    before = Handler.ranges
    file = one(f"{url}/{path}", tmp_path / path)
    assert file.good
    assert (tmp_path / path).read_bytes() == BODY
    assert (Handler.ranges > before) == (path != "whole")


@pytest.mark.parametrize(
    ("path", "status", "problem"),
    [("missing", 404, None), ("short", 200, "transfer.failed"), ("moved", 302, None)],
)
def test_what_is_not_the_file_is_not_kept(
    url: str, tmp_path: Path, path: str, status: int, problem: str | None
) -> None:
    file = one(f"{url}/{path}", tmp_path / "file")
    assert (file.status, file.problem and file.problem.code) == (status, problem)
    assert not (tmp_path / "file").exists()


def test_redirects_are_followed_to_the_web_only(url: str, tmp_path: Path) -> None:
    assert one(f"{url}/moved", tmp_path / "a", follow=True).good
    assert (tmp_path / "a").read_bytes() == BODY
    assert code(one(f"{url}/to-a-file", tmp_path / "b", follow=True)) == "transfer.failed"
    assert not (tmp_path / "b").exists()


def test_where_nobody_listens_is_said(tmp_path: Path) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        file = one(f"http://127.0.0.1:{held.getsockname()[1]}/", tmp_path / "file")
    assert code(file) == "transfer.failed"


def test_who_is_stopped_fetches_nothing(url: str) -> None:
    stop = threading.Event()
    stop.set()
    report = fetch([Job(f"{url}/whole")], parse("mine"), stop=stop)
    assert code(report.files[0]) == "transfer.stopped"


def test_a_link_is_not_written_through(url: str, tmp_path: Path) -> None:
    (tmp_path / "file").symlink_to(tmp_path / "elsewhere")
    assert code(one(f"{url}/whole", tmp_path / "file")) == "transfer.unkept"
    assert not (tmp_path / "elsewhere").exists()


def test_the_command_keeps_files_by_their_names(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = (f"{url}/a/..%2F..%2Fevil.css", f"{url}/a/", f"{url}/.profile")
    assert main(["fetch", "--sla", "flexible:0.8", "--out", str(tmp_path), *wanted]) == 0
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["_.._evil.css", "index.html", "profile"]
    assert "3 of 3 files, 900000 bytes" in capsys.readouterr().out


def test_the_command_says_what_is_wrong_and_fetches_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for argv, said in (
        (["file:///etc/passwd"], "file:///etc/passwd"),
        (["http://"], "http://"),
        (["http://a b/"], "a b"),
        (["http://user:secret@example.org/"], "..."),
        (["http://example.org:99999/"], "99999"),
        (["--sla", "fastest", "http://example.org/"], "fastest"),
        (["--sla", "flexible:0", "http://example.org/"], "flexible:0"),
        (["--sla", "flexible:nan", "http://example.org/"], "flexible:nan"),
        (["--most-channels", "0", "http://example.org/"], "'0'"),
        (["--most-channels", "9999999999", "http://example.org/"], "9999999999"),
        (["--bandwidth", "-1", "http://example.org/"], "-1"),
        (["--out", "/dev/null", "http://example.org/"], "/dev/null"),
        (["--out", ".", "http://example.org/a", "http://example.net/a"], "2 addresses"),
    ):
        try:
            status: object = main(["fetch", *argv])
        except SystemExit as ended:
            status = ended.code
        printed = capsys.readouterr()
        assert status != 0, argv
        assert said in printed.err, argv
        assert "secret" not in printed.err
