"""What tests of the keeper share."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from collections.abc import Callable
from typing import Any

from tests.patience import PATIENCE_S


class Memory:
    """What a keeper remembers over a restart."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}

    def save(self, key: str, value: Any) -> None:
        self.kept[key] = json.loads(json.dumps(value))

    def saved(self, key: str) -> dict[str, Any]:
        found: dict[str, Any] = self.kept.get(key, {})
        return found


def until_ended(process: subprocess.Popen[bytes] | None, stop: Callable[[], object]) -> None:
    """Tell haproxy to stop until it has ended well.

    One that only just starts is deaf, and one that is about to end would be killed by the signal.
    """
    assert process
    end_s = time.monotonic() + PATIENCE_S
    while process.poll() is None:
        assert time.monotonic() < end_s
        stop()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(1.0)
    assert process.returncode == 0
