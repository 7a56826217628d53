"""A server that was looked at before: nobody comes past the box."""

import time

from naproxy.config.document import Server
from naproxy.history.write.journal import Journal
from naproxy.server.sight import Look


def nobody_around(journal: Journal, server: Server) -> None:
    """Have the journal know it."""
    about = [server.address, server.port, *server.hosts]
    look = Look(time.time(), "refused")
    journal.save(f"look.{server.id}", {"about": about, "look": look.dump()})
