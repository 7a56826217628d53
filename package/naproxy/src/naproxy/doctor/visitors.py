"""Whether visitors come through the box, and by a good certificate: as its controller knows it."""

from __future__ import annotations

from typing import Any, Final

from naproxy.api import https
from naproxy.core.findings import NotSeen, NotUsed, Problem
from naproxy.core.names import ascii_site, covers
from naproxy.core.reason import Reason, stored_reason, together
from naproxy.doctor.readings import Seen
from naproxy.drivers.checks import Known

_ENDED: Final = ("https.expired", "https.not_yet")


def _known(seen: Seen) -> Known:
    if seen.known is None:
        raise NotSeen("doctor.no_controller")
    return seen.known


def past_the_box(seen: Seen) -> Problem | None:
    """Look whether the server leads visitors past the box, and whether one came through it."""
    known, server = _known(seen), seen.server
    sight, certain = https.sight_of(known.status)
    if sight and not certain:
        raise NotSeen(sight.code, **sight.params)
    if not sight:
        if known.status["live"]["last_s"] is None:
            raise NotSeen("doctor.no_visitor_yet")
        return None
    told = https.seen(server.https.mode, server.hosts, known.status, known.edge)
    return Problem(sight, told.next or Reason("doctor.do_see_edge"))


def visits_past_the_box(seen: Seen) -> Problem | None:
    """Look whether somebody came past it all the same."""
    status = _known(seen).status
    blind = [each for each in status["inhibitors"] if each["code"] == "server.blind"]
    if blind:
        return Problem(stored_reason(blind[0]), Reason("doctor.do_lead_name"))
    if (status.get("https") or {}).get("around") is None:
        raise NotUsed("doctor.visits_not_counted")
    if number := https.around(status):
        what = Reason("doctor.visits_past", number=number)
        return Problem(what, Reason("doctor.do_lead_name"), note=True)
    return None


def https_served(seen: Seen) -> Problem | None:
    """Check that the box serves the server's names over HTTPS, or passes them through."""
    server = seen.server
    if server.https.mode not in ("box", "through"):
        raise NotUsed("doctor.https_not_served")
    told = https.seen(server.https.mode, server.hosts, {}, _known(seen).edge)
    if told.kind == "good":
        return None
    return Problem(told.what, told.next or Reason("doctor.do_see_edge"), note=told.kind == "info")


def certificate_end(seen: Seen) -> Problem | None:
    """Look whether one of its certificates ends soon, or has ended."""
    if seen.server.https.mode != "box":
        raise NotUsed("doctor.https_not_served")
    edge = _known(seen).edge
    names = {each["id"]: each["names"] for each in edge["certificates"]}
    found = [
        each
        for each in edge["ending"]
        if _is_for(names.get(each["params"]["name"], ()), seen.server.hosts)
    ]
    if not found:
        return None
    ended = any(each["params"]["why"]["code"] in _ENDED for each in found)
    what = together(*map(stored_reason, found))
    return Problem(what, Reason("doctor.do_new_certificate"), note=not ended)


def _is_for(names: Any, hosts: Any) -> bool:
    sites = [ascii_site(host) for host in hosts]
    return not sites or any(covers(name, site) for name in names for site in sites)


CHECKS: Final = (past_the_box, visits_past_the_box, https_served, certificate_end)
