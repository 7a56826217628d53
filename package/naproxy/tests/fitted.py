"""A server that was commissioned before, with a meter: what the controller keeps of that."""

import json
import sqlite3
from typing import Any

from box import Box
from naproxy.core.reason import Reason

WOKE = Reason("server.woke_every_time", times=5)


def fit(on_w: float, off_w: float, switch_j: float, sure: float = 0.1) -> dict[str, Any]:
    """Make a fit; each interval is this share of the value to each side."""
    values = {"on_w": on_w, "off_w": off_w, "switch_j": switch_j}
    return {
        name: {"value": v, "low": (1 - sure) * v, "high": (1 + sure) * v}
        for name, v in values.items()
    } | {"confidence": 0.95}


def commissioned(
    box: Box,
    found: dict[str, Any] | None,
    server: str = "web",
    no_fit: Reason | None = None,
    reason: Reason | None = WOKE,
) -> None:
    """Have the box believe that its server was commissioned with this result."""
    report = {
        **{"phase": "passed", "ended": True, "passed": True, "reason": reason and reason.plain()},
        **{"cycle": 5, "cycles": 5, "phase_s": 0.0, "notes": [], "done": [], "times": {}},
        **{"fit": found, "no_fit": no_fit and no_fit.plain(), "t_s": 1.8e9},
    }
    with sqlite3.connect(box.data_dir / "history.db", timeout=20) as db:
        db.execute(
            "INSERT OR REPLACE INTO saved (key, value) VALUES (?, ?)",
            (f"commissioning.{server}", json.dumps(report)),
        )
    db.close()
