"""Ctrl-C as a flag, looked at where it is safe to stop: so that nothing is left behind."""

import signal
import sys
import threading
from types import FrameType


class Interrupted(Exception):  # noqa: N818 - it is what the user wanted
    """Ctrl-C was pressed."""


class Interrupt:
    """Set by Ctrl-C or a closed terminal, and by nothing undone."""

    def __init__(self) -> None:
        self._pressed = threading.Event()
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._press)
        # The office does the same while it is there; before it there is something to end too.
        signal.signal(signal.SIGTERM, self._leave)

    def __bool__(self) -> bool:
        return self._pressed.is_set()

    def check(self) -> None:
        """Raise Interrupted if it was pressed."""
        if self:
            raise Interrupted

    @staticmethod
    def _leave(_number: int, _frame: FrameType | None) -> None:
        sys.exit(128 + signal.SIGTERM)

    def _press(self, _number: int, _frame: FrameType | None) -> None:
        self._pressed.set()
