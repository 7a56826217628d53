"""`python -m tests.siege.mutating SEED`: spoilt requests, 100 connections at once, until SIGTERM.

It runs in the attacker's network; at the end it prints what came of it, as JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from collections import Counter
from collections.abc import Iterator

from tests.siege.attacker import NICE
from tests.siege.mutator import REQUESTS, spoilt
from tests.simulator.office.box import ADDRESS

AT_ONCE = 100
PATIENCE_S = 0.3
"""Half a request has no answer."""


async def _fire(requests: Iterator[bytes], tally: Counter[str]) -> None:
    loop = asyncio.get_running_loop()
    while True:
        with socket.socket() as sock:
            sock.setblocking(False)
            answer = b""
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(PATIENCE_S):
                    await loop.sock_connect(sock, (ADDRESS, 80))
                    await loop.sock_sendall(sock, next(requests))
                    answer = await loop.sock_recv(sock, 1 << 16)
            tally["sent"] += 1
            status = answer[9:12].decode("latin-1") if answer.startswith(b"HTTP/") else "nothing"
            tally[f"answered {status}"] += 1


async def _main(seed: int) -> Counter[str]:
    tally: Counter[str] = Counter()
    requests = spoilt(seed, REQUESTS)
    firing = asyncio.gather(*(_fire(requests, tally) for _ in range(AT_ONCE)))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, firing.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await firing
    return tally


if __name__ == "__main__":
    os.nice(NICE)
    sys.stdout.write(json.dumps(asyncio.run(_main(int(sys.argv[1])))) + "\n")
