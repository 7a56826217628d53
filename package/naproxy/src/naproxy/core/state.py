"""What state a server is in, and who asks for it."""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class State(IntEnum):
    """Power state of a server; the numbers are those of `enum naproxy_state`."""

    UNKNOWN = 0
    AWAKE = 1
    FALLING_ASLEEP = 2
    ASLEEP = 3
    WAKING = 4
    TROUBLE = 5


class Klass(IntEnum):
    """Who is asking; the numbers are those of `enum naproxy_class`."""

    PERSON = 0
    CRAWLER = 1
    MONITOR = 2
    FEED = 3
    API = 4
    SCANNER = 5

    @property
    def robot(self) -> bool:
        """Robots are told to come back later: they do not wake a server by default."""
        return self not in (Klass.PERSON, Klass.API)


STATES: Final = {state: state.name.lower() for state in State}
