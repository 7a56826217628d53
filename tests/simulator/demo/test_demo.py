"""The demonstration as `make demo` runs it, and that it leaves nothing behind."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.simulator.office.freezer import Freezer
from tests.simulator.office.namespace import NETNS, ROOT
from tests.simulator.office.office import PREFIX
from tests.webui.people import PASSWORD, USER

MOMENTS_S = [
    0.0,
    2.0,
    *(pytest.param(after_s, marks=pytest.mark.long) for after_s in (0.5, 6.0, 16.0)),
]

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="an office needs root")


@contextlib.contextmanager
def running(out: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The demo, in a process group of its own as a shell starts it; what it leaves is in `out`."""
    demo = subprocess.Popen(
        [
            *(sys.executable, "-X", "faulthandler", "-m", "tests.simulator.demo"),
            *("--out", str(out), *arguments),
        ],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        process_group=0,
    )
    try:
        yield demo
    finally:
        if demo.poll() is None:
            demo.kill()
        demo.communicate()


def ended(demo: subprocess.Popen[str], timeout_s: float) -> str:
    """Wait for it to end, and return what it said; who waits in vain learns where it stands."""
    try:
        return demo.communicate(timeout=timeout_s)[0]
    except subprocess.TimeoutExpired:
        demo.send_signal(signal.SIGABRT)
        told, _ = demo.communicate()
    pytest.fail(f"it has not ended within {timeout_s:g} s:\n{told}", pytrace=False)


def left_behind(demo: subprocess.Popen[str]) -> list[str]:
    """Namespaces, control groups, files and processes of this demo's office."""
    office = f"{PREFIX}{demo.pid}-"
    places = [NETNS, Path(tempfile.gettempdir()), *Freezer.hierarchies()]
    found = [str(path) for place in places for path in place.glob(f"{office}*")]
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if office in process.read_bytes().decode(errors="replace"):
                found.append(str(process))
    return found


def test_demo_shows_everything_and_loses_nothing(tmp_path: Path) -> None:
    with running(tmp_path, "--duration", "120") as demo:
        told = ended(demo, 600)
        assert demo.returncode == 0, told
        assert left_behind(demo) == []
    summary = json.loads((tmp_path / "summary.json").read_text())
    above_0 = [
        *("requests", "requests_from_log", "cache_hits", "backend_fetches", "crawler_503"),
        *("waiting_pages", "held", "wakes", "sleeps", "asleep_s", "magic_packets"),
    ]
    assert {name: summary[name] for name in above_0 if summary[name] <= 0} == {}, told
    assert summary["lost"] == summary["sent_twice"] == 0
    assert summary["by_https"] == summary["requests"]
    assert summary["by_http2"] >= 2
    assert summary["visits"]["waiting_pages"]["gave_up"] == 0
    for words in ("Demo settings: awake for at least 10 s instead of 60 s", "Magic packet on the"):
        assert words in told
    assert "\x1b" not in told


@pytest.mark.parametrize("after_s", MOMENTS_S)
def test_ctrl_c_at_any_moment_leaves_nothing_behind(tmp_path: Path, after_s: float) -> None:
    with running(tmp_path) as demo:
        assert demo.stdout
        # Its first words: from here on the office is set up, and takes some seconds.
        demo.stdout.readline()
        time.sleep(after_s)
        # As a terminal does: to the whole group, helpers that set up the office as well.
        os.killpg(demo.pid, signal.SIGINT)
        told = ended(demo, 100)
        assert demo.returncode in (0, 130), told
        assert "Traceback" not in told
        assert left_behind(demo) == []


class Visitor:
    """Somebody with a browser, at the machine on which the demo runs."""

    def __init__(self, url: str) -> None:
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        self._url = url

    def get(self, path: str) -> bytes:
        with self._opener.open(f"{self._url}{path}", timeout=10) as answer:
            said: bytes = answer.read()
            return said

    def log_in(self, user: str, password: str) -> None:
        form = urllib.parse.urlencode({"name": user, "password": password}).encode()
        request = urllib.request.Request(f"{self._url}/login", form, {"Origin": self._url})
        self._opener.open(request, timeout=30).close()


def test_the_box_shows_its_past_and_present_to_this_machines_browser(
    tmp_path: Path,
) -> None:
    with running(tmp_path) as demo:
        assert demo.stdout
        url = next(
            found[1]
            for line in demo.stdout
            if (found := re.search(r"web interface: (http://127\.0\.0\.1:\d+)", line))
        )
        visitor = Visitor(url)
        visitor.log_in(USER, PASSWORD)
        first = json.loads(visitor.get("/api/now"))
        assert [server["id"] for server in first["servers"]] == ["web"]
        end_s = time.monotonic() + 30
        while json.loads(visitor.get("/api/now")) == first:
            assert time.monotonic() < end_s, first
            time.sleep(0.2)
        now_s = int(time.time())
        part = f"from_s={now_s - 12 * 86400}&to_s={now_s - 2 * 86400}&server=web"
        assert json.loads(visitor.get(f"/api/history/states?{part}"))["changes"] > 100
        os.killpg(demo.pid, signal.SIGINT)
        told = ended(demo, 100)
        assert demo.returncode == 0, told
        assert left_behind(demo) == []


def test_terminating_it_leaves_nothing_behind(tmp_path: Path) -> None:
    with running(tmp_path) as demo:
        assert demo.stdout
        demo.stdout.readline()
        time.sleep(2)
        demo.terminate()
        ended(demo, 100)
        assert demo.returncode == 128 + signal.SIGTERM
        assert left_behind(demo) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--log", "/does/not/exist"], "/does/not/exist"),
        (["--log", "/dev/null"], "no request in this log"),
        (["--duration", "0"], "DURATION"),
        (["--duration", "nan"], "DURATION"),
    ],
)
def test_wrong_arguments_are_named_and_nothing_is_started(
    tmp_path: Path, arguments: list[str], words: str
) -> None:
    with running(tmp_path, *arguments) as demo:
        told = ended(demo, 30)
        assert demo.returncode in (1, 2)
        assert words in told
        assert "Traceback" not in told
