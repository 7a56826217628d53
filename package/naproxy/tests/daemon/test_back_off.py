"""A service that keeps failing is started again after longer and longer pauses."""

import subprocess
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[4] / "varnish-vcl/naproxy-back-off"


class Unit:
    """What systemd does with ExecStopPost; `sleep` writes down how long it would have slept."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.uptime = place / "uptime"
        self.slept = place / "slept"
        double = place / "sleep"
        double.write_text(f'#!/bin/sh\necho "$1" >>{self.slept}\n')
        double.chmod(0o755)

    def ends(self, at_s: float, result: str = "exit-code") -> int:
        """Let it end, so many seconds after the machine's start; return the pause (s)."""
        self.uptime.write_text(f"{at_s:.2f} 0.00\n")
        self.slept.write_text("0")
        subprocess.run(
            [SCRIPT, "varnish"],
            check=True,
            capture_output=True,
            env={
                "PATH": f"{self.place}:/usr/bin:/bin",
                "RUN_DIR": str(self.place),
                "UPTIME": str(self.uptime),
                "SERVICE_RESULT": result,
            },
        )
        return int(self.slept.read_text().splitlines()[-1])


def test_pauses_grow_and_end_with_a_good_run(tmp_path: Path) -> None:
    unit, now_s, pauses = Unit(tmp_path), 100.0, []
    for _ in range(9):
        pauses.append(unit.ends(now_s))
        now_s += pauses[-1] + 0.2
    assert pauses == [0, 0, 1, 2, 4, 8, 16, 30, 30]
    assert sum(pause <= 4 for pause in pauses) <= 8, "starts in 14 s; there were 62"
    assert unit.ends(now_s + 600) == 0, "it ran for ten minutes"
    assert unit.ends(now_s + 601) == 0
    assert unit.ends(now_s + 602) == 1
    assert unit.ends(now_s + 603, "success") == 0, "stopped by its owner"
    assert unit.ends(now_s + 604) == 0


def test_a_damaged_memory_is_not_a_failure(tmp_path: Path) -> None:
    unit = Unit(tmp_path)
    for text in ("", "x y z\n", "3\n", "9 99999999\n"):
        (tmp_path / "varnish.failures").write_text(text)
        assert unit.ends(50.0) in (0, 1, 2, 30), text
