"""The effects of the box's operations on the machine, in one place; tests replace them."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Final

from naproxy.core.processes import Printed, printed

_MOST_BYTES: Final = 1 << 20


class Machine:
    """Programs, and the machine's name."""

    async def run(self, argv: Sequence[str], timeout_s: float) -> Printed:
        """Run a program; OSError if it cannot be started."""
        return await printed(argv, timeout_s, {"LC_ALL": "C.UTF-8"}, _MOST_BYTES)

    def host_name(self) -> str:
        """Return the machine's name."""
        return socket.gethostname()
