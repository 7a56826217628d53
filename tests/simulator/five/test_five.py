"""`make five`, short, and the table and pictures it makes."""

import json
import os
import subprocess
import sys
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from tests.simulator.five.report import table
from tests.simulator.office.namespace import ROOT

OUT = ROOT / "build/five"


def result(short: str, **changes: Any) -> dict[str, Any]:
    energy = {"switches": 0, "off_s": 0.0, "server_j": 4330.0, "always_on_j": 4330.0}
    seen = {
        "requests": 10,
        "status": {"200": 9},
        "waiting_pages": {},
        "delays": {"served": {}, "by_class": {}},
    }
    base = {"name": short, "short": short, "seen": seen, "energy": energy, "proxy_j": 0.0}
    return {**base, "sent_twice": 0, **changes}


def test_table_shows_the_saving_with_and_without_the_box() -> None:
    slept = {"switches": 1, "off_s": 60.0, "server_j": 2165.0, "always_on_j": 4330.0}
    shown = table([result("no proxy"), result("sleep", energy=slept, proxy_j=433.0)], 7)
    rows = {row[:30].strip(): row[30:].split() for row in shown.splitlines()}
    assert rows["server's saving"] == ["0.0%", "50.0%"]
    assert rows["saving with the box counted"] == ["0.0%", "40.0%"]
    assert rows["malformed lines, skipped"] == ["7", "7"]
    assert rows["404"] == ["0", "0"]


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="an office needs root")
def test_five_configurations_on_the_same_requests() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulator.five", "--duration", "30"],
        cwd=ROOT,
        text=True,
        capture_output=True,
        timeout=480,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((OUT / "five.json").read_text())
    found = report["configurations"]
    assert [one["short"] for one in found] == [
        *("no proxy", "default", "aggressive", "sleep", "waiting page")
    ]
    assert len({one["seen"]["requests"] for one in found}) == 1
    assert all(one["seen"]["lost"] == one["sent_twice"] == 0 for one in found)
    assert found[0]["seen"]["outcomes"] == {"direct": found[0]["seen"]["requests"]}
    assert all(one["energy"]["switches"] == 0 for one in found[:3])
    for one in found:
        alike = one["virtual"]
        assert alike["rows"]["requests"] >= one["seen"]["requests"], one["short"]
        # A request beside a transition may find the server on either side of it.
        assert abs(alike["switches"] - one["energy"]["switches"]) <= 1, one["short"]
        assert abs(alike["off_s"] - one["energy"]["off_s"]) <= 4, (one["short"], alike)
        returned = alike["rows"]["came back, HTTP 200"] or 0
        served = alike["rows"]["served by the server"] - returned, one["seen"]["served_by_backend"]
        assert abs(served[0] - served[1]) <= 1, (one["short"], served)
    for picture in ("energy.svg", "delays.svg", "virtual-energy.svg", "virtual-delays.svg"):
        assert ET.parse(OUT / picture).getroot().tag.endswith("svg")
