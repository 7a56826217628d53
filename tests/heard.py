"""What Naproxy's log gets, for tests that run its parts in their own process."""

import logging
from collections.abc import Callable


class Heard(logging.Handler):
    """Hands each message on, until it is closed."""

    def __init__(self, hear: Callable[[str], None]) -> None:
        super().__init__()
        self._hear = hear
        self._naproxy = logging.getLogger("naproxy")
        self._naproxy.setLevel(logging.INFO)
        self._naproxy.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self._hear(self.format(record))

    def close(self) -> None:
        self._naproxy.removeHandler(self)
        super().close()
