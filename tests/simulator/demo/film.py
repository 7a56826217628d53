"""`make film`, as root: a visitor's browser beside the box's page, from sleep to sleep, as a GIF.

Nothing in it is drawn by hand: a real Chromium on the virtual office's visitors' machine and
another before the box's web interface are photographed while a server falls asleep, is woken and
falls asleep again. The frames are put side by side afterwards.
"""

from __future__ import annotations

import base64
import contextlib
import io
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import Page, sync_playwright

from tests.e2e.browser import Browser
from tests.patience import PATIENCE_S, wait_for
from tests.simulator.demo.interface import OFFICE, interface, meter
from tests.simulator.office import Office, Settings
from tests.simulator.office.box import ADDRESS, HOST
from tests.simulator.office.namespace import ROOT, OfficeError
from tests.simulator.office.plug import Plug
from tests.simulator.past.cached import Making
from tests.webui.conftest import launched, log_in

OUT = ROOT / "docs/img/sleep-visit-wake.gif"
MOST_BYTES = 1_000_000
_BOARD = Settings(sleep_s=2.0, wake_s=4.0)
_AWAKE_S = 7.0
_EVERY_S = 0.5
_VISITOR = (460, 430)
_BOX = (500, 430)
_COLOURS = 96
_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>body{{margin:0;font:17px/1.5 system-ui,sans-serif;color:#20303a;background:#fbf8f2}}
header{{padding:18px 26px;background:#2f5d50;color:#fff;font-size:22px;font-weight:600}}
main{{padding:20px 26px}}h1{{font-size:25px;margin:0 0 8px}}a{{color:#2f5d50}}</style></head>
<body><header>Baker &amp; Sons, joiners</header><main><h1>{title}</h1><p>{text}</p>
<p><a href="/">Home</a> · <a href="/prices.html">Prices</a></p></main></body></html>"""
_SITE = {
    "index.html": (
        "Welcome",
        "Doors, windows and stairs since 1931. The workshop is open from 8 to 5.",
    ),
    "prices.html": (
        "Prices",
        "A door of oak, made to measure: from 640. We are happy to come and look.",
    ),
}
_FRAME = """<!doctype html><meta charset="utf-8"><style>
body{margin:0;width:1000px;height:530px;background:#eef1f7;color:#1b2136}
body{font:16px/1.35 "DejaVu Sans",sans-serif}
#words{height:44px;padding:14px 20px 0;font-size:20px;font-weight:600}
.two{display:flex;gap:20px;padding:0 20px}figure{margin:0}
figcaption{font-size:13px;color:#4d5672;padding-bottom:5px}
img{display:block;border:1px solid #c9d0e0;border-radius:6px}</style>
<div id="words"></div><div class="two">
<figure><figcaption id="left"></figcaption><img id="visitor" width="460" height="430"></figure>
<figure><figcaption>What the box says</figcaption><img id="box" width="500" height="430"></figure>
</div>"""


@dataclass(slots=True)
class Film:
    """Pictures of both browsers, and what was said meanwhile."""

    visitor: Browser
    box: Page
    shots: list[tuple[float, str, str, bytes, bytes]] = field(default_factory=list)
    address: str = ""

    def roll(self, least_s: float, words: str, until: Callable[[], Any]) -> None:
        """Take pictures until that is so, and for so long at least."""
        start_s = time.monotonic()
        while (passed_s := time.monotonic() - start_s) < least_s or not until():
            if passed_s > PATIENCE_S:
                raise RuntimeError(f"waited in vain: {words}")
            self.shoot(words)
            time.sleep(max(0.0, _EVERY_S - (time.monotonic() - start_s - passed_s)))

    def shoot(self, words: str) -> None:
        try:
            seen = self.visitor("Page.captureScreenshot", 1.0, format="png")["data"]
        except OfficeError:  # between two pages there is none
            return
        told = self.box.screenshot(clip={"x": 0, "y": 0, "width": _BOX[0], "height": _BOX[1]})
        self.shots.append((time.monotonic(), words, self.address, base64.b64decode(seen), told))

    def open(self, path: str) -> None:
        self.address = f"http://{HOST}{path}"
        self.visitor.open(self.address)


@contextlib.contextmanager
def _office() -> Iterator[tuple[Office, str]]:
    past = Making(30)
    config: dict[str, Any] = {
        "server": {
            "cache": {"mode": "aggressive"},
            "policy": {"min_awake_s": _AWAKE_S, "fraction": 1.0},
        },
        "office": OFFICE,
    }
    with Office(board=_BOARD) as office:
        for name, (title, text) in _SITE.items():
            file = office.server.directory / "site" / name
            file.write_text(_PAGE.format(title=title, text=text))
        with Plug(office.server.board, office.directory / "watts", noise_w=0.2) as plug:
            past.into(office.box.data_dir)
            office.box.start(**config, meter=[meter(plug)])
            with interface(office.box) as url:
                yield office, url


def _photograph(office: Office, url: str, chromium: Chromium) -> Film:
    context = chromium.new_context(
        base_url=url, viewport={"width": _BOX[0], "height": 900}, reduced_motion="reduce"
    )
    box = context.new_page()
    log_in(box)
    box.goto("/")
    with Browser(office.client, {HOST: ADDRESS}) as visitor:
        width, height = _VISITOR
        visitor(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        film = Film(visitor, box)

        def state(name: str) -> Callable[[], bool]:
            return lambda: bool(office.box.status()["state"] == name)

        def shows(title: str) -> Callable[[], bool]:
            return lambda: visitor.evaluate("document.title") == title

        # It may sleep already: on a busy machine the box's start takes longer than its patience.
        film.open("/")
        wait_for(shows("Welcome"), "the home page", 60)
        film.roll(2, "A visitor reads the office's website.", state("awake"))
        film.roll(2, "Nobody needs the server: it falls asleep.", state("asleep"))
        film.roll(2.5, "It sleeps, and draws 1.6 W.", state("asleep"))
        film.open("/")
        film.roll(2.5, "The home page comes from the cache.", shows("Welcome"))
        film.open("/prices.html")
        film.roll(2, "A page that is not in the cache: the box wakes the server.", shows("Prices"))
        film.roll(2.5, "The page opens by itself.", shows("Prices"))
        film.roll(2, "Nobody needs it any more: it falls asleep again.", state("asleep"))
        film.roll(2.5, "And nobody had to do anything.", state("asleep"))
    context.close()
    return film


def _compose(film: Film, chromium: Chromium) -> list[tuple[Image.Image, int]]:
    page = chromium.new_page(viewport={"width": 1020, "height": 530})
    page.set_content(_FRAME)
    frames: list[tuple[bytes, int]] = []
    times = [shot[0] for shot in film.shots]
    for (_, words, address, seen, told), t_s, next_s in zip(
        film.shots, times, [*times[1:], times[-1] + 2.0], strict=True
    ):
        page.evaluate(
            """([words, left, seen, told]) => {
                document.getElementById("words").textContent = words;
                document.getElementById("left").textContent = left;
                const data = (png) => `data:image/png;base64,${png}`;
                document.getElementById("visitor").src = data(seen);
                document.getElementById("box").src = data(told);
                return Promise.all([...document.images].map((each) => each.decode()));
            }""",
            [words, address, base64.b64encode(seen).decode(), base64.b64encode(told).decode()],
        )
        frame, length_ms = page.screenshot(), round((next_s - t_s) * 1000)
        if frames and frames[-1][0] == frame:
            frames[-1] = (frame, frames[-1][1] + length_ms)
        else:
            frames.append((frame, length_ms))
    page.close()
    return [(Image.open(io.BytesIO(png)).convert("RGB"), ms) for png, ms in frames]


def write(frames: list[tuple[Image.Image, int]], out: Path) -> None:
    """Write them with one palette, so that only what changed takes room."""
    sheet = Image.new("RGB", (frames[0][0].width, frames[0][0].height * len(frames)))
    for n, (frame, _) in enumerate(frames):
        sheet.paste(frame, (0, n * frame.height))
    palette = sheet.quantize(_COLOURS, method=Image.Quantize.MEDIANCUT)
    images = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame, _ in frames]
    images[0].save(
        out,
        save_all=True,
        append_images=images[1:],
        duration=[ms for _, ms in frames],
        loop=0,
        optimize=True,
    )


def main() -> int:
    """Return the exit status: 1 if the film is too large for a page that people load."""
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else OUT
    with (
        _office() as (office, url),
        sync_playwright() as playwright,
        launched(playwright) as chromium,
    ):
        frames = _compose(_photograph(office, url, chromium), chromium)
    write(frames, out)
    size = out.stat().st_size
    print(f"{out}: {len(frames)} frames, {size // 1000} kB")
    return int(size > MOST_BYTES)


if __name__ == "__main__":
    sys.exit(main())
