"""Updating the box in the browser: a real RAUC with slots that are files, over a restart."""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Route, expect

from tests.simulator.office.namespace import ROOT
from tests.webui.conftest import PATIENCE_MS, SIZES, OpenPage, Watch, WatchedPage, log_in
from tests.webui.looks import SETTLED_MS, too_wide, violations
from tests.webui.stage import Stage
from tests.webui.story import Story

sys.path.append(str(ROOT / "package/naproxy/tests"))

from rauc_machine import RaucMachine, Signer, bundle, usable

HELPER = """#!/bin/sh
[ "$1" = reboot ] && touch {}/rebooted
exit 0
"""
SHOTS = os.environ.get("SHOTS", "")
BROKEN = r"ERR_|Failed to load resource|502|503"
"""What Chromium says of connections that break."""


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Signer:
    return Signer(tmp_path_factory.mktemp("keys"), "Naproxy releases")


@pytest.fixture
def machine(tmp_path: Path, signer: Signer) -> Iterator[RaucMachine]:
    if usable():
        pytest.skip(usable() or "")
    made = RaucMachine(tmp_path, signer)
    made.boot("A")
    yield made
    made.shut_down()


@pytest.fixture
def box(machine: RaucMachine) -> Iterator[Stage]:
    """A box of ours: the whole machine is Naproxy's, and updated by images."""
    helper = machine.directory / "helper"
    helper.write_text(HELPER.format(machine.directory))
    helper.chmod(0o755)
    ours = [
        *("--platform=naproxy", f"--helper={helper}"),
        *(f"--system-dir={machine.directory}/system", f"--rauc-conf={machine.conf}"),
    ]
    with Stage(
        days=0.1, visitors=False, arguments=ours, environment=machine.environment()
    ) as stage:
        yield stage


@pytest.fixture
def admin(browser: Browser, box: Stage) -> Iterator[WatchedPage]:
    context = browser.new_context(base_url=box.url, **SIZES["desktop"], reduced_motion="reduce")
    context.set_default_timeout(PATIENCE_MS)
    watch = Watch(box.url)
    page = WatchedPage(context.new_page(), watch)
    log_in(page.page)
    watch.context(context)
    page.goto("/update")
    page.get_by_text("Place A").first.wait_for()
    yield page
    context.close()
    watch.check()


def look(page: WatchedPage, name: str) -> None:
    """The page is accessible and fits, wide and narrow, light and dark; SHOTS=folder keeps it."""
    for size, scheme in (("narrow", "dark"), ("desktop", "light")):
        page.set_viewport_size(SIZES[size]["viewport"])
        page.emulate_media(color_scheme=scheme)
        page.wait_for_timeout(SETTLED_MS)
        if SHOTS:
            page.screenshot(path=Path(SHOTS) / f"{name}-{size}-{scheme}.png", full_page=True)
        assert violations(page) == [], f"{name} {size} {scheme}"
        assert too_wide(page) == [], f"{name} {size}"


def choose(page: Any, file: Path) -> None:
    page.locator("#image-file").set_input_files(file)


def sure(page: Any, words: str) -> Any:
    return page.locator("dialog[open]").get_by_role("button", name=words)


def confirm(page: Any, words: str) -> None:
    sure(page, words).click()


def test_an_update_from_the_file_to_the_restart_and_back_again(
    admin: WatchedPage, box: Stage, machine: RaucMachine, signer: Signer, tmp_path: Path
) -> None:
    page = admin
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
            look(page, "update-good")

        story.click(work.get_by_role("button", name="Write it"))
        story.click(sure(page, "Write it"))
        page.get_by_text("Version 9.0.0 is written.").wait_for()
        assert machine.primary() == "B"
        assert any(machine.slots["B"].read_bytes()[:4096])
        with story.aside():
            look(page, "update-written")

        page.watch.allow(BROKEN)
        story.click(work.get_by_role("button", name="Restart the box"))
        story.click(sure(page, "Restart the box"))
        page.get_by_text("The box restarts").wait_for()
        assert (machine.directory / "rebooted").exists()
        box.switch_off()
        machine.boot("B")
        box.start_controller()
        box.start_webui()
        page.wait_for_url(re.compile("/login"), timeout=30_000)
        log_in_here(page)
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


def log_in_here(page: Any) -> None:
    page.locator("#name").fill("admin")
    page.locator("#password").fill("Night watch 7")
    page.locator("form button[type=submit]").click()


def test_a_box_that_went_back_by_itself_says_so(
    admin: WatchedPage, box: Stage, machine: RaucMachine, signer: Signer, tmp_path: Path
) -> None:
    page = admin
    choose(page, bundle(tmp_path / "new.raucb", signer))
    page.locator("#work").get_by_role("button", name="Write it").click()
    confirm(page, "Write it")
    page.watch.allow(BROKEN)
    page.locator("#work").get_by_role("button", name="Restart the box").click()
    confirm(page, "Restart the box")
    page.get_by_text("The box restarts").wait_for()
    box.switch_off()
    machine.boot("A")
    box.start_controller()
    box.start_webui()
    page.wait_for_url(re.compile("/login"), timeout=30_000)
    log_in_here(page)
    page.get_by_text("The box went back to version").wait_for()


def test_an_upload_goes_on_where_the_connection_broke(
    admin: WatchedPage, box: Stage, signer: Signer, tmp_path: Path
) -> None:
    page = admin
    sent: list[str] = []
    held: list[Route] = []

    def third_is_held(route: Route) -> None:
        sent.append(route.request.url)
        if len(sent) == 3:
            held.append(route)
        else:
            route.continue_()

    page.route(lambda url: "offset=" in url, third_is_held)
    page.watch.allow(BROKEN)
    choose(page, bundle(tmp_path / "large.raucb", signer, kib=12 << 10))
    for _ in range(PATIENCE_MS // 50):
        if not held:
            page.wait_for_timeout(50)
    box.stop_webui()
    held[0].continue_()
    page.get_by_text("The connection broke. The page keeps trying").wait_for()
    box.start_webui()
    page.get_by_text("This file is good.").wait_for(timeout=150_000)
    offsets = [int(url.partition("offset=")[2]) for url in sent]
    # Only what was under way when it broke is sent twice.
    assert len(offsets) - len(set(offsets)) <= 1
    assert offsets.count(0) == 1


@pytest.mark.parametrize("kind", ["other key", "other board", "cut"])
def test_a_file_that_is_not_good_is_refused_in_words_and_another_may_be_chosen(
    admin: WatchedPage, machine: RaucMachine, signer: Signer, tmp_path: Path, kind: str
) -> None:
    if kind == "other key":
        file = bundle(tmp_path / "bad.raucb", Signer(tmp_path, "Somebody else"))
    else:
        file = bundle(tmp_path / "bad.raucb", signer, board="naproxy-soekris")
    if kind == "cut":
        file.write_bytes(file.read_bytes()[:100_000])
    choose(admin, file)
    alert = admin.locator("#work [role=alert]")
    alert.wait_for()
    words = {
        "other key": "not signed by",
        "other board": "another kind of box",
        "cut": "only part of",
    }
    expect(alert).to_contain_text(words[kind])
    assert machine.primary() == "A"
    choose(admin, bundle(tmp_path / "good.raucb", signer))
    admin.get_by_text("This file is good.").wait_for()


def test_the_refusal_of_the_file_before_does_not_end_the_check_of_the_next(
    admin: WatchedPage, signer: Signer, tmp_path: Path
) -> None:
    choose(admin, bundle(tmp_path / "bad.raucb", signer, board="naproxy-soekris"))
    admin.locator("#work [role=alert]").wait_for()
    held: list[Route] = []
    admin.route("**/api/update/check", lambda route: held.append(route))  # noqa: PLW0108
    with admin.expect_request("**/api/update/check"):
        choose(admin, bundle(tmp_path / "good.raucb", signer))
    # The page asks how far it is, as it does every few seconds.
    admin.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    admin.wait_for_timeout(1000)
    held[0].continue_()
    admin.get_by_text("This file is good.").wait_for()


def test_an_older_version_is_written_only_after_a_second_word(
    admin: WatchedPage, machine: RaucMachine, signer: Signer, tmp_path: Path
) -> None:
    choose(admin, bundle(tmp_path / "old.raucb", signer, version="0.0.1"))
    admin.get_by_text("This version is older").wait_for()
    admin.locator("#work").get_by_role("button", name="Write it").click()
    dialog = admin.locator("dialog[open]")
    expect(dialog).to_contain_text("Really write version 0.0.1?")
    dialog.get_by_role("button", name="Cancel").click()
    assert machine.primary() == "A"
    admin.locator("#work").get_by_role("button", name="Write it").click()
    confirm(admin, "Write it anyway")
    admin.get_by_text("Version 0.0.1 is written.").wait_for()


def test_where_there_is_no_rauc_the_page_says_how_it_is_updated(page: WatchedPage) -> None:
    page.goto("/update")
    page.get_by_text("You cannot update this installation here.").wait_for()
    expect(page.locator("#new")).to_be_hidden()


def test_who_may_look_only_sees_no_buttons(open_page: OpenPage) -> None:
    viewer = open_page("/update", user="viewer")
    viewer.get_by_text("You cannot update this installation here.").wait_for()
    expect(viewer.locator("#new")).to_be_hidden()
