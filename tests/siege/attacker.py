"""`python -m tests.siege.attacker ATTACK ADDRESSES SEED`: attacks until SIGTERM.

It runs in the attacker's network; at the end it prints what came of it, as JSON.
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

from tests.siege.attacks import ATTACKS, Attacker, sources
from tests.simulator.office.box import ADDRESS, ADDRESS_V6

NICE = 10
"""In reality the attacker's processor is not the box's."""


async def _attack(name: str, addresses: int, seed: int) -> Counter[str]:
    targets = {int(socket.AF_INET): ADDRESS, int(socket.AF_INET6): ADDRESS_V6}
    attacker = Attacker(ATTACKS[name](), targets, sources(addresses), seed)
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
