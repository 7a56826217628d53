"""A Pico becomes our meter, in a real browser: the API is the box's own, the Pico is made."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from naproxy.api.calls import ApiError, Call, answer
from naproxy.config import document as config
from naproxy.history.write.journal import Journal
from naproxy.setup import calibrating
from naproxy.setup.api import Setup
from naproxy.setup.pico import Picos
from naproxy_meter import firmware
from playwright.sync_api import Route, expect

from tests.pico.board import Board, uf2
from tests.webui.conftest import OpenPage, WatchedPage
from tests.webui.looks import clean, settle


class Bench:
    """A Pico in a socket, and the box's answers about it."""

    def __init__(self, folder: Path) -> None:
        built = folder / "micropython.uf2"
        built.write_bytes(uf2())
        self.board = Board(folder / "pico", boot=True)
        self.meter: str | None = None
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        loaded = config.parse("")
        picos = Picos(folder, lambda _: nullcontext(), self.board.usb, built=built)
        self._journal = Journal(folder / "journal")
        self._setup = Setup(
            lambda: loaded, folder / "no.toml", self._journal, picos=picos, ports=self._ports
        )

    def _ports(self) -> dict[str, tuple[str, str | None]]:
        if self.meter is None:
            return {}
        return {os.path.realpath(self.board.port): (self.meter, firmware.VERSION)}

    def answer(self, route: Route) -> None:
        """Answer the browser as the controller does."""
        request = route.request
        path = urlsplit(request.url).path.removeprefix("/api/").split("/")
        call = Call(request.method, ("v1", *path), {}, (request.post_data or "").encode())
        asked = answer(self._setup.handlers(), call)
        try:
            status, body = asyncio.run_coroutine_threadsafe(asked, self._loop).result(20)
        except ApiError as error:
            status, body = error.status, error.body
        route.fulfill(status=status, body=json.dumps(body), content_type="application/json")

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self.board.unplug()
        self._journal.close()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.stop()


def row(page: Any) -> Any:
    return page.locator("[data-pico]")


def test_a_new_pico_becomes_a_meter_and_is_calibrated(
    page: WatchedPage, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    page.route("**/api/pico**", bench.answer)
    page.goto("/settings/meters")
    expect(row(page)).to_contain_text("New Pico")
    row(page).get_by_role("button", name="Make it a meter").click()
    expect(page.locator(".toast")).to_contain_text(f"The firmware {firmware.VERSION} runs on it.")
    expect(row(page)).to_contain_text("Pico with MicroPython")
    assert b"MicroPython v1.27.0" in bench.board.programmed
    # The office sets it up as a meter; then it can be calibrated.
    bench.meter = "feed"
    monkeypatch.setattr(calibrating, "GAIN_S", 1.0)
    page.get_by_role("button", name="Look again").click()
    row(page).get_by_role("button", name="Calibrate").click()
    page.get_by_label("The load draws").fill("15")
    page.get_by_role("button", name="Measure it").click()
    expect(page.locator("[data-picos] .notice")).to_contain_text("100,000 before, 80,000 now")


@pytest.mark.long
def test_a_strangers_program_is_replaced_only_after_a_question(
    page: WatchedPage, bench: Bench
) -> None:
    board = bench.board
    (board.nodes / "sda").write_bytes((board.nodes / "sda").read_bytes()[: 1 << 20] + uf2())
    board.wait_for(2)
    (board.flash / "main.py").write_bytes(b"print(6 * 7)\n")
    board.pull()
    page.route("**/api/pico**", bench.answer)
    page.goto("/settings/meters")
    row(page).get_by_role("button", name="Make it a meter").click()
    dialog = page.locator("dialog")
    expect(dialog).to_contain_text("Another program is on this Pico")
    board.wait_for(4)
    dialog.locator("button[value=yes]").click()
    expect(page.locator(".toast")).to_contain_text("runs on it")


@pytest.mark.long
@pytest.mark.parametrize(("size", "language"), [("desktop", "en"), ("narrow", "de")])
def test_picos_can_be_read_by_everybody(
    open_page: OpenPage, bench: Bench, size: str, language: str
) -> None:
    page = open_page(size=size, language=language)
    # The box searches for meters at most every ten seconds; the page takes what was found.
    page.watch.allow(r"429 .*/api/setup/meters")
    page.route("**/api/pico**", bench.answer)
    for path in ("/settings/meters", "/setup/again/meter"):
        page.goto(path)
        expect(row(page)).to_be_visible()
        settle(page)
        clean(page, f"{path.replace('/', '-')}-{size}")
