"""The server's nightly backup, and what begins it in place of a timer of systemd.

`python -m tests.recipes.nightly run CLOCK FOLDER COMMAND` runs the command each night, with the
night's number; `tell CLOCK` prints what naproxy-appointments prints. CLOCK is the file of the
office's clock that steps: the server's steps with it.
"""

import json
import struct
import subprocess
import sys
import time
from pathlib import Path

NIGHT_S = 7200
"""Two in the morning, in seconds of the day."""
DAY_S = 86400


def now_s(clock: Path) -> float:
    """Return the server's time."""
    (offset_s,) = struct.unpack("=q", clock.read_bytes())
    return time.time() + float(offset_s)


def night_of(t_s: float) -> int:
    """Return the number of the last night whose backup is due at this time."""
    return int((t_s - NIGHT_S) // DAY_S)


def due_s(night: int) -> float:
    """Return when a night's backup begins."""
    return night * DAY_S + NIGHT_S


def main() -> None:
    """Run the timer, or tell of it."""
    verb, clock = sys.argv[1], Path(sys.argv[2])
    now = now_s(clock)
    if verb == "tell":
        next_us = round(due_s(night_of(now) + 1) * 1e6)
        timers = json.dumps([{"unit": "backup.timer", "next": next_us}])
        print(f"naproxy-appointments 1\nnow {now:.0f}\ntimers {timers}\nend")
        return
    done = night_of(now)
    while True:
        if (night := night_of(now_s(clock))) > done:
            done = night
            subprocess.run(
                ["sh", "-c", sys.argv[4], "sh", str(night)], cwd=sys.argv[3], check=False
            )
        time.sleep(0.1)


if __name__ == "__main__":
    main()
