"""The demo's parts, without an office."""

import io
import math
from pathlib import Path

from naproxy.policy.thesis import Settings

from tests.simulator.demo.power import energy
from tests.simulator.demo.screen import Screen, plain
from tests.simulator.demo.stretch import choose

IMPATIENT = Settings(min_awake_s=10.0, fraction=1.0)


def line(t_s: int, path: str, agent: str = "Mozilla/5.0") -> str:
    minute, second = divmod(t_s, 60)
    stamp = f"27/Jan/2024:00:{minute:02}:{second:02} +0000"
    return f'198.18.0.1 - - [{stamp}] "GET {path} HTTP/1.1" 200 5 "-" "{agent}"\n'


# ----------------------------------------------------------------- the stretch


def test_a_log_that_is_too_busy_is_used_all_the_same_and_does_not_fit(tmp_path: Path) -> None:
    log = tmp_path / "busy.log"
    log.write_text("".join(line(t_s, f"/{t_s}") for t_s in range(300)))
    chosen = choose(log, IMPATIENT, 60)
    assert not chosen.fits
    assert len(chosen.entries) == 60


def test_a_short_log_is_used_from_its_start(tmp_path: Path) -> None:
    log = tmp_path / "short.log"
    log.write_text(line(3, "/a") + line(5, "/b"))
    assert [e.path for e in choose(log, IMPATIENT, 120).entries] == ["/a", "/b"]


# ------------------------------------------------------------------- the power


def test_energy_is_the_thesis_model_over_the_transitions() -> None:
    transitions = [
        {"state": "on", "t_s": 0.0},
        {"state": "suspending", "t_s": 20.0},
        {"state": "off", "t_s": 24.0},
        {"state": "resuming", "t_s": 60.0},
        {"state": "on", "t_s": 60.2},
        {"state": "off", "t_s": 90.0},
    ]
    used = energy(transitions, 10.0, 110.0)
    # From the command on: what it draws while it falls asleep is in the switch's joules.
    assert (used.off_s, used.on_s, used.switches) == (60.0, 40.0, 2)
    assert math.isclose(used.server_j, 40 * 43.3 + 60 * 1.6 + 2 * 170.7)
    assert math.isclose(used.proxy_j, 500)


# ------------------------------------------------------------------ the screen


def test_text_from_a_log_cannot_steer_the_terminal() -> None:
    assert plain("/a\x1b[2Jb\r\n\x9b\u202e") == "/a?[2Jb????"
    assert len(plain("x" * 500)) == 60


def test_no_colour_and_no_standing_line_without_a_terminal() -> None:
    out = io.StringIO()
    screen = Screen(out)
    screen.event(61, 43.3, "The server is awake.", "awake")
    screen.standing("so far")
    assert out.getvalue() == "  1:01   43.3 W  The server is awake.\n"
