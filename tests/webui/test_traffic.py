"""The page Traffic in a browser: the past's figures, and a log that is sent and estimated."""

from __future__ import annotations

import json
import os
import random
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Route, expect

from tests.patience import wait_for
from tests.webui.conftest import OpenPage, Scheme, Size, WatchedPage
from tests.webui.looks import clean, settle, until
from tests.webui.people import VIEWER
from tests.webui.stage import Stage

DONE_MS = 60_000
START_S = 1_790_000_000
PIECE = 1 << 20
STATE = "fetch('/api/traffic/estimate').then((a) => a.json())"
WEEK = "#week .heat:not([role]) tbody"
AGENT = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/126.0.0.0 Safari/537.36"


def log_file(path: Path, lines: int, days: int = 5) -> Path:
    """Write a log of so many requests of people."""
    chosen = random.Random(7)
    times = sorted(chosen.randrange(days * 86400) for _ in range(lines))
    with path.open("w") as file:
        for t_s in times:
            when = datetime.fromtimestamp(START_S + t_s, UTC).strftime("%d/%b/%Y:%H:%M:%S +0000")
            client, where = f"192.0.2.{t_s % 200}", f"/page/{t_s % 997}"
            file.write(f'{client} - - [{when}] "GET {where} HTTP/1.1" 200 100 "-" "{AGENT}"\n')
    return path


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return log_file(tmp_path / "access.log", 400)


@pytest.fixture
def long_log(tmp_path: Path) -> Path:
    made = log_file(tmp_path / "long.log", 16_000)
    assert 2 * PIECE < made.stat().st_size < 3 * PIECE
    return made


@pytest.fixture
def traffic(page: WatchedPage) -> WatchedPage:
    """The page of an administrator, regardless of earlier estimates."""
    page.goto("/traffic")
    settle(page)
    # The script that takes logs comes last, and asks whether an estimate runs.
    expect(page.locator("#drop")).to_have_attribute("aria-disabled", "false", timeout=DONE_MS)
    return page


@pytest.fixture
def empty(traffic: WatchedPage) -> WatchedPage:
    """The same, of a box that has forgotten its estimate."""
    if traffic.evaluate(STATE)["state"] != "none":
        traffic.evaluate(
            """() => fetch("/api/traffic/estimate", { method: "DELETE", headers: {
                "X-CSRF-Token": document.querySelector('meta[name="csrf-token"]').content } })"""
        )
        traffic.reload()
        settle(traffic)
        expect(traffic.locator("#drop")).to_have_attribute("aria-disabled", "false")
    return traffic


@pytest.fixture
def estimated(traffic: WatchedPage, request: pytest.FixtureRequest, log: Path) -> WatchedPage:
    """The same, with the result for `log`."""
    if traffic.locator("#result h2", has_text="Result for access").count() == 0:
        choose(request.getfixturevalue("empty"), log)
    finished(traffic)
    return traffic


def choose(page: WatchedPage, *files: Path) -> None:
    page.set_input_files("#estimate-files", [str(file) for file in files])


def finished(page: WatchedPage) -> Any:
    """Wait for the result, and return what the box has."""
    expect(page.locator("#result .verdict").first).to_be_visible(timeout=DONE_MS)
    return page.evaluate("fetch('/api/traffic/estimate/result').then((a) => a.json())")["logs"]


def uploads(stage: Stage) -> list[Path]:
    return list((stage.state_dir / "uploads").glob("*.part"))


# ------------------------------------------------------------------------------- the past


def test_the_past_is_shown_with_a_table_behind_every_chart(traffic: WatchedPage) -> None:
    expect(traffic.locator("#stats .stat")).to_have_count(5)
    expect(traffic.locator("#week td[data-level='6']").first).to_be_visible()
    for name in ("days", "rate", "gaps-count", "gaps-time"):
        figure = traffic.locator(f"#{name}")
        figure.get_by_text("Show as a table").click()
        expect(figure.locator("tbody tr").nth(3), name).to_be_visible()
    expect(traffic.locator("#agents tbody tr").nth(3)).to_be_visible()


@pytest.mark.long
def test_the_heat_map_can_be_read_without_colours(traffic: WatchedPage) -> None:
    expect(traffic.locator(f"{WEEK} td")).to_have_count(7 * 24)
    cells = traffic.locator(f"{WEEK} td").all_text_contents()
    assert all(re.fullmatch(r"\u2013|[\d.,]+k?", words) for words in cells)
    traffic.locator("#week-who").select_option("person")
    expect(traffic.locator(f"{WEEK} td")).not_to_have_text(cells)


@pytest.mark.long
def test_days_are_columns_on_a_phone(phone: WatchedPage) -> None:
    phone.goto("/traffic")
    settle(phone)
    expect(phone.locator(f"{WEEK} tr")).to_have_count(24)
    assert phone.locator("#week .heat:not([role]) thead th").count() == 8


@pytest.mark.long
def test_another_range_is_asked_for_and_shown(traffic: WatchedPage) -> None:
    expect(traffic.locator("#stats .stat")).to_have_count(5)
    before = traffic.locator("#stats").text_content()
    traffic.get_by_role("button", name="7 days").click()
    expect(traffic.locator("#stats")).not_to_have_text(before)
    assert traffic.get_by_role("button", name="7 days").get_attribute("aria-pressed") == "true"


@pytest.mark.long
def test_robots_can_be_looked_at_by_kind(traffic: WatchedPage) -> None:
    traffic.locator("#agents tbody tr").first.wait_for()
    traffic.locator("#agents-kind").select_option("monitor")
    kinds = traffic.locator("#agents tbody td:nth-child(2)").all_text_contents()
    assert kinds
    assert set(kinds) == {"Monitoring"}


@pytest.mark.long
def test_robots_can_be_downloaded_by_name_and_day(traffic: WatchedPage, tmp_path: Path) -> None:
    with traffic.expect_download() as download:
        traffic.locator("#agents-export").click()
    download.value.save_as(tmp_path / "agents.csv")
    lines = (tmp_path / "agents.csv").read_text().splitlines()
    assert lines[0] == "day,t_s,server,agent,class,outcome,requests,delayed"
    assert len(lines) > 10


# ---------------------------------------------------------------------------- a log is sent


@pytest.mark.long
def test_the_fill_of_the_cache_is_shown_with_advice(traffic: WatchedPage) -> None:
    kept = traffic.locator("#fill")
    expect(kept).to_contain_text("126 of 128 MB are in use, for 4,321 answers")
    expect(kept).to_contain_text("37 were pushed out to make room for others; 2,100 had run out")
    expect(kept).to_contain_text("content in use stays")


@pytest.mark.long
def test_evictions_from_the_cache_lead_to_advice(page: WatchedPage) -> None:
    said = {"t_s": 0, "used_bytes": 9, "room_bytes": 9, "answers": 8000, "pushed_out": 5}
    told: dict[str, Any] = {"warming": [], "pages": []}
    page.route("**/api/traffic/cache", lambda route: route.fulfill(json=told))
    for more, words in (
        (None, "does not say"),
        ({"pushed_out": 0}, "More memory would not help"),
        ({"pushed_out": 9000}, "never to keep large files"),
        ({"no_room": 1}, "1 download was cut off"),
    ):
        usual = {**said, "ran_out": 1, "no_room": 0, "seen_s": 86400}
        told["cache"] = None if more is None else usual | more
        page.goto("/traffic")
        expect(page.locator("#fill")).to_contain_text(words)


@pytest.mark.long
def test_cost_and_benefit_of_warming_are_shown(page: WatchedPage) -> None:
    page.goto("/traffic")
    warm = page.locator("#warm")
    expect(warm).to_contain_text("learns from visits")

    def told(route: Route) -> None:
        [warming] = (said := route.fetch().json())["warming"]
        warming |= {"since_s": 1_700_438_400, "fetches": 1412, "took_s": 96, "took_j": 4003}
        warming |= {"wakes_avoided": 37, "avoided_j": 106_560}
        route.fulfill(json=said)

    page.route("**/api/traffic/cache", told)
    page.reload()
    expect(warm).to_contain_text("37 wakes avoided since")
    expect(warm).to_contain_text("cost about 29.6 Wh")
    expect(warm).to_contain_text("asked about 1,412 answers")
    expect(warm).to_contain_text("cost about 1.11 Wh")


@pytest.mark.long
def test_results_of_page_checks_are_shown(page: WatchedPage) -> None:
    page.goto("/traffic")
    checked = page.locator("#checked")
    expect(checked).to_contain_text("The box does not check pages")

    def told(route: Route) -> None:
        [pages] = (said := route.fetch().json())["pages"]
        pages |= {"on": True, "since_s": 1_700_438_400, "verified": 12, "settling": 1}
        pages |= {"answered": 1412, "compared": 90, "differed": 2, "old": 5, "excluded": 1}
        pages["excluded_pages"] = [
            {"url": "/prices/<b>", "why": "changed"},
            {"url": "/prices/*", "why": "pattern"},
        ]
        route.fulfill(json=said)

    page.route("**/api/traffic/cache", told)
    page.reload()
    expect(checked).to_contain_text("1,412 requests for pages answered asleep since")
    expect(checked).to_contain_text("12 pages may be answered now")
    expect(checked).to_contain_text("90 pages were compared")
    expect(checked).to_contain_text("2 of them had changed by themselves")
    expect(checked).to_contain_text("old versions 5 times")
    checked.get_by_text("1 page is excluded").click()
    expect(checked).to_contain_text("/prices/<b>: it changed by itself")
    expect(checked).to_contain_text("/prices/*: two pages like it changed")


def test_a_chosen_log_is_sent_estimated_and_shown(empty: WatchedPage, log: Path) -> None:
    choose(empty, log)
    [found] = finished(empty)
    assert found["requests"]["person"] == 400
    expect(empty.locator("#result h2")).to_have_text("Result for access")
    expect(empty.locator("#result h2")).to_be_focused()
    words = "Yes, the box pays off here." if found["verdict"]["buy"] else "No, the box does not"
    expect(empty.locator("#result .verdict")).to_contain_text(words)
    empty.get_by_role("button", name="Show all 13 rules").click()
    assert empty.locator("#result .rules tbody tr").count() == 13
    assert empty.locator("#result canvas").count() == 4


@pytest.mark.long
def test_a_dropped_log_is_taken(empty: WatchedPage, log: Path) -> None:
    empty.evaluate(
        """(text) => {
            const carried = new DataTransfer();
            carried.items.add(new File([text], "dropped.log"));
            const drop = document.getElementById("drop");
            const init = { dataTransfer: carried, bubbles: true, cancelable: true };
            for (const kind of ["dragenter", "dragover", "drop"])
                drop.dispatchEvent(new DragEvent(kind, init));
        }""",
        log.read_text(),
    )
    [found] = finished(empty)
    assert found["log"] == "dropped"
    assert found["requests"]["person"] == 400


@pytest.mark.long
def test_rotated_files_chosen_together_are_one_log(empty: WatchedPage, tmp_path: Path) -> None:
    lines = log_file(tmp_path / "whole", 400).read_text().splitlines(keepends=True)
    (tmp_path / "site.log").write_text("".join(lines[200:]))
    (tmp_path / "site.log.1").write_text("".join(lines[:200]))
    choose(empty, tmp_path / "site.log", tmp_path / "site.log.1")
    [found] = finished(empty)
    assert found["requests"]["person"] == 400


def test_report_and_figures_can_be_downloaded(estimated: WatchedPage, tmp_path: Path) -> None:
    for words, name in (("Report", "naproxy-estimate.html"), ("Figures", "naproxy-estimate.json")):
        with estimated.expect_download() as download:
            estimated.locator("#result a", has_text=words).click()
        assert download.value.suggested_filename == name
        download.value.save_as(tmp_path / name)
    assert "<svg" in (tmp_path / "naproxy-estimate.html").read_text()
    assert json.loads((tmp_path / "naproxy-estimate.json").read_text())


@pytest.mark.long
def test_the_same_log_is_calculated_again_with_other_figures(empty: WatchedPage, log: Path) -> None:
    choose(empty, log)
    finished(empty)
    empty.get_by_text("Figures of your server").click()
    empty.locator("#estimate-on_w").fill("80,5")
    begun_s = empty.evaluate(STATE)["begun_s"]
    empty.get_by_role("button", name="Calculate again").click()
    empty.evaluate(
        f"""async (begun_s) => {{
            for (let said = {{ begun_s }}; said.state !== "done" || said.begun_s === begun_s;) {{
                await new Promise((soon) => setTimeout(soon, 50));
                said = await {STATE};
            }}
        }}""",
        begun_s,
    )
    [found] = finished(empty)
    assert found["server"]["power"]["on_w"] == 80.5


@pytest.mark.long
def test_a_figure_that_makes_no_sense_is_said_beside_its_field(
    empty: WatchedPage, log: Path
) -> None:
    empty.watch.allow("status of 4")
    empty.get_by_text("Figures of your server").click()
    empty.locator("#estimate-on_w").fill("1")
    choose(empty, log)
    field = empty.locator(".field", has=empty.locator("#estimate-on_w"))
    expect(field).to_contain_text("must draw more", timeout=DONE_MS)
    empty.locator("#estimate-on_w").fill("40")
    empty.get_by_role("button", name="Calculate again").click()
    finished(empty)


def test_a_result_is_there_after_a_reload_and_can_be_deleted(empty: WatchedPage, log: Path) -> None:
    choose(empty, log)
    finished(empty)
    empty.reload()
    finished(empty)
    empty.get_by_role("button", name="Delete this result").click()
    empty.locator("dialog").get_by_role("button", name="Delete", exact=True).click()
    expect(empty.locator("#result .verdict")).to_have_count(0)
    empty.reload()
    settle(empty)
    assert empty.locator("#result .verdict").count() == 0


def test_a_file_that_is_not_a_log_is_reported(empty: WatchedPage, tmp_path: Path) -> None:
    (tmp_path / "photo.png").write_bytes(os.urandom(5000))
    choose(empty, tmp_path / "photo.png")
    finished(empty)
    expect(empty.locator("#result")).to_contain_text("Is it an access log?")
    assert empty.locator("#result canvas").count() == 0


def test_a_logs_name_and_content_are_shown_as_text(empty: WatchedPage, tmp_path: Path) -> None:
    markup = "<img src=x onerror=document.title='owned'>"
    odd = log_file(tmp_path / f"{markup}.log", 100)
    with odd.open("a") as file:
        file.write(f"{markup}\n" * 5)
    choose(empty, odd)
    finished(empty)
    empty.get_by_text("Lines that the box did not understand").click()
    expect(empty.locator(".odd-lines td").nth(1)).to_have_text(markup)
    assert empty.locator("#result img").count() == 0
    assert "owned" not in empty.title()


# ------------------------------------------------------------------- what goes wrong on the way


def offsets(page: WatchedPage, meet: Callable[[Route, int], bool]) -> list[int]:
    """Meet the pieces on their way: `meet(route, number)` says whether it took care of one."""
    seen: list[int] = []

    def piece(route: Route) -> None:
        if route.request.method != "PUT":
            route.continue_()
            return
        seen.append(int(route.request.url.rpartition("=")[2]))
        if not meet(route, len(seen)):
            route.continue_()

    page.route("**/api/uploads/*", piece)
    return seen


@pytest.mark.long
def test_a_connection_that_breaks_in_the_middle_goes_on_where_it_was(
    empty: WatchedPage, long_log: Path
) -> None:
    empty.watch.allow("net::ERR")

    def breaks(route: Route, number: int) -> bool:
        if number not in (2, 3):
            return False
        route.abort("connectionreset")
        return True

    seen = offsets(empty, breaks)
    choose(empty, long_log)
    expect(empty.locator("#estimate-progress")).to_contain_text("It keeps trying")
    [found] = finished(empty)
    assert found["requests"]["person"] == 16_000
    assert seen == [0, PIECE, PIECE, PIECE, 2 * PIECE]


@pytest.mark.long
def test_a_piece_that_arrived_though_its_answer_was_lost_is_not_sent_twice(
    empty: WatchedPage, long_log: Path
) -> None:
    empty.watch.allow("net::ERR")

    def loses_the_answer(route: Route, number: int) -> bool:
        if number != 2:
            return False
        route.fetch()
        route.abort("connectionreset")
        return True

    seen = offsets(empty, loses_the_answer)
    choose(empty, long_log)
    [found] = finished(empty)
    assert found["requests"]["person"] == 16_000
    assert seen == [0, PIECE, 2 * PIECE]


@pytest.mark.long
def test_a_file_chosen_again_after_a_reload_goes_on_where_it_was(
    empty: WatchedPage, long_log: Path
) -> None:
    empty.watch.allow("net::ERR")
    held: list[Route] = []

    def holds(route: Route, number: int) -> bool:
        if number == 2:
            held.append(route)
        return number == 2

    seen = offsets(empty, holds)
    choose(empty, long_log)
    expect(empty.locator("#estimate-progress")).to_contain_text("1 of")
    until(empty, lambda: held)
    empty.reload()
    settle(empty)
    choose(empty, long_log)
    finished(empty)
    assert seen == [0, PIECE, PIECE, 2 * PIECE]


def test_a_file_that_is_too_large_is_refused(empty: WatchedPage, tmp_path: Path) -> None:
    empty.watch.allow("status of 413")
    large = tmp_path / "large.log"
    with large.open("wb") as file:
        file.truncate((1 << 30) + 1)
    choose(empty, large)
    expect(empty.locator("#estimate-trouble")).to_contain_text("at most 1024 MB")
    expect(empty.locator("#estimate-progress")).to_be_hidden()


@pytest.mark.long
def test_an_upload_that_is_too_slow_is_refused(
    empty: WatchedPage, long_log: Path, stage: Stage
) -> None:
    empty.watch.allow("status of 404")

    def takes_hours(_: Route, number: int) -> bool:
        if number == 2:
            then = time.time() - 7200
            for file in uploads(stage):
                os.utime(file, (then, then))
        return False

    offsets(empty, takes_hours)
    choose(empty, long_log)
    expect(empty.locator("#estimate-trouble")).to_contain_text("nothing came for an hour")
    empty.unroute_all()
    choose(empty, long_log)
    finished(empty)


@pytest.mark.long
def test_an_upload_can_be_cancelled(empty: WatchedPage, long_log: Path, stage: Stage) -> None:
    empty.watch.allow("net::ERR")
    before = set(uploads(stage))
    offsets(empty, lambda _, number: number == 2)  # the second piece never arrives
    choose(empty, long_log)
    expect(empty.locator("#estimate-progress")).to_contain_text("1 of")
    empty.get_by_role("button", name="Cancel").click()
    expect(empty.locator("#estimate-progress")).to_be_hidden()
    wait_for(lambda: set(uploads(stage)) <= before, "the upload's end")
    expect(empty.locator("#estimate-trouble")).to_be_empty()


@pytest.mark.long
def test_an_estimate_that_runs_can_be_cancelled(empty: WatchedPage, tmp_path: Path) -> None:
    choose(empty, log_file(tmp_path / "much.log", 300_000, days=300))
    progress = empty.locator("#estimate-progress")
    expect(progress).to_contain_text("requests so far", timeout=DONE_MS)
    empty.get_by_role("button", name="Cancel").click()
    expect(progress).to_be_hidden()
    assert empty.evaluate(STATE)["state"] == "cancelled"
    assert empty.locator("#estimate-files").is_enabled()


# ------------------------------------------------------------------------------- who and how


@pytest.mark.long
def test_a_viewer_sees_the_result_and_cannot_upload(
    estimated: WatchedPage, open_page: OpenPage
) -> None:
    looking = open_page("/traffic", user=VIEWER)
    finished(looking)
    assert looking.locator("#estimate-files").count() == 0
    assert looking.get_by_role("button", name="Delete this result").count() == 0


@pytest.mark.long
@pytest.mark.parametrize(
    ("scheme", "size"),
    [("light", "desktop"), ("dark", "phone")],
)
def test_a_result_is_accessible_and_fits(
    estimated: WatchedPage, open_page: OpenPage, scheme: Scheme, size: Size
) -> None:
    shown = open_page("/traffic", scheme=scheme, size=size, language="de")
    finished(shown)
    settle(shown)
    clean(shown)
