"""What the web interface costs: `python -m tests.bench.webui OUT`.

As on the box: naproxy-webui on a unix socket behind lighttpd with the image's configuration,
TLS and all, before a real controller and a server that sleeps and wakes. The browser is Chromium
on the same machine. Bytes are those of the connection's bodies and heads as Chromium counts
them. "First live point" is when the page first shows what the server draws.

A page's server time is that of its own answer and of all it asks the API for when it is opened,
one after another, by the process itself (not lighttpd): the history has 400 days, and pages are
opened with their longest view.

Lighthouse looks at each page of the navigation, and at those that are not in it.
"""

from __future__ import annotations

import http.client
import re
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from playwright.sync_api import Browser, sync_playwright

from tests.bench import lighthouse, result
from tests.simulator.office.namespace import ROOT
from tests.simulator.past import cached
from tests.webui.conftest import SIZES, cookies_of, launched
from tests.webui.stage import Stage

sys.path.append(str(ROOT / "webui/tests"))

from server import Lighttpd

DAYS: Final = 400
TURNS: Final = 7
SERVER_TURNS: Final = 5
LOAD_S: Final = 5
THROTTLE: Final = 6
PAGES: Final = {
    "now": "/",
    "history, a day": "/history",
    "history, a year": "/history?view=year",
    "savings, a month": "/savings",
    "savings, all": "/savings?view=all",
    "traffic": "/traffic",
    "settings": "/settings",
    "update": "/update",
}
LIGHTHOUSE: Final = [
    *("/", "/history", "/savings", "/traffic", "/settings", "/settings/schedule"),
    *("/settings/server", "/update", "/account", "/setup/again"),
]
_WATCH: Final = """
new MutationObserver((_, watcher) => {
    const draws = document.querySelector('.server .stat-value, main .stat-value');
    if (draws && /[0-9]/.test(draws.textContent)) {
        window.firstPoint = performance.now();
        watcher.disconnect();
    }
}).observe(document, { subtree: true, childList: true, characterData: true });
"""


class Fronted(Stage):
    """A stage whose web interface listens on a unix socket, with lighttpd before it."""

    @property
    def folder(self) -> Path:
        return self.directory

    @property
    def socket(self) -> Path:
        return self.directory / "http.sock"

    def start_webui(self) -> None:
        self.webui = self._popen(
            "naproxy-webui",
            *("--data-dir", self.data_dir, "--state-dir", self.state_dir),
            *("--run-dir", self.directory / "run-webui"),
            *("--socket", self.run_dir / "control.sock"),
            *("--listen", f"unix:{self.socket}"),
        )
        self._wait_for(self.webui, "web interface", self.socket.exists)
        front = Lighttpd(self)  # type: ignore[arg-type]
        self._stack.callback(front.close)
        self.url = f"https://127.0.0.1:{front.port}"

    def pss_mib(self) -> float:
        """Return the MiB that are the process' own, and its share of what others have too."""
        assert self.webui
        rollup = Path(f"/proc/{self.webui.pid}/smaps_rollup").read_text()
        found = re.search(r"^Pss:\s+(\d+) kB", rollup, re.MULTILINE)
        assert found
        return int(found[1]) / 1024

    def ask(self, path: str, cookie: str) -> tuple[int, float]:
        """Ask the process itself; returns status and seconds."""
        connection = http.client.HTTPConnection("127.0.0.1")
        connection.sock = socket.socket(socket.AF_UNIX)
        with closing(connection):
            connection.sock.connect(str(self.socket))
            begun_s = time.perf_counter()
            connection.request(
                "GET", path, headers={"Cookie": cookie, "X-Forwarded-Proto": "https"}
            )
            answer = connection.getresponse()
            answer.read()
            return answer.status, time.perf_counter() - begun_s


def main() -> None:
    out = result.output_path()
    making = cached.Making(DAYS)
    try:
        with Fronted(days=30) as stage:
            with sync_playwright() as playwright, launched(playwright) as browser:
                state = cookies_of(browser, stage.url, ignore_https_errors=True)
                idle_mib = stage.pss_mib()
                home = {
                    name: [_home(browser, stage, state, rate) for _ in range(TURNS)]
                    for name, rate in (("full speed", 1), ("throttled", THROTTLE))
                }
                rate = _load(stage, state)
                looked_mib = stage.pss_mib()
            seen = lighthouse.look_at_all(stage.url, _cookie(state), LIGHTHOUSE)
        with (
            _Long(making) as stage,
            sync_playwright() as playwright,
            launched(playwright) as browser,
        ):
            state = cookies_of(browser, stage.url, ignore_https_errors=True)
            pages = {name: _page(browser, stage, state, path) for name, path in PAGES.items()}
            long_mib = stage.pss_mib()
    finally:
        making.stop()
    _write(
        out,
        home,
        rate,
        pages,
        memory_mib={"idle": idle_mib, "used": looked_mib, "after 400 days": long_mib},
        seen=seen,
    )


class _Long(Fronted):
    """The same with the long history."""

    def __init__(self, making: cached.Making) -> None:
        super().__init__(days=DAYS)
        self._making = making

    def fill(self) -> None:
        self._making.into(self.data_dir)


def _home(browser: Browser, stage: Fronted, state: Any, throttle: int) -> dict[str, Any]:
    """Open the home page with an empty cache; returns its figures."""
    context = browser.new_context(
        base_url=stage.url, storage_state=state, ignore_https_errors=True, **SIZES["desktop"]
    )
    page = context.new_page()
    devtools = context.new_cdp_session(page)
    devtools.send("Network.enable")
    devtools.send("Emulation.setCPUThrottlingRate", {"rate": throttle})
    ended: dict[str, float] = {}
    asked: dict[str, str] = {}
    devtools.on("Network.requestWillBeSent", lambda e: asked.update({_id(e): e["request"]["url"]}))
    devtools.on("Network.loadingFinished", lambda e: ended.update({_id(e): e["encodedDataLength"]}))
    page.add_init_script(_WATCH)
    page.goto("/")
    for _ in range(600):
        point_ms = page.evaluate("() => window.firstPoint ?? null")
        if point_ms is not None:
            break
        page.wait_for_timeout(50)
    page.wait_for_timeout(1000)
    paint_ms = page.evaluate(
        "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"
    )
    context.close()
    # What is asked again each second is counted once.
    first: dict[str, str] = {}
    for number, url in asked.items():
        if url.startswith("https:"):
            first.setdefault(urlsplit(url).path, number)
    return {
        "requests": len(first),
        "bytes": sum(ended.get(number, 0.0) for number in first.values()),
        "first_contentful_paint_ms": paint_ms,
        "first_live_point_ms": point_ms,
        "paths": sorted(first),
    }


def _id(event: Any) -> str:
    return str(event["requestId"])


def _load(stage: Fronted, state: Any) -> float:
    """Return how many answers of /api/now there are in a second, through lighttpd and TLS."""
    done = subprocess.run(
        [
            *("wrk", "-t", "1", "-c", "4", "-d", f"{LOAD_S}s"),
            *("-H", f"Cookie: {_cookie(state)}", f"{stage.url}/api/now"),
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    if "Non-2xx" in done:
        raise RuntimeError(f"/api/now was refused: {done}")
    found = re.search(r"Requests/sec:\s+([\d.]+)", done)
    assert found, done
    return float(found[1])


def _cookie(state: Any) -> str:
    return "; ".join(f"{c['name']}={c['value']}" for c in state["cookies"])


def _page(browser: Browser, stage: Fronted, state: Any, path: str) -> dict[str, Any]:
    """Return the server's time for a page, and for each of its parts."""
    parts = list(_parts(browser, stage, state, path))
    cookie, times = _cookie(state), {}
    for part in parts:
        turns = [stage.ask(part, cookie) for _ in range(SERVER_TURNS)]
        bad = {status for status, _ in turns if status != http.HTTPStatus.OK}
        if bad:
            raise RuntimeError(f"{part}: {bad}")
        times[part] = 1000 * statistics.median(took_s for _, took_s in turns)
    return {"server_ms": sum(times.values()), "parts_ms": times}


def _parts(browser: Browser, stage: Fronted, state: Any, path: str) -> Iterator[str]:
    """Yield the page and what it asks the API for until it is quiet."""
    context = browser.new_context(
        base_url=stage.url, storage_state=state, ignore_https_errors=True, **SIZES["desktop"]
    )
    page = context.new_page()
    asked: dict[str, str] = {}

    def heard(request: Any) -> None:
        where = urlsplit(request.url)
        if where.scheme == "https" and where.path.startswith("/api/"):
            asked.setdefault(where.path, f"{where.path}?{where.query}")

    page.on("request", heard)
    page.goto(path)
    page.wait_for_timeout(4000)
    context.close()
    yield path
    yield from asked.values()


def _write(
    out: Path,
    home: dict[str, list[dict[str, Any]]],
    rate: float,
    pages: dict[str, dict[str, Any]],
    *,
    memory_mib: dict[str, float],
    seen: dict[str, dict[str, Any]],
) -> None:
    full, slow = home["full speed"], home["throttled"]
    heaviest = max(pages.values(), key=lambda page: page["server_ms"])["server_ms"]
    goals = [
        result.goal("home_page_kb", max(t["bytes"] for t in full) / 1000, 150, "<="),
        result.goal("home_page_requests", max(t["requests"] for t in full), 9, "<="),
        result.goal("memory_pss_mib", max(memory_mib.values()), 45, "<="),
        result.goal(
            "first_live_point_s",
            statistics.median(t["first_live_point_ms"] for t in full) / 1000,
            1.0,
            "<=",
        ),
        result.goal("heaviest_page_server_ms", heaviest, 300, "<="),
        *lighthouse.goals(seen),
    ]
    figures = {
        name: {
            key: result.summary([t[key] for t in turns])
            for key in ("first_contentful_paint_ms", "first_live_point_ms")
        }
        for name, turns in (("full_speed", full), (f"cpu_throttled_{THROTTLE}", slow))
    }
    raw = {
        "home": {**figures, "paths": full[0]["paths"]},
        "api_now_requests_per_s": rate,
        "memory_pss_mib": memory_mib,
        "history_days": DAYS,
        "pages": pages,
        "lighthouse": seen,
    }
    result.write(out, goals, raw)


if __name__ == "__main__":
    main()
