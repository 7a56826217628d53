"""Helpers for processes that fetch from other hosts: a time limit, and safe error messages."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

from urllib3.exceptions import MaxRetryError

from naproxy.core.processes import why


class TooLongError(BaseException):
    """No error that somebody on the way may take for another."""


@contextlib.contextmanager
def at_most(s: float, timer: int) -> Iterator[None]:
    """Raise TooLongError after so long: of the clock, or of the processor."""

    def stop(*_: object) -> None:
        raise TooLongError

    for number in (signal.SIGVTALRM, signal.SIGALRM):
        signal.signal(number, stop)
    signal.setitimer(timer, s)
    try:
        yield
    finally:
        signal.setitimer(timer, 0)


def cause_of(error: BaseException) -> str:
    """Say why; a library's own words may have the address in them, and that a password."""
    if isinstance(error, MaxRetryError):
        error = error.reason or error
    cause = error.__cause__ or error
    while not isinstance(cause, OSError) and cause.__context__:
        cause = cause.__context__
    return why(cause) if isinstance(cause, OSError) else type(cause).__name__
