"""Measures an administrator's task as a story: clicks, fields and seconds.

A story begins on the page Now. A click on a button or a link counts as one. A choice from a list
or of a file counts as two: one opens, one chooses. A typed value counts as a field. The seconds
are a script's, which does not need time to read.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from tests.simulator.office.namespace import ROOT
from tests.webui.looks import settle

KEPT = ROOT / "build/tasks"
MOST_CLICKS = 8


class Story:
    """`with Story(page, "renew a certificate") as story: story.click(locator)`."""

    def __init__(self, page: Any, task: str) -> None:
        self.clicks = 0
        self.fields = 0
        self._page = page
        self._task = task

    def __enter__(self) -> Self:
        self._page.goto("/")
        settle(self._page)
        self._began_s = time.monotonic()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind:
            return
        assert self.clicks <= MOST_CLICKS, f"{self.clicks} clicks"
        KEPT.mkdir(parents=True, exist_ok=True)
        told = {
            "task": self._task,
            "clicks": self.clicks,
            "fields": self.fields,
            "seconds": round(time.monotonic() - self._began_s, 1),
        }
        name = re.sub(r"\W+", "-", self._task)
        (KEPT / f"{name}.json").write_text(json.dumps(told) + "\n")

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Exclude the time of a test's own work from the story's seconds."""
        began_s = time.monotonic()
        yield
        self._began_s += time.monotonic() - began_s

    def to(self, *links: str) -> None:
        """Follow links that begin so, from the navigation on."""
        for link in links:
            self.click(self._page.get_by_role("link", name=re.compile(f"^{link}")).first)
            # Before its styles, a page shows links that it hides.
            self._page.wait_for_load_state("load")

    def click(self, place: Any) -> None:
        self.clicks += 1
        place.click()

    def press(self, name: str) -> None:
        """Press the button of that name."""
        self.click(self._page.get_by_role("button", name=name))

    def choose(self, place: Any, value: str) -> None:
        self.clicks += 2
        place.select_option(value)

    def take(self, place: Any, file: Path) -> None:
        """Choose a file."""
        self.clicks += 2
        place.set_input_files(file)

    def fill(self, place: Any, text: str) -> None:
        self.fields += 1
        place.fill(text)
