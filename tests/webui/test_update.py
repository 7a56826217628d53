"""Updating the box in the browser: a real RAUC with slots that are files, over a restart."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Route, expect

from tests.simulator.office.namespace import ROOT
from tests.webui.conftest import FEW_DAYS, PATIENCE_MS, WatchedPage, log_in, watched
from tests.webui.looks import clean_narrow_and_dark, still
from tests.webui.people import PASSWORD, USER
from tests.webui.stage import Stage
from tests.webui.story import Story

sys.path.append(str(ROOT / "package/naproxy/tests"))

from rauc_machine import RaucMachine, Signer, bundle, usable

HELPER = """#!/bin/sh
[ "$1" = reboot ] && touch {}/rebooted
exit 0
"""
BROKEN = r"ERR_|Failed to load resource|502|503"
"""Chromium's messages about broken connections."""


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Signer:
    return Signer(tmp_path_factory.mktemp("keys"), "Naproxy releases")


@contextmanager
def updated_by_images(directory: Path, signer: Signer) -> Iterator[tuple[Stage, RaucMachine]]:
    """A box of ours: the whole machine is Naproxy's, and updated by images."""
    if usable():
        pytest.skip(usable() or "")
    machine = RaucMachine(directory, signer)
    machine.boot("A")
    helper = directory / "helper"
    helper.write_text(HELPER.format(directory))
    helper.chmod(0o755)
    ours = [
        *("--platform=naproxy", f"--helper={helper}"),
        *(f"--system-dir={directory}/system", f"--rauc-conf={machine.conf}"),
    ]
    try:
        with Stage(
            days=FEW_DAYS, visitors=False, arguments=ours, environment=machine.environment()
        ) as stage:
            yield stage, machine
    finally:
        machine.shut_down()


@pytest.fixture
def own(tmp_path: Path, signer: Signer) -> Iterator[tuple[Stage, RaucMachine]]:
    """One whose slots a test writes."""
    (tmp_path / "machine").mkdir()
    with updated_by_images(tmp_path / "machine", signer) as made:
        yield made


@pytest.fixture(scope="module")
def shared(
    tmp_path_factory: pytest.TempPathFactory, signer: Signer
) -> Iterator[tuple[Stage, RaucMachine]]:
    """One that files are only sent to."""
    with updated_by_images(tmp_path_factory.mktemp("machine"), signer) as made:
        yield made


@contextmanager
def update_page(browser: Browser, box: Stage) -> Iterator[WatchedPage]:
    with watched(browser, box.url) as page:
        log_in(page.page)
        page.watch.take()  # discard the messages until now
        page.goto("/update")
        page.get_by_text("Place A").first.wait_for()
        yield page


@pytest.fixture
def admin(browser: Browser, own: tuple[Stage, RaucMachine]) -> Iterator[WatchedPage]:
    with update_page(browser, own[0]) as page:
        yield page


@pytest.fixture
def sender(browser: Browser, shared: tuple[Stage, RaucMachine]) -> Iterator[WatchedPage]:
    shared[0].api("DELETE", "/v1/update")
    with update_page(browser, shared[0]) as page:
        yield page


def choose(page: Any, file: Path) -> None:
    page.locator("#image-file").set_input_files(file)


def sure(page: Any, words: str) -> Any:
    return page.locator("dialog[open]").get_by_role("button", name=words)


def confirm(page: Any, words: str) -> None:
    sure(page, words).click()


def test_an_update_from_the_file_to_the_restart_and_back_again(
    admin: WatchedPage, own: tuple[Stage, RaucMachine], signer: Signer, tmp_path: Path
) -> None:
    page, (box, machine) = admin, own
    file = bundle(tmp_path / "new.raucb", signer)
    with Story(page, "update") as story:
        story.to("Update")
        story.take(page.locator("#image-file"), file)
        page.get_by_text("This file is good.").wait_for()
        work = page.locator("#work")
        for words in ("9.0.0", "Newer", "CN = Naproxy releases", "naproxy-raspberrypi"):
            expect(work.get_by_text(words).first).to_be_visible()
        assert machine.primary() == "A"
        assert not any(machine.slots["B"].read_bytes()[:4096])
        with story.aside():
            clean_narrow_and_dark(page, "update-good")

        story.click(work.get_by_role("button", name="Write it"))
        story.click(sure(page, "Write it"))
        page.get_by_text("Version 9.0.0 is written.").wait_for()
        assert machine.primary() == "B"
        assert any(machine.slots["B"].read_bytes()[:4096])
        with story.aside():
            clean_narrow_and_dark(page, "update-written")

        page.watch.allow(BROKEN)
        story.click(work.get_by_role("button", name="Restart the box"))
        story.click(sure(page, "Restart the box"))
        page.get_by_text("The box restarts").wait_for()
        assert (machine.directory / "rebooted").exists()
        restart(page, box, machine, "B")
        page.get_by_text("The box runs again, with version 9.0.0 from place B.").wait_for()
    expect(page.get_by_text("Not confirmed yet")).to_be_visible()
    box.api("POST", "/v1/update/confirm", {})
    page.get_by_text("Confirmed: it works").wait_for()

    page.get_by_role("button", name="Go back to the other version").click()
    confirm(page, "Go back to the other version")
    page.get_by_text("After the next restart of the box, place A runs.").wait_for()
    assert machine.primary() == "A"
    page.get_by_role("button", name="Keep this version").click()
    page.get_by_role("button", name="Go back to the other version").wait_for()
    assert machine.primary() == "B"


def restart(page: Any, box: Stage, machine: RaucMachine, slot: str) -> None:
    """Restart the box from this slot, which ends all sessions."""
    box.switch_off()
    machine.boot(slot)
    box.start_controller()
    box.start_webui()
    page.wait_for_url(re.compile("/login"), timeout=PATIENCE_MS)
    page.locator("#name").fill(USER)
    page.locator("#password").fill(PASSWORD)
    page.locator("form button[type=submit]").click()


@pytest.mark.long
def test_a_box_that_went_back_by_itself_says_so(
    admin: WatchedPage, own: tuple[Stage, RaucMachine], signer: Signer, tmp_path: Path
) -> None:
    page, (box, machine) = admin, own
    choose(page, bundle(tmp_path / "new.raucb", signer))
    page.locator("#work").get_by_role("button", name="Write it").click()
    confirm(page, "Write it")
    page.watch.allow(BROKEN)
    page.locator("#work").get_by_role("button", name="Restart the box").click()
    confirm(page, "Restart the box")
    page.get_by_text("The box restarts").wait_for()
    restart(page, box, machine, "A")
    page.get_by_text("The box went back to version").wait_for()


@pytest.mark.long
def test_a_file_that_is_not_good_is_refused_in_words_and_another_may_be_chosen(
    sender: WatchedPage, shared: tuple[Stage, RaucMachine], signer: Signer, tmp_path: Path
) -> None:
    other_board = bundle(tmp_path / "board.raucb", signer, board="naproxy-soekris")
    cut = tmp_path / "cut.raucb"
    cut.write_bytes(other_board.read_bytes()[:100_000])
    for file, words in (
        (bundle(tmp_path / "key.raucb", Signer(tmp_path, "Somebody else")), "not signed by"),
        (other_board, "another kind of box"),
        (cut, "only part of"),
    ):
        choose(sender, file)
        expect(sender.locator("#work [role=alert]")).to_contain_text(words)
        assert shared[1].primary() == "A"
    choose(sender, bundle(tmp_path / "good.raucb", signer))
    sender.get_by_text("This file is good.").wait_for()


@pytest.mark.long
def test_the_refusal_of_the_file_before_does_not_end_the_check_of_the_next(
    sender: WatchedPage, signer: Signer, tmp_path: Path
) -> None:
    choose(sender, bundle(tmp_path / "bad.raucb", signer, board="naproxy-soekris"))
    sender.locator("#work [role=alert]").wait_for()
    held: list[Route] = []
    sender.route("**/api/update/check", lambda route: held.append(route))  # noqa: PLW0108
    with sender.expect_request("**/api/update/check"):
        choose(sender, bundle(tmp_path / "good.raucb", signer))
    # If the page now asked how far it is, it would be answered before this question.
    sender.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    sender.evaluate("fetch('/api/update').then((answer) => answer.text())")
    still(sender)
    held[0].continue_()
    sender.get_by_text("This file is good.").wait_for()


@pytest.mark.long
def test_an_older_version_is_written_only_after_a_second_word(
    admin: WatchedPage, own: tuple[Stage, RaucMachine], signer: Signer, tmp_path: Path
) -> None:
    choose(admin, bundle(tmp_path / "old.raucb", signer, version="0.0.1"))
    admin.get_by_text("This version is older").wait_for()
    admin.locator("#work").get_by_role("button", name="Write it").click()
    dialog = admin.locator("dialog[open]")
    expect(dialog).to_contain_text("Really write version 0.0.1?")
    dialog.get_by_role("button", name="Cancel").click()
    assert own[1].primary() == "A"
    admin.locator("#work").get_by_role("button", name="Write it").click()
    confirm(admin, "Write it anyway")
    admin.get_by_text("Version 0.0.1 is written.").wait_for()


@pytest.mark.long
def test_where_there_is_no_rauc_the_page_says_how_it_is_updated(viewer: WatchedPage) -> None:
    viewer.goto("/update")
    viewer.get_by_text("You cannot update this installation here.").wait_for()
    expect(viewer.locator("#new")).to_be_hidden()
