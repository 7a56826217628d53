"""Visitors by HTTPS: with a certificate sent through the web interface, and passed on unopened."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Final

from tests.e2e.clients import curl, fresh
from tests.image_vm import setup
from tests.image_vm.place import BY_VARNISH, Visited
from tests.image_vm.ui import Ui
from tests.simulator.office import pki
from tests.simulator.office.box import ADDRESS, HOST
from tests.simulator.office.namespace import OfficeError

VERSIONS: Final = ("1.1", "2")
"""Of HTTP."""
CERTIFICATE: Final = "main"
_SHOWN_S: Final = 120.0

Wake = Callable[[Visited, Ui, Callable[[], bool]], str]
"""See `cases.wake`."""


def offered(place: Visited, ui: Ui) -> None:
    """Have the box serve HTTPS with a certificate of its own; returns when it is shown."""
    issued = pki.issue(place.authority, HOST)
    sent = {"pem": issued.pem.decode(), "key": issued.key.decode()}
    ui.call("PUT", f"/api/certificates/{CERTIFICATE}", sent)
    _in_mode(place, ui, "box", issued)


def served(place: Visited, ui: Ui, wake: Wake) -> str:
    """Ask for pages where the box serves HTTPS, awake and asleep; return what was seen."""
    offered(place, ui)
    seen = _visited(place, ui, wake, through=False)
    ended(ui)
    return seen


def passed_on(place: Visited, ui: Ui, wake: Wake) -> str:
    """Ask for pages where the box passes HTTPS on, awake and asleep; return what was seen."""
    issued = pki.issue(place.authority, HOST)
    place.server.serve(issued)
    _in_mode(place, ui, "through", issued)
    seen = _visited(place, ui, wake, through=True)
    ended(ui)
    place.server.serve(None)
    return seen


def ended(ui: Ui) -> None:
    """Have the box neither serve HTTPS nor pass it on."""
    _set_mode(ui, "none")


def _in_mode(place: Visited, ui: Ui, mode: str, issued: pki.Issued) -> None:
    _set_mode(ui, mode)
    wanted = pki.fingerprint(issued)
    setup.wait(lambda: _shown(place) == wanted, "the certificate to be shown", _SHOWN_S)


def _set_mode(ui: Ui, mode: str) -> None:
    setup.settings(ui, **{"server.web.https": {"mode": mode}})


def _visited(place: Visited, ui: Ui, wake: Wake, *, through: bool) -> str:
    told = []
    for version in VERSIONS:
        came = functools.partial(page, place, version, through=through)
        if not came():
            raise OfficeError(f"HTTP/{version} by HTTPS: not the page of the server, awake")
        told.append(f"HTTP/{version}: {wake(place, ui, came)}")
    return "; ".join(told)


def page(place: Visited, version: str, *, through: bool) -> bool:
    """Whether a page that nobody has asked for yet comes by HTTPS, from the server, once.

    Through Varnish with a certificate of the box's; `through`: by the server's own HTTPS.
    """
    target = fresh()
    (answer,) = curl(place.client, place.authority.root.file, target, http=version)
    if answer.error:
        raise OfficeError(f"HTTP/{version} by HTTPS: {answer.error}")
    asked = [each for each in place.server.requests() if each["target"] == target]
    front = (place.server.directory / "site/index.html").read_bytes()
    return (
        (answer.status, answer.version, answer.body) == (200, version, front)
        and BY_VARNISH.isdisjoint(answer.headers) == through
        and [each["scheme"] for each in asked] == ["https" if through else "http"]
    )


def _shown(place: Visited) -> str:
    with contextlib.suppress(OSError):
        return pki.shown(place.client, ADDRESS, HOST)
    return ""
