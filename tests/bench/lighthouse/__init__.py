"""What Lighthouse says of each page, as a telephone and as a computer: its performance.

It slows the line and the processor down as it always does ("simulated throttling"); a machine
that is busy makes its figures worse all the same.
"""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any, Final

from tests.bench import result
from tests.simulator.office.namespace import ROOT
from tests.webui.conftest import CHROMIUM

FORMS: Final[dict[str, list[str]]] = {"phone": [], "desktop": ["--preset=desktop"]}
LEAST: Final = 90
MOST_SHIFT: Final = 0.05
_PROGRAM: Final = (
    ROOT / ".venv/bin/node",
    ROOT / "build/lighthouse/node_modules/lighthouse/cli/index.js",
)
_CHROMIUM: Final = "--headless --no-sandbox --disable-dev-shm-usage --ignore-certificate-errors"
_AUDITS: Final = {
    "first-contentful-paint": "first_contentful_paint_ms",
    "largest-contentful-paint": "largest_contentful_paint_ms",
    "total-blocking-time": "total_blocking_time_ms",
    "cumulative-layout-shift": "layout_shift",
    "speed-index": "speed_index_ms",
}


def look_at(url: str, cookie: str, form: str) -> dict[str, float]:
    """Return a page's performance (0 to 100), and what it is made of."""
    done = subprocess.run(
        [
            *(*_PROGRAM, url, "--quiet", "--only-categories=performance"),
            *("--output=json", "--output-path=stdout", f"--chrome-flags={_CHROMIUM}"),
            f"--extra-headers={json.dumps({'Cookie': cookie})}",
            *FORMS[form],
        ],
        env={**os.environ, "CHROME_PATH": CHROMIUM},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"Lighthouse, {url}: {done.stderr[-2000:]}")
    said = json.loads(done.stdout)
    # Who is not logged in would measure the page to log in.
    if said["finalDisplayedUrl"] != url:
        raise RuntimeError(f"Lighthouse was led from {url} to {said['finalDisplayedUrl']}")
    audits = said["audits"]
    return {
        "performance": 100 * said["categories"]["performance"]["score"],
        **{name: audits[audit]["numericValue"] for audit, name in _AUDITS.items()},
    }


def look_at_all(url: str, cookie: str, paths: list[str]) -> dict[str, dict[str, Any]]:
    """Return form -> path -> figures, and the machine's load while it was measured."""
    found: dict[str, dict[str, Any]] = {}
    for form in FORMS:
        found[form] = {
            path: {**look_at(url + path, cookie, form), "load": os.getloadavg()[0]}
            for path in paths
        }
    return found


def goals(found: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what is wanted of the worst page of each form."""
    made = []
    for form, pages in found.items():
        least = min(page["performance"] for page in pages.values())
        most = max(page["layout_shift"] for page in pages.values())
        made.append(result.goal(f"lighthouse_{form}_lowest", least, LEAST, ">="))
        made.append(result.goal(f"lighthouse_{form}_layout_shift", most, MOST_SHIFT, "<="))
    return made
