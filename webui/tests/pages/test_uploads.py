"""Uploads in pieces: interrupted ones resume, hostile ones are refused and change nothing."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import browser
from flask import Flask
from flask.testing import FlaskClient
from naproxy_webui.options import Settings
from naproxy_webui.pages.uploads import uploads as module
from naproxy_webui.pages.uploads.uploads import KINDS, PIECE_BYTES, UNFINISHED_S, Uploads

DATA = os.urandom(2 * PIECE_BYTES + 100)


def begin(client: FlaskClient, size: int = len(DATA), **more: Any) -> dict[str, Any]:
    answer = client.post(
        "/api/uploads", json={"name": "access.log", "size": size, "kind": "log", **more}
    )
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json
    return found


def put(client: FlaskClient, upload: dict[str, Any], offset: int, piece: bytes) -> Any:
    return client.put(f"/api/uploads/{upload['id']}?offset={offset}", data=piece)


def stored(settings: Settings) -> list[str]:
    folder = settings.state_dir / "uploads"
    return sorted(f.name for f in folder.iterdir() if f.name != "lock") if folder.exists() else []


def content(settings: Settings, upload: dict[str, Any]) -> bytes:
    return (settings.state_dir / "uploads" / f"{upload['id']}.part").read_bytes()


def test_pieces_make_the_file(client: FlaskClient, settings: Settings) -> None:
    upload = begin(client)
    for at in range(0, len(DATA), PIECE_BYTES):
        answer = put(client, upload, at, DATA[at : at + PIECE_BYTES])
        assert answer.status_code == 200
    assert answer.json["complete"] is True
    assert content(settings, upload) == DATA


def test_an_upload_goes_on_where_it_broke_off_also_after_a_restart(
    app: Flask, client: FlaskClient, settings: Settings
) -> None:
    upload = begin(client)
    put(client, upload, 0, DATA[:1000])
    app.extensions.pop("naproxy_uploads")
    repeated = put(client, upload, 0, DATA[:1000])
    assert (repeated.status_code, repeated.json["where"]) == (409, "offset")
    again = client.get(f"/api/uploads/{upload['id']}").json
    assert (again["offset"], again["complete"]) == (1000, False)
    put(client, upload, 1000, DATA[1000 : 1000 + PIECE_BYTES])
    assert content(settings, upload) == DATA[: 1000 + PIECE_BYTES]


def test_offsets_that_are_wrong_change_nothing(client: FlaskClient, settings: Settings) -> None:
    upload = begin(client)
    offsets = ("1", "-1", "999999999999", "x", "1e3", "", "0&offset=0")
    for query in ("", *(f"?offset={each}" for each in offsets)):
        answer = client.put(f"/api/uploads/{upload['id']}{query}", data=b"x")
        assert answer.status_code in (400, 409), query
    assert content(settings, upload) == b""


def test_sizes_over_the_limits_are_refused(client: FlaskClient, settings: Settings) -> None:
    for size in (0, KINDS["log"].most_bytes + 1, 1 << 53):
        answer = client.post("/api/uploads", json={"name": "a", "size": size, "kind": "log"})
        assert answer.status_code == 413, size
        assert answer.json["where"] == "size", size
        assert stored(settings) == [], size


def test_invalid_requests_are_refused(client: FlaskClient, settings: Settings) -> None:
    for changes in (
        {"size": -1},
        {"size": 1 << 54},
        {"name": "a" * 256},
        {"kind": "../log"},
        {"sha256": "0" * 64 + "\n"},
        {"id": "mine"},
    ):
        body = {"name": "a", "size": 1, "kind": "log", **changes}
        assert client.post("/api/uploads", json=body).status_code == 400, changes
    assert stored(settings) == []


def test_a_hostile_name_is_only_words(client: FlaskClient, settings: Settings) -> None:
    names = ("../../etc/passwd", "/etc/shadow", "a\0b", "", ".", "-rf", "\N{BOMB}" * 255, "a\nb")
    made = {begin(client, name=name)["id"]: name for name in names}
    for upload, name in made.items():
        put(client, {"id": upload}, 0, b"x")
        assert client.get(f"/api/uploads/{upload}").json["name"] == name
    assert stored(settings) == sorted(f"{each}.{end}" for each in made for end in ("json", "part"))


def test_an_invalid_id_finds_nothing(client: FlaskClient, settings: Settings) -> None:
    begin(client)
    before = stored(settings)
    odd = (
        "..",
        "lock",
        "%2e%2e%2flock",
        "x" * 22,
        "a" * 5000,
        "..%00",
        "%2Fetc%2Fpasswd",
        "*" * 22,
    )
    for each in odd:
        path = f"/api/uploads/{each}"
        assert client.get(path).status_code in (404, 405), each
        assert client.put(f"{path}?offset=0", data=b"x").status_code in (404, 405), each
        # Deleting what is not there is done.
        assert client.delete(path).status_code in (200, 404, 405), each
    assert stored(settings) == before
    assert (settings.state_dir / "uploads/lock").exists()


def test_an_empty_or_too_large_piece_is_refused(client: FlaskClient, settings: Settings) -> None:
    for case, size, piece, status in (
        ("empty", 10, b"", 400),
        ("more than was said", 10, b"x" * 11, 413),
        ("more than a piece", len(DATA), DATA[: PIECE_BYTES + 1], 413),
    ):
        upload = begin(client, size=size)
        answer = put(client, upload, 0, piece)
        assert (answer.status_code, bool(answer.json["error"])) == (status, True), case
        assert content(settings, upload) == b"", case


def test_a_file_with_another_checksum_is_removed(client: FlaskClient, settings: Settings) -> None:
    upload = begin(client, size=1000, sha256=hashlib.sha256(b"other").hexdigest())
    answer = put(client, upload, 0, DATA[:1000])
    assert (answer.status_code, answer.json["where"]) == (422, "sha256")
    assert stored(settings) == []
    upload = begin(client, size=1000, sha256=hashlib.sha256(DATA[:1000]).hexdigest())
    assert put(client, upload, 0, DATA[:1000]).json["complete"] is True


def test_too_many_uploads_are_refused(client: FlaskClient) -> None:
    for _ in range(KINDS["log"].most_files):
        begin(client)
    body = {"name": "a", "size": 1, "kind": "log"}
    assert client.post("/api/uploads", json=body).status_code == 429
    assert client.post("/api/uploads", json={**body, "kind": "image"}).status_code == 201


def test_uploads_that_were_promised_count_as_used_disk(tmp_path: Path, app: Flask) -> None:
    made = Uploads(tmp_path, free_bytes=lambda _: module.LEAVE_FREE_BYTES + 1000)
    with app.test_request_context():
        made.create("a", 600, "log")
        with pytest.raises(module.ApiError, match="disk is too full: it needs 1 MB") as refused:
            made.create("b", 600, "log")
        assert refused.value.status == 507
        made.create("c", 400, "log")


def test_a_disk_that_fills_up_leaves_no_half_piece(
    client: FlaskClient, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload = begin(client)
    write = os.pwrite

    def full(file: int, data: bytes, at: int) -> int:
        if at >= 500:
            raise OSError(28, "No space left on device")
        return write(file, data[:500], at)

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", full)
        assert put(client, upload, 0, DATA[:1000]).status_code == 507
    assert content(settings, upload) == b""
    assert put(client, upload, 0, DATA[:1000]).status_code == 200


def test_of_pieces_at_once_one_is_taken(
    app: Flask, client: FlaskClient, settings: Settings
) -> None:
    upload = begin(client)
    gate = threading.Barrier(8)
    answers: list[int] = []

    def send(number: int) -> None:
        gate.wait()
        piece = bytes([number]) * 100_000
        answers.append(put(browser(app, "anna", "admin"), upload, 0, piece).status_code)

    threads = [threading.Thread(target=send, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [200] + [409] * 7
    found = content(settings, upload)
    assert (len(found), len(set(found))) == (100_000, 1)


def aged(settings: Settings, upload: dict[str, Any], age_s: float) -> None:
    then = time.time() - age_s
    os.utime(settings.state_dir / "uploads" / f"{upload['id']}.part", (then, then))


def test_an_abandoned_upload_is_refused_and_removed(
    client: FlaskClient, settings: Settings
) -> None:
    slow = begin(client)
    put(client, slow, 0, DATA[:1000])
    aged(settings, slow, UNFINISHED_S + 60)
    answer = put(client, slow, 1000, DATA[1000:2000])
    assert answer.status_code == 404
    assert "an hour" in answer.json["error"]
    fresh = begin(client)
    assert stored(settings) == [f"{fresh['id']}.json", f"{fresh['id']}.part"]


def test_a_whole_upload_left_unused_is_removed(client: FlaskClient, settings: Settings) -> None:
    upload = begin(client, size=5)
    put(client, upload, 0, b"12345")
    aged(settings, upload, KINDS["log"].finished_s + 60)
    assert client.get(f"/api/uploads/{upload['id']}").status_code == 404


def test_incomplete_uploads_of_a_crash_are_removed(client: FlaskClient, settings: Settings) -> None:
    upload = begin(client)
    folder = settings.state_dir / "uploads"
    (folder / "orphan.part").write_bytes(b"x")
    (folder / f"{'b' * 22}.json").write_text(json.dumps({"id": 1}))
    (folder / f"{'c' * 22}.json").write_text("{")
    fresh = begin(client)
    assert {name.partition(".")[0] for name in stored(settings)} == {upload["id"], fresh["id"]}


def test_an_upload_can_be_cancelled(client: FlaskClient, settings: Settings) -> None:
    upload = begin(client)
    assert client.delete(f"/api/uploads/{upload['id']}").status_code == 200
    assert stored(settings) == []
    assert put(client, upload, 0, b"x").status_code == 404


def test_nobody_else_on_the_box_may_read_an_upload(client: FlaskClient, settings: Settings) -> None:
    begin(client)
    folder = settings.state_dir / "uploads"
    modes = {file.stat().st_mode & 0o777 for file in folder.iterdir()}
    assert (modes, folder.stat().st_mode & 0o777) == ({0o600}, 0o700)
