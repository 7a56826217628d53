"""A stage for the session, and pages of a real Chromium that must stay clean.

`page` is an administrator's, wide and light; `open_page(...)` makes others. An error or warning on
a page's console, an exception, or a request to another host fails the test at its end. A test that
provokes one calls `page.watch.allow("words")` beforehand.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    Page,
    Playwright,
    expect,
    sync_playwright,
)

from tests.simulator.past.cached import USUAL_DAYS
from tests.webui import people
from tests.webui.people import GERMAN, PASSWORD, USER, VIEWER
from tests.webui.stage import Stage

FEW_DAYS = 0.1
"""Enough where nobody looks at the past; the longer, the longer it is made."""
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
SCREENS = [("en", "desktop"), pytest.param("de", "narrow", marks=pytest.mark.long)]
"""Language and size."""

Size = Literal["desktop", "phone", "narrow"]
Scheme = Literal["light", "dark"]
OpenPage = Callable[..., "WatchedPage"]

_USUAL = (
    # axe-core asks the sandboxed frame of the waiting page, too.
    r"'postMessage' on 'DOMWindow': .* recipient window's origin \('null'\)",
    "Service Worker registration blocked by Playwright",
)


class Watch:
    """Collects forbidden actions of a browser's pages."""

    def __init__(self, url: str) -> None:
        self.wrong: list[str] = []
        self._host = urlsplit(url).netloc
        self._allowed = [*_USUAL]

    def allow(self, pattern: str) -> None:
        """Ignore messages that match: the test provokes them."""
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
        left = self._left()
        assert left == [], "\n".join(left)

    def take(self) -> list[str]:
        """Return the collected messages, and start over."""
        left = self._left()
        self.wrong.clear()
        self._allowed = [*_USUAL]
        return left

    def _left(self) -> list[str]:
        return [w for w in self.wrong if not any(re.search(p, w) for p in self._allowed)]


class WatchedPage:
    """A page and its watch; everything else is Playwright's own."""

    def __init__(self, page: Page, watch: Watch) -> None:
        self.page = page
        self.watch = watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self.page, name)


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as started:
        yield started


@contextmanager
def launched(playwright: Playwright, program: str | Path = CHROMIUM) -> Iterator[Browser]:
    """Start a Chromium, by another program too, and end it."""
    browser = playwright.chromium.launch(
        executable_path=program, args=["--no-sandbox", "--disable-dev-shm-usage"]
    )
    try:
        yield browser
    finally:
        browser.close()


@pytest.fixture(scope="session")
def browser(playwright: Playwright) -> Iterator[Browser]:
    with launched(playwright) as made:
        yield made


@pytest.fixture(scope="session")
def stage() -> Iterator[Stage]:
    """The web interface of a box with two weeks of history, to which simulated visitors come."""
    with Stage(days=USUAL_DAYS) as started:
        yield started


class Pages:
    """Pages of one web interface, each watched; `end()` closes those that a test has opened.

    Browser contexts are reused, because they have cached files. Contexts without a login, or of a
    test's own, are not.
    """

    def __init__(self, browser: Browser, stage: Stage) -> None:
        self._browser = browser
        self._stage = stage
        self._logins: dict[str, Any] = {}
        self._kept: dict[tuple[str, ...], tuple[BrowserContext, Watch]] = {}
        self._own: list[tuple[BrowserContext, Watch]] = []

    def open(
        self,
        path: str = "",
        *,
        user: str | None = USER,
        size: Size = "desktop",
        scheme: Scheme = "light",
        language: str = "en",
        own: bool = False,
        **options: Any,
    ) -> WatchedPage:
        """Open a page; `own`: the test changes more of its browser than this page."""
        # The office's language overrides the browser's, so German needs a user who chose it.
        user = GERMAN if (user, language) == (USER, "de") else user
        how = (user or "", size, scheme, language)
        made = None if own or options or user is None else self._kept.get(how)
        if made is None:
            settings = {
                "storage_state": self.login(user) if user else None,
                "color_scheme": scheme,
                "locale": {"en": "en-GB", "de": "de-DE"}[language],
                "service_workers": "block",
                **SIZES[size],
                **options,
            }
            made = new_context(self._browser, self._stage.url, **settings)
            if own or options or user is None:
                self._own.append(made)
            else:
                self._kept[how] = made
        context, watch = made
        page = WatchedPage(context.new_page(), watch)
        if path:
            page.goto(path)
        return page

    def login(self, name: str) -> Any:
        """Log each user in once, by the form; return the cookies."""
        if name not in self._logins:
            if name == GERMAN:
                people.add(self._stage.state_dir, name, "admin", "de")
            self._logins[name] = cookies_of(self._browser, self._stage.url, name)
        return self._logins[name]

    def end(self) -> None:
        """Close what was opened; fail if it did what it should not."""
        own, kept = self._own, [*self._kept.values()]
        self._own = []
        for context, _ in [*own, *kept]:
            for page in context.pages:
                # One that goes on asking has a question under way, which would fail later.
                page.unroute_all(behavior="ignoreErrors")
        for context, _ in own:
            context.close()
        for context, _ in kept:
            for page in context.pages:
                _forget(page, self._stage.url)
                page.close()
        wrong = [each for _, watch in [*own, *kept] for each in watch.take()]
        assert wrong == [], "\n".join(wrong)


def new_context(browser: Browser, url: str, **options: Any) -> tuple[BrowserContext, Watch]:
    """Make a context for pages of `url`, and watch it."""
    context = browser.new_context(base_url=url, **{"reduced_motion": "reduce", **options})
    context.set_default_timeout(PATIENCE_MS)
    watch = Watch(url)
    watch.context(context)
    return context, watch


@contextmanager
def watched(browser: Browser, url: str, **options: Any) -> Iterator[WatchedPage]:
    """Yield a page without a login; its forbidden actions fail the test."""
    context, watch = new_context(browser, url, **{**SIZES["desktop"], **options})
    try:
        yield WatchedPage(context.new_page(), watch)
    finally:
        context.close()
    watch.check()


def _forget(page: Page, url: str) -> None:
    """Forget what pages have kept in the browser, such as light or dark."""
    devtools = page.context.new_cdp_session(page)
    kept = {"origin": url, "storageTypes": "local_storage"}
    devtools.send("Storage.clearDataForOrigin", kept)


@pytest.fixture(scope="session")
def pages(browser: Browser, stage: Stage) -> Pages:
    return Pages(browser, stage)


def log_in(page: Page, name: str = USER, password: str = PASSWORD) -> None:
    """Fill in the form."""
    page.goto("/login")
    page.locator("#name").fill(name)
    page.locator("#password").fill(password)
    page.locator("form button[type=submit]").click()
    page.wait_for_url(lambda url: "/login" not in url)


def cookies_of(browser: Browser, url: str, name: str = USER, **options: Any) -> Any:
    """Log somebody in by the form, and return what the browser keeps of it."""
    context = browser.new_context(base_url=url, **options)
    log_in(context.new_page(), name)
    state = context.storage_state()
    context.close()
    return state


@pytest.fixture
def as_it_was(stage: Stage) -> Iterator[None]:
    """Put the settings back: others use the stage too."""
    before = stage.config_file.read_bytes()
    yield
    stage.api("PUT", "/v1/config", before)


@pytest.fixture
def open_page(pages: Pages) -> Iterator[OpenPage]:
    """`open_page(path, user="admin"|"viewer"|None, size, scheme, language)`: as Pages.open."""
    yield pages.open
    pages.end()


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
