"""A stage for the session, and pages of a real Chromium that must stay clean.

`page` is an administrator's, wide and light; `open_page(...)` makes others. Whatever a page
says on its console as an error or a warning, throws, or asks of another host, fails the test at
its end: `page.watch.allow("words")` beforehand where a test provokes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    Page,
    Playwright,
    expect,
    sync_playwright,
)

from tests.webui import people
from tests.webui.people import GERMAN, PASSWORD, USER, VIEWER
from tests.webui.stage import Stage

OFFICE = ZoneInfo("Europe/Zurich")
CHROMIUM = "/usr/bin/chromium-headless-shell"
SIZES: dict[str, Any] = {
    "desktop": {"viewport": {"width": 1280, "height": 900}},
    "phone": {
        "viewport": {"width": 390, "height": 844},
        "has_touch": True,
        "is_mobile": True,
        "device_scale_factor": 2,
    },
    "narrow": {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True},
}
PATIENCE_MS = 60_000
expect.set_options(timeout=PATIENCE_MS)

# Where a page is looked at more than once, `make test` looks once, `make test-all` as often.
LANGUAGES = ["en", pytest.param("de", marks=pytest.mark.long)]
SCREENS = [("en", "desktop"), pytest.param("de", "narrow", marks=pytest.mark.long)]
"""Language and size."""

Size = Literal["desktop", "phone", "narrow"]
Scheme = Literal["light", "dark"]


class Watch:
    """What a browser's pages did that they should not."""

    def __init__(self, url: str) -> None:
        self.wrong: list[str] = []
        self._host = urlsplit(url).netloc
        self._allowed = [
            # axe-core asks the sandboxed frame of the waiting page, too.
            r"'postMessage' on 'DOMWindow': .* recipient window's origin \('null'\)",
            "Service Worker registration blocked by Playwright",
        ]

    def allow(self, pattern: str) -> None:
        """Take no notice of what matches: the test provokes it."""
        self._allowed.append(pattern)

    def context(self, context: BrowserContext) -> None:
        """Watch all pages of a context."""
        context.on("console", lambda said: self._said(said.type, said.text, said.location))
        context.on("weberror", lambda error: self._note(f"thrown: {error.error}"))
        context.on("request", lambda request: self._asked(request.url))

    def _said(self, kind: str, text: str, location: Any) -> None:
        if kind in ("error", "warning"):
            self._note(f"{kind}: {text} ({location.get('url', '')})")

    def _asked(self, url: str) -> None:
        where = urlsplit(url)
        if where.scheme not in ("data", "blob", "about") and where.netloc != self._host:
            self._note(f"asked another host: {url}")

    def _note(self, words: str) -> None:
        self.wrong.append(words)

    def check(self) -> None:
        """Fail if there was anything."""
        left = [w for w in self.wrong if not any(re.search(p, w) for p in self._allowed)]
        assert left == [], "\n".join(left)


class WatchedPage:
    """A page, and who watches it; everything else is Playwright's own."""

    def __init__(self, page: Page, watch: Watch) -> None:
        self.page = page
        self.watch = watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self.page, name)


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="session")
def browser(playwright: Playwright) -> Iterator[Browser]:
    launched = playwright.chromium.launch(
        executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"]
    )
    yield launched
    launched.close()


@pytest.fixture(scope="session")
def stage() -> Iterator[Stage]:
    """The web interface with 30 days of history, and visitors who come.

    On the 31st more: there must be something of the month before.
    """
    with Stage(days=max(30, datetime.now(OFFICE).day + 1)) as started:
        yield started


@pytest.fixture(scope="session")
def logins(browser: Browser, stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Log each user in once, by the form; a file with the cookie by name."""
    files: dict[str, Path] = {}

    def of(name: str) -> Path:
        if name not in files:
            if name == GERMAN:
                people.add(stage.state_dir, name, "admin", "de")
            context = browser.new_context(base_url=stage.url)
            log_in(context.new_page(), name)
            files[name] = tmp_path_factory.mktemp("login") / f"{name}.json"
            context.storage_state(path=files[name])
            context.close()
        return files[name]

    return of


def log_in(page: Page, name: str = USER, password: str = PASSWORD) -> None:
    """Fill in the form."""
    page.goto("/login")
    page.locator("#name").fill(name)
    page.locator("#password").fill(password)
    page.locator("form button[type=submit]").click()
    page.wait_for_url(lambda url: "/login" not in url)


@pytest.fixture
def as_it_was(stage: Stage) -> Iterator[None]:
    """Put the settings back: others use the stage too."""
    before = stage.config_file.read_bytes()
    yield
    stage.api("PUT", "/v1/config", before)


OpenPage = Callable[..., WatchedPage]


@pytest.fixture
def open_page(browser: Browser, stage: Stage, logins: Any) -> Iterator[OpenPage]:
    """`open_page(path, user="admin"|"viewer"|None, size, scheme, language)`: a page of its own."""
    contexts: list[BrowserContext] = []
    watches: list[Watch] = []

    def make(
        path: str = "",
        *,
        user: str | None = USER,
        size: Size = "desktop",
        scheme: Scheme = "light",
        language: str = "en",
        **options: Any,
    ) -> WatchedPage:
        # The office's language counts more than the browser's: who reads another has chosen it.
        user = GERMAN if (user, language) == (USER, "de") else user
        context = browser.new_context(
            base_url=stage.url,
            storage_state=logins(user) if user else None,
            color_scheme=scheme,
            locale={"en": "en-GB", "de": "de-DE"}[language],
            reduced_motion="reduce",
            **SIZES[size],
            **{"service_workers": "block", **options},
        )
        context.set_default_timeout(PATIENCE_MS)
        watch = Watch(stage.url)
        watch.context(context)
        contexts.append(context)
        watches.append(watch)
        made = WatchedPage(context.new_page(), watch)
        if path:
            made.goto(path)
        return made

    yield make
    for context in contexts:
        for each in context.pages:
            # One that goes on asking has a question under way, which would fail in another test.
            each.unroute_all(behavior="ignoreErrors")
        context.close()
    for watch in watches:
        watch.check()


@pytest.fixture
def page(open_page: OpenPage) -> WatchedPage:
    """An administrator's, wide and light, nowhere yet: `page.goto("/history")`."""
    return open_page()


@pytest.fixture
def phone(open_page: OpenPage) -> WatchedPage:
    """An administrator's telephone."""
    return open_page(size="phone")


@pytest.fixture
def viewer(open_page: OpenPage) -> WatchedPage:
    """Somebody who may look only."""
    return open_page(user=VIEWER)
