"""The web interface of the virtual office's box, for the browser of this machine."""

import contextlib
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any

from tests.patience import wait_for
from tests.simulator.demo.relay import Relay
from tests.simulator.office.box import Box
from tests.simulator.past.house import METER
from tests.webui import people

PORT = 8080
"""Where it is to be found, if nobody else is there."""

_INSIDE = 8081

OFFICE = {
    "name": "Virtual office",
    "time_zone": "Europe/Zurich",
    "price_per_kwh": 0.31,
    "co2_g_per_kwh": 380,
}


@contextlib.contextmanager
def interface(box: Box, port: int = PORT) -> Iterator[str]:
    """Run it in the box's namespace; yields its address in this one."""
    people.make(box.webui_state_dir)
    box.start_webui(f"127.0.0.1:{_INSIDE}")
    with Relay(box, _INSIDE, port) as relay:
        wait_for(lambda: _answers(relay.port), "the web interface")
        yield f"http://127.0.0.1:{relay.port}"


def meter(plug: Any) -> dict[str, Any]:
    """Return the meter's configuration: it goes on where that of the past ended."""
    return {**plug.configuration(METER), "interval_s": 0.5}


def _answers(port: int) -> bool:
    connection = HTTPConnection("127.0.0.1", port, timeout=5)
    with contextlib.closing(connection), contextlib.suppress(OSError):
        connection.request("GET", "/api/health")
        return connection.getresponse().status == 200
    return False
