"""What the configuration says of notifications: whom to tell, of what, and when not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, make_dataclass
from typing import Final

from naproxy.core.hours import span
from naproxy.core.schema import Problem, checked, option
from naproxy.notify import channels

EVENTS: Final = (
    "not_woken",
    "front_door",
    "promise",
    "certificate",
    "meter",
    "disk",
    "update",
    "report",
)


@dataclass(frozen=True, kw_only=True)
class Notify:
    """Who is told when something is wrong; how, the ways' own keys say."""

    events: tuple[str, ...] = option(
        "What to tell: a server did not wake (and is back), visitors do not reach the box, the"
        " promise was not kept, a certificate ends, a meter is silent, the disk is nearly full, an"
        " update failed, the monthly report",
        EVENTS,
        choices=EVENTS,
    )
    quiet: tuple[str, ...] = option(
        'Quiet hours, such as "mon-sun 22:00-07:00": what happens then is told when they are over',
        (),
        high=16,
        check=checked(span),
    )

    @property
    def channels(self) -> tuple[str, ...]:
        """Return the ways to tell that are set up, by name."""
        return tuple(name for name, on, _, _ in channels.secrets() if getattr(self, on))

    @property
    def in_clear(self) -> dict[str, str]:
        """Return those whose secret anybody on the way can read, and its key."""
        return {
            name: secret if getattr(self, secret) else place
            for name, on, to, secret in channels.secrets()
            if getattr(self, on)
            for place in to[:1]
            for address in (str(getattr(self, place)),)
            if address.startswith("http:")
            and (getattr(self, secret) or "@" in address.split("/")[2])
        }


# Of the bases the last one's keys come first.
SETTINGS: Final[type[Notify]] = make_dataclass(
    "Notify",
    (),
    bases=(*(channels.module(name).Settings for name in reversed(channels.names())), Notify),
    frozen=True,
    kw_only=True,
)


def conflicts(notify: Notify) -> Iterator[Problem]:
    """Yield what is wrong between keys that are each right."""
    for name in channels.names():
        if found := getattr(channels.module(name), "conflicts", None):
            yield from found(notify)
