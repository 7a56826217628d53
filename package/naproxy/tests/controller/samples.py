"""A server's configuration and a person's request, for tests to change."""

from naproxy.config import document
from naproxy.core import page_h
from naproxy.core.state import Klass
from naproxy.shm.events import Event

WEB = '[[server]]\nid = "web"\naddress = "127.0.0.1"\nport = 1\nmac = "02:00:00:00:00:01"\n'
FETCH = Event(
    *(1, 1, 7, 8, 0, 0xFFFFFFFF, 0, Klass.PERSON, page_h.Outcome.FETCH, page_h.E_NEEDED, 200, 0)
)


def server(more: str = "", text: str = WEB) -> document.Server:
    """Return the first server of a configuration."""
    return document.parse(text + more).server[0]
