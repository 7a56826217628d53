"""Third-party files are as published, and match their README."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from naproxy_webui.http.static_files import FOLDER

VENDOR = FOLDER / "vendor"


def test_chart_js_matches_the_readme() -> None:
    row = next(
        line for line in (VENDOR / "README.md").read_text().splitlines() if "Chart.js" in line
    )
    file = VENDOR / "chart.umd.min.js"
    assert hashlib.sha256(file.read_bytes()).hexdigest() in row
    version = re.search(r"\| ([0-9.]+) \|", row)
    assert version
    assert f"Chart.js v{version[1]}".encode() in file.read_bytes()[:200]


def test_every_licence_is_there() -> None:
    assert "MIT" in (VENDOR / "chart.js-LICENSE.md").read_text()
    assert "ISC" in (VENDOR / "lucide/LICENSE").read_text()


def test_every_icon_that_is_used_exists() -> None:
    package = Path(FOLDER).parent
    icons = (package / "templates/parts/icons.html").read_text()
    known = set(re.findall(r'id="i-([a-z0-9-]+)"', icons))
    used: dict[str, str] = {}
    for file in [*package.rglob("*.html"), *package.glob("static/js/**/*.js")]:
        for name in re.findall(r'icon\("([a-z0-9-]+)"\)', file.read_text()):
            used[name] = file.name
    assert {name: file for name, file in used.items() if name not in known} == {}
