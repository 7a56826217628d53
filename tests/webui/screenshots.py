"""`make screenshots`: pages of the web interface from a stage.

Those that the docs show go to docs/img: wide and light; a few dark, a few as a tablet and a
telephone show them. `--every`: every page at each width, light and dark, to build/screenshots.
The history is that of the last 30 days, so that pictures differ in their dates only.
"""

import argparse
import itertools
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from naproxy_webui.http.page import Page as WebPage
from naproxy_webui.pages import discover
from playwright.sync_api import Browser, Page, sync_playwright

from tests.simulator.office.namespace import ROOT
from tests.simulator.past import cached
from tests.webui.conftest import cookies_of, launched
from tests.webui.stage import Stage

OUT = ROOT / "docs/img"
EVERY = ROOT / "build/screenshots"
SIZES = {"desktop": (1280, 900), "tablet": (768, 1024), "phone": (375, 812)}
"""CSS pixels."""
_TALLEST = 1500
"""Pixels of the viewport that a picture shows at the most."""

_SETTLE_MS = 2500
_LIVE_S = 200.0


@dataclass(frozen=True, slots=True)
class Picture:
    """One file: which page, how."""

    name: str
    path: str
    size: str = "desktop"
    scheme: str = "light"

    @property
    def file(self) -> str:
        how = [word for word in (self.size, self.scheme) if word not in ("desktop", "light")]
        return "-".join(["ui", self.name, *how]) + ".png"


PAGES = {
    "now": "/",
    "history": "/history?view=week",
    "savings": "/savings",
    "traffic": "/traffic",
    "settings": "/settings",
    "update": "/update",
}


def pictures() -> Iterator[Picture]:
    """Yield what the docs show."""
    for name, path in PAGES.items():
        yield Picture(name, path)
    for name in ("now", "history", "savings"):
        yield Picture(name, PAGES[name], scheme="dark")
        yield Picture(name, PAGES[name], size="phone")
    yield Picture("now", PAGES["now"], size="tablet", scheme="dark")


def every(browser: Browser, stage: Stage, state: Any) -> list[Picture]:
    """Return all pages, and those that they lead to below them, at each width, in each scheme."""
    shown = {page.path for page in discover() if isinstance(page, WebPage)}
    # These need a user who is not signed in, or a box that is not set up.
    paths = {*(shown - {"/login", "/claim", "/setup"}), "/setup/again"}
    page = browser.new_page(base_url=stage.url, storage_state=state)
    for path in sorted(paths):
        page.goto(path)
        links = page.eval_on_selector_all("main a[href]", "all => all.map((a) => a.pathname)")
        paths |= {link for link in links if path != "/" and link.startswith(f"{path}/")}
    page.close()
    return [
        Picture(path.strip("/").replace("/", "-") or "now", path, size, scheme)
        for path, size, scheme in itertools.product(sorted(paths), SIZES, ("light", "dark"))
    ]


class Fresh(Stage):
    """A stage whose past ends when it begins."""

    def fill(self) -> None:
        cached.fill(self.data_dir, 30, young_s=60.0)


def take(browser: Browser, stage: Stage, out: Path, *, all_: bool) -> list[Path]:
    """Take the pictures; returns their files."""
    state = cookies_of(browser, stage.url)
    made = []
    for picture in every(browser, stage, state) if all_ else pictures():
        width, height = SIZES[picture.size]
        context = browser.new_context(
            base_url=stage.url,
            storage_state=state,
            color_scheme=picture.scheme,  # type: ignore[arg-type]
            reduced_motion="reduce",
            locale="en-GB",
            viewport={"width": width, "height": height},
            is_mobile=picture.size != "desktop",
            has_touch=picture.size != "desktop",
        )
        made.append(_shoot(context.new_page(), picture, out))
        context.close()
    return made


def _shoot(page: Page, picture: Picture, out: Path) -> Path:
    answer = page.goto(picture.path)
    if not answer or not answer.ok:
        raise RuntimeError(f"{picture.path}: {answer.status if answer else 'no answer'}")
    page.wait_for_timeout(_SETTLE_MS)
    width = page.viewport_size["width"] if page.viewport_size else 0
    height = page.evaluate("document.documentElement.scrollHeight")
    page.set_viewport_size({"width": width, "height": min(height, _TALLEST)})
    page.wait_for_timeout(300)
    file = out / picture.file
    page.screenshot(path=file)
    return file


def main() -> int:
    parser = argparse.ArgumentParser(prog="screenshots", description=__doc__)
    parser.add_argument("--every", action="store_true", help="all pages, widths and schemes")
    all_ = parser.parse_args().every
    out = EVERY if all_ else OUT
    out.mkdir(parents=True, exist_ok=True)
    with Fresh() as stage, sync_playwright() as playwright:
        # Somebody comes, so that the last minutes show more than a beginning.
        time.sleep(_LIVE_S)
        stage.wait("asleep")
        with launched(playwright) as browser:
            for file in take(browser, stage, out, all_=all_):
                print(f"{file} {file.stat().st_size // 1024} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
