"""Shared by tests of settings: actions on a page, and questions to a stage."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import expect

from tests.webui.conftest import WatchedPage
from tests.webui.stage import Stage


def config(stage: Stage) -> Any:
    """Return the configuration in force."""
    return stage.api("GET", "/v1/config")


def server(stage: Stage) -> Any:
    """Return that of the one server."""
    return config(stage)["server"][0]


def patch(stage: Stage, *changes: dict[str, Any]) -> None:
    """Change the configuration past the page."""
    body = {"changes": changes, "version": config(stage)["version"]}
    stage.api("PATCH", "/v1/config", body)


def put(stage: Stage, where: str, **values: Any) -> None:
    """Set keys of one part of the configuration."""
    patch(stage, *({"op": "set", "where": f"{where}.{k}", "value": v} for k, v in values.items()))


def field(page: WatchedPage, where: str) -> Any:
    """Return the field of a key."""
    return page.locator(f'[data-where="{where}"]:enabled').first


def beside(page: WatchedPage, place: Any) -> Any:
    """Return what is said to be wrong beside a field."""
    return page.locator(".field", has=place).locator(".error")


def said(page: WatchedPage, name: str) -> Any:
    """Return what the page says that a value means."""
    return page.locator(f'[data-consequence="{name}"]')


def save(page: WatchedPage) -> None:
    """Press the button of the bar that says what is not saved yet."""
    page.locator("[data-save-bar] button[type=submit]").click()


def saved(page: WatchedPage) -> None:
    """Wait until the page says so."""
    expect(page.locator(".toast", has_text="Saved")).to_be_visible()


def allow_refusals(page: WatchedPage) -> None:
    """A refusal is a status that the browser reports as an error."""
    page.watch.allow(r"status of (4\d\d|502)")
