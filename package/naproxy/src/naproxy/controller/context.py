"""State that all servers of a box share."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import tzinfo
from pathlib import Path
from typing import Final

from naproxy.controller.look import Looker, look
from naproxy.controller.needing import Company
from naproxy.controller.varnish import Varnish
from naproxy.controller.verifying import Verifier
from naproxy.core import office_time
from naproxy.history.write.journal import Journal
from naproxy.shm.page import Page

ASSUMED_PRICE: Final = 0.30
"""For a kilowatt-hour, in the office's currency, where the settings have no price."""


@dataclass(frozen=True)
class BoxContext:
    """`epoch_s` added to the monotonic clock never steps."""

    page: Page
    journal: Journal
    epoch_s: float
    power_w: Callable[[str], float | None] = lambda _: None
    """A server's current power, by its id; None without a reading."""
    quick_w: Callable[[str], float | None] = lambda _: None
    """The same, if its meter reads often enough to tell when a wake begins."""
    where: Callable[[], tzinfo] = office_time.where
    """The office's zone, for decisions by hours."""
    day: Callable[[], int] = lambda: office_time.local(time.time()).toordinal()
    """The office's day now."""
    price_per_kwh: Callable[[], float] = lambda: ASSUMED_PRICE
    """The current price of a kilowatt-hour."""
    look: Looker = look
    """Looks whether a server's visitors come past the box."""
    verifier: Verifier = field(default_factory=Verifier)
    """Which addresses are a search engine's."""
    varnish: Varnish = field(default_factory=lambda: Varnish(Path("/run/naproxy/box.sock")))
    """Has the cache filled."""
    company: Company = field(default_factory=Company)
    """All servers of the box."""
    served: Callable[[], Collection[str]] = tuple
    """The names that the box serves over HTTPS now, in the form of `ascii_site`."""
