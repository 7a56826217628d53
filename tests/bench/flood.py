"""`python -m tests.bench.flood ATTACK ADDRESSES SEED`: attacks by HTTPS until SIGTERM.

At the end it prints what came of it, as JSON.
"""

from __future__ import annotations

import socket

from tests.bench.floods import PORT, WAYS, sources
from tests.siege import attacker
from tests.siege.attacks import Attacker
from tests.simulator.office.box import ADDRESS


def by_https(name: str, addresses: int, seed: int) -> Attacker:
    """Make one that attacks by HTTPS."""
    way = WAYS[name]
    return Attacker(
        way.attack(),
        {int(socket.AF_INET): ADDRESS},
        sources(addresses),
        seed,
        port=PORT,
        line=way.line(),
    )


if __name__ == "__main__":
    attacker.main(by_https)
