"""`make screenshots`: every page of the web interface into docs/img, from a stage.

Wide and light; a few dark, a few as a telephone shows them. The history is that of the last 30
days, so that pictures differ in their dates only.
"""

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from tests.simulator.office.namespace import ROOT
from tests.simulator.past import cached
from tests.webui.conftest import CHROMIUM, SIZES, log_in
from tests.webui.stage import Stage

OUT = ROOT / "docs/img"
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
    for name, path in PAGES.items():
        yield Picture(name, path)
    for name in ("now", "history", "savings"):
        yield Picture(name, PAGES[name], scheme="dark")
        yield Picture(name, PAGES[name], size="phone")


class Fresh(Stage):
    """A stage whose past ends when it begins."""

    def fill(self) -> None:
        cached.fill(self.data_dir, 30, young_s=60.0)


def take(browser: Browser, stage: Stage, out: Path) -> list[Path]:
    """Take all pictures; returns their files."""
    context = browser.new_context(base_url=stage.url)
    log_in(context.new_page())
    state: Any = context.storage_state()
    context.close()
    made = []
    for picture in pictures():
        shown = {**SIZES[picture.size], "device_scale_factor": 1}
        context = browser.new_context(
            base_url=stage.url,
            storage_state=state,
            color_scheme=picture.scheme,  # type: ignore[arg-type]
            reduced_motion="reduce",
            locale="en-GB",
            **shown,
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
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else OUT
    out.mkdir(parents=True, exist_ok=True)
    with Fresh() as stage, sync_playwright() as playwright:
        # Somebody comes, so that the last minutes show more than a beginning.
        time.sleep(_LIVE_S)
        stage.wait("asleep")
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        for file in take(browser, stage, out):
            print(f"{file} {file.stat().st_size // 1024} kB")
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
