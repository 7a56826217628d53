"""One server's runner, with a page and a journal; nothing looks at the server."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

from looked import nobody_around
from naproxy.config.document import Server
from naproxy.controller.context import BoxContext
from naproxy.controller.runner import Runner
from naproxy.core.reason import Reason
from naproxy.history.write.journal import Journal
from naproxy.server.sight import Look
from naproxy.shm.page import Page


def keep(directory: Path, key: str, value: Any) -> None:
    """Put into the journal what an earlier controller saved."""
    with closing(Journal(directory)) as journal:
        journal.save(key, value)


@asynccontextmanager
async def running(
    directory: Path,
    server: Server,
    *,
    epoch_s: float | None = None,
    look: Callable[[Server], Coroutine[Any, Any, Look]] | None = None,
    looked: bool = True,
) -> AsyncIterator[Runner]:
    """Have a runner; with `looked` an earlier look found nobody who comes past the box."""
    if epoch_s is None:
        epoch_s = time.time() - time.monotonic()
    with closing(Journal(directory)) as journal:
        if looked:
            nobody_around(journal, server)
        box = BoxContext(Page(directory), journal, epoch_s, **({"look": look} if look else {}))
        runner = Runner(box, 0, server, "lo")
        try:
            yield runner
        finally:
            await asyncio.sleep(0)
            runner.stop(why=Reason("server.stopped"))
