"""`naproxy measure -- COMMAND` with real commands, meters and time."""

import csv
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.alone

SERVER = '[[server]]\nid = "web"\naddress = "127.0.0.1"\nmac = "02:00:00:00:00:01"\n'
METER = '[[meter]]\nid = "plug"\nof = "web"\ninterval_s = 0.1\n'
BURN = "import time; end = time.monotonic() + 1\nwhile time.monotonic() < end: pass\nprint('did 7')"


def measured(directory: Path, meter: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    (directory / "naproxy.toml").write_text(SERVER + METER + meter)
    options = ["--runs=3", "--warm-up=0", "--settle=0", "--baseline=1", "--socket=/nonexistent"]
    options += [f"--config={directory}/naproxy.toml", f"--csv={directory}/table.csv"]
    return subprocess.run(
        [sys.executable, "-m", "naproxy.cli", "measure", "plug", *options, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def figure(name: str, text: str) -> list[float]:
    return [float(value) for value in re.findall(rf"^   {name} +([\d.e+-]+) J", text, re.M)]


def test_joules_are_those_that_the_meter_saw(tmp_path: Path) -> None:
    watts, new = tmp_path / "watts", tmp_path / "new"
    watts.write_text("20")

    def busy(watts_now: int) -> list[str]:
        say = f"> {new} && mv {new} {watts}"
        return ["sh", "-c", f"echo {watts_now} {say}; sleep 1; echo 20 {say}"]

    commands = ["--", *busy(30), "--and", *busy(60)]
    done = measured(tmp_path, f'driver = "simulated"\nfile = "{watts}"\n', *commands)
    assert done.returncode in (0, 3), done.stderr
    # A reading each 0.1 s finds either end of the second to 0.1 s.
    assert figure("above idle", done.stdout) == [pytest.approx(10, abs=2), pytest.approx(40, abs=8)]
    assert figure("energy", done.stdout) == [pytest.approx(30, abs=2), pytest.approx(60, abs=8)]
    assert re.search(r"^A takes \d+\.\d % less than B$", done.stdout, re.M), done.stdout
    with (tmp_path / "table.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 12
    assert {float(r["energy_j"]) / float(r["covered_s"]) for r in rows[::2]} == {20}


def test_a_busy_processor_costs_by_the_model_and_it_is_called_an_estimate(tmp_path: Path) -> None:
    model = 'driver = "model"\nsource = "local"\nbase_w = 20.0\ncpu_w = 1000.0\n'
    command = ["--units-from", r"did (\d+)", "--", sys.executable, "-c", BURN]
    done = measured(tmp_path, model, *command)
    assert done.returncode in (0, 3), done.stderr
    assert "ESTIMATE: nothing was measured" in done.stdout
    [energy_j], [unit_j] = figure("energy", done.stdout), figure("energy per unit", done.stdout)
    assert energy_j > 20
    assert unit_j == pytest.approx(energy_j / 7, rel=1e-4)
