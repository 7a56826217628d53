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
from collections.abc import Callable

from tests.siege.attacks import ATTACKS, Attacker, sources
from tests.simulator.office.box import ADDRESS, ADDRESS_V6

NICE = 10
"""In reality the attacker's processor is not the box's."""


def plain(name: str, addresses: int, seed: int) -> Attacker:
    """Make one that attacks by HTTP, by IPv4 and IPv6."""
    targets = {int(socket.AF_INET): ADDRESS, int(socket.AF_INET6): ADDRESS_V6}
    return Attacker(ATTACKS[name](), targets, sources(addresses), seed)


def main(make: Callable[[str, int, int], Attacker] = plain) -> None:
    """Attack with what `make` makes of the arguments, and say what came of it."""
    name, addresses, seed = sys.argv[1:]
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    os.nice(NICE)
    tally = asyncio.run(_until_told(make(name, int(addresses), int(seed))))
    sys.stdout.write(json.dumps(tally) + "\n")


async def _until_told(attacker: Attacker) -> Counter[str]:
    # It took its time to start.
    print("begins", flush=True)
    running = asyncio.ensure_future(attacker.run())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await running
    return attacker.tally


if __name__ == "__main__":
    main()
