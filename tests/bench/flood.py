"""`python -m tests.bench.flood ATTACK ADDRESSES SEED`: attacks by HTTPS until SIGTERM.

At the end it prints what came of it, as JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import signal
import socket
import sys
from collections import Counter

from tests.bench.floods import PORT, WAYS, sources
from tests.siege.attacker import NICE
from tests.siege.attacks import Attacker
from tests.simulator.office.box import ADDRESS


async def _attack(name: str, addresses: int, seed: int) -> Counter[str]:
    way = WAYS[name]
    attacker = Attacker(
        way.attack(),
        {int(socket.AF_INET): ADDRESS},
        sources(addresses),
        seed,
        port=PORT,
        line=way.line(),
    )
    running = asyncio.ensure_future(attacker.run())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await running
    return attacker.tally


def main() -> None:
    """Attack, and say what came of it."""
    name, addresses, seed = sys.argv[1:]
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    os.nice(NICE)
    tally = asyncio.run(_attack(name, int(addresses), int(seed)))
    sys.stdout.write(json.dumps(tally) + "\n")


if __name__ == "__main__":
    main()
