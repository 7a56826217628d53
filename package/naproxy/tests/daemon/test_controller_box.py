"""What a real controller does for the box itself: backup, restore, logs, restart, cache."""

import base64
import io
import json
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from box import Box
from naproxy.core.state import State

from tests.patience import wait_for


@pytest.fixture(scope="module")
def more_settings() -> str:
    return '[mqtt]\nhost = "192.0.2.5"\npassword = "hush-hush"\n'


def ask(box: Box, method: str, what: str, /, **body: Any) -> Any:
    status, answer = box.call(method, f"/v1/box{what}", json.dumps(body).encode())
    assert status < 300, answer
    return answer


def fetched(box: Box, what: str) -> bytes:
    data, size = b"", 1
    while len(data) < size:
        status, part = box.call("GET", f"/v1/box/{what}/part?offset={len(data)}")
        assert status == 200
        data += base64.b64decode(part["data"])
        size = part["bytes"]
    return data


def send(box: Box, data: bytes) -> None:
    for offset in range(0, len(data), 50000):
        part = data[offset : offset + 50000]
        status, _ = box.call("PUT", f"/v1/box/restore/part?offset={offset}", part)
        assert status == 200


def started_s(box: Box) -> float:
    status, answer = box.call("GET", "/v1/status")
    return float(answer["box"]["started_s"]) if status == 200 else 0.0


def wait_for_another_start(box: Box, before_s: float) -> None:
    wait_for(lambda: started_s(box) > before_s, "another start", log=box.log)
    box._page = None


def test_a_backup_is_made_and_restored_and_the_controller_goes_on(box: Box) -> None:
    users = [{"name": "anna"}]
    made = ask(box, "POST", "/backup", history=True, secrets=True, users=users)
    data = fetched(box, "backup")
    assert len(data) == made["bytes"]
    assert made["name"].startswith("naproxy-backup-")
    before = box.call("GET", "/v1/config")[1]
    change = {"op": "set", "where": "box.notice", "value": "changed since"}
    body = {"changes": [change], "version": before["version"]}
    assert box.call("PATCH", "/v1/config", json.dumps(body).encode())[0] == 200
    send(box, data)
    found = ask(box, "POST", "/restore/check")
    assert (found["servers"], found["users"], found["secrets"]) == (["web"], 1, True)
    began_s = started_s(box)
    pid = box.process.pid if box.process else 0
    assert ask(box, "POST", "/restore", history=True, secrets=True) == {"users": users}
    wait_for_another_start(box, began_s)
    after = box.call("GET", "/v1/config")[1]
    assert after["box"] == before["box"]
    assert 'password = "hush-hush"' in box.file.read_text()
    assert box.process
    assert (box.process.pid, box.process.poll()) == (pid, None)
    box.wait(State.AWAKE)
    assert not (box.data_dir / "restore").exists()
    assert not (box.data_dir / "box" / "upload.tar.gz").exists()


def test_a_backup_is_given_once_and_the_box_remembers_when(box: Box) -> None:
    def there_is_one() -> bool:
        lines = box.call("GET", "/v1/checklist")[1]["lines"]
        return bool(next(each for each in lines if each["name"] == "backup")["done"])

    for secrets in (False, True):  # without passwords and keys it restores no box
        ask(box, "POST", "/backup", secrets=secrets)
        assert not there_is_one()
        fetched(box, "backup")
        assert there_is_one() is secrets
    assert box.call("GET", "/v1/box/backup/part")[0] == 404


def test_a_bad_backup_is_refused_and_nothing_changes(box: Box) -> None:
    before = box.file.read_bytes()
    assert box.call("POST", "/v1/box/restore/check", b"{}")[1]["error"] == (
        "no backup was sent yet: send one first"
    )
    for what in ("restore/check", "restore"):
        send(box, b"not a backup at all")
        status, answer = box.call("POST", f"/v1/box/{what}", b"{}")
        assert (status, answer["where"]) == (422, "file")
        assert "not a complete backup" in answer["error"]
    assert box.file.read_bytes() == before
    assert box.process
    assert box.process.poll() is None


def test_the_controller_restarts_without_an_answer_that_was_never_fetched(box: Box) -> None:
    ask(box, "POST", "/backup", secrets=True)
    send(box, b"half a backup")
    folder = box.data_dir / "box"
    assert len(list(folder.iterdir())) == 2
    began_s = started_s(box)
    ask(box, "POST", "/restart", service="naproxy")
    wait_for_another_start(box, began_s)
    assert list(folder.iterdir()) == []
    box.wait(State.AWAKE)
    assert box.log().count("looks after web") == 2


def test_parts_that_do_not_follow_each_other_are_refused(shared: Box) -> None:
    assert shared.call("PUT", "/v1/box/restore/part?offset=0", b"abc")[0] == 200
    status, answer = shared.call("PUT", "/v1/box/restore/part?offset=7", b"abc")
    assert (status, answer["error"]) == (409, "must go on at 3")
    assert shared.call("PUT", "/v1/box/restore/part?offset=-1", b"abc")[0] == 400


def test_diagnostics_have_the_state_and_no_secret(shared: Box) -> None:
    made = ask(shared, "POST", "/diagnostics")
    data = fetched(shared, "diagnostics")
    assert len(data) == made["bytes"]
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        texts = {
            member.name.partition("/")[2]: part.read().decode()
            for member in tar.getmembers()
            if (part := tar.extractfile(member))
        }
    assert json.loads(texts["status.json"])["servers"][0]["id"] == "web"
    assert "looks after web" in texts["log.txt"]
    assert [name for name, text in texts.items() if "hush-hush" in text] == []


def test_the_log_is_shown_filtered_and_bounded(shared: Box) -> None:
    status, answer = shared.call("GET", "/v1/box/logs?contains=LOOKS%20after&limit=5")
    assert status == 200
    assert len(answer["lines"]) == 1
    assert "looks after web" in answer["lines"][0]
    shared.datagram(b"\x1b[31m<script>alert(1)</script>\n")
    wait_for(lambda: "datagram ignored" in shared.log(), "the line")
    said = shared.call("GET", "/v1/box/logs")[1]["lines"]
    assert all(line.isprintable() for line in said)


def test_missing_things_are_rejected(shared: Box) -> None:
    for path, status in (
        ("/logs?source=/etc/shadow", 400),
        ("/logs?limit=-1", 400),
        ("/logs?limit=1e300", 400),
        ("/nothing", 404),
        ("/users/part", 404),
    ):
        assert shared.call("GET", f"/v1/box{path}")[0] == status, path


def test_the_box_says_what_it_is(shared: Box) -> None:
    answer = ask(shared, "GET", "")
    assert answer["platform"] == "none"
    assert answer["network"]["interface"] == "lo"
    assert answer["clock"]["set"] is True
    assert answer["services"] == ["naproxy"]
    assert shared.call("POST", "/v1/box/reboot", b"{}")[0] == 409


def test_the_machine_is_changed_by_the_helper_alone(make: Callable[..., Box]) -> None:
    box = make()
    folder = box.directory
    helper = folder / "helper"
    helper.write_text(f'#!/bin/sh\necho "$*" >>{folder}/calls\n')
    helper.chmod(0o755)
    box.arguments += ["--platform=naproxy", f"--helper={helper}", f"--system-dir={folder}/system"]
    box.start()
    ask(box, "PUT", "/network", method="static", address="192.0.2.5/24")
    ask(box, "POST", "/network/keep")
    ask(box, "PUT", "/time", time_zone="Europe/Zurich", ntp=["pool.ntp.org"])
    ask(box, "PUT", "/name", name="box-2")
    ask(box, "POST", "/restart", service="varnish")
    assert ask(box, "GET", "")["settings"]["address"] == "192.0.2.5/24"
    status, answer = box.call("PUT", "/v1/box/network", b'{"method": "static"}')
    assert (status, answer["where"]) == (422, "address")
    assert (folder / "calls").read_text().splitlines() == [
        f"apply network {folder}/system/network.try",
        f"apply time {folder}/system/time.conf",
        f"apply name {folder}/system/name.conf",
        "restart varnish",
    ]


def bans(name: Path) -> str:
    done = subprocess.run(
        ["varnishadm", "-n", name, "ban.list"], capture_output=True, text=True, check=False
    )
    return done.stdout if done.returncode == 0 else ""


@pytest.mark.skipif(not shutil.which("varnishd"), reason="varnish not installed")
def test_varnishs_cache_is_emptied(make: Callable[..., Box], tmp_path: Path) -> None:
    name = tmp_path / "varnish"
    server = subprocess.Popen(
        ["varnishd", "-F", "-n", name, "-a", "127.0.0.1:0", "-b", "none"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    box = make()
    box.arguments += ["--varnish-name", str(name)]
    box.start()
    try:
        wait_for(lambda: "obj.status" not in bans(name) and bool(bans(name)), "varnish")
        ask(box, "POST", "/cache/empty")
        assert "obj.status != 0" in bans(name)
        server.terminate()
        server.wait(15)
        status, answer = box.call("POST", "/v1/box/cache/empty", b"{}")
        assert status == 502
        assert "Varnish did not empty its cache" in answer["error"]
    finally:
        server.kill()
        server.wait(15)
