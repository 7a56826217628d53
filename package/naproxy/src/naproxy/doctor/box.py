"""Checks of a server from the box: the way to it, and the machine that answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from naproxy.config.document import Server
from naproxy.controller.front_door import HTTP_PORT
from naproxy.core import findings
from naproxy.core.findings import Finding, NotSeen, NotUsed, Problem, let_in
from naproxy.core.reason import Reason, own_words, stored_reason
from naproxy.doctor import ports, visitors
from naproxy.doctor.readings import CONNECT_S, BoxSeen, Seen
from naproxy.drivers.sleep import checks


def _rungs(server: Server, *, on_wire: bool) -> list[Any]:
    return [rung for rung in server.wake if rung.on_wire == on_wire]


def _missing(seen: Seen, ways: list[Any]) -> dict[str, str]:
    """Return the programs that are not installed, and the packages that have them."""
    needed = {name: package for way in ways for name, package in way.needs.programs.items()}
    return {name: needed[name] for name in sorted(needed) if name not in seen.programs}


def settings(seen: Seen | BoxSeen) -> Problem | None:
    """Look whether the settings in the file are those in force."""
    if seen.refused:
        return Problem(seen.refused, Reason("doctor.do_mend_settings", file=str(seen.file)))
    return None


def way_to_sleep(seen: Seen) -> Problem | None:
    """Look whether it can be put to sleep, and does not do so itself."""
    if seen.known and (own := seen.known.status.get("sleeps_itself")):
        mend = Reason("doctor.do_leave", server=seen.server.id)
        return Problem(stored_reason(own), mend, note=True)
    if seen.server.sleep.never and not seen.server.sleep.itself:
        return Problem(Reason("doctor.no_way"), Reason("doctor.do_choose_way"))
    return None


def interface(seen: Seen) -> Problem | None:
    """Look at the interface to the servers."""
    name = seen.interface
    if seen.up is None:
        return Problem(
            Reason("doctor.no_interface", name=name), Reason("doctor.do_choose_interface")
        )
    if not seen.up:
        return Problem(
            Reason("doctor.interface_down", name=name), Reason("doctor.do_plug_in", name=name)
        )
    return None


def route(seen: Seen) -> Problem | None:
    """Look whether the server is on the wire that magic packets go to."""
    address = seen.server.address
    if seen.route is None:
        return Problem(Reason("doctor.no_route", address=address), Reason("doctor.do_give_address"))
    if gateway := seen.route.get("gateway"):
        if not _rungs(seen.server, on_wire=True):
            return None
        return Problem(
            Reason("doctor.behind_router", address=address, router=gateway),
            Reason("doctor.do_cross_router"),
        )
    if (device := seen.route.get("dev")) != seen.interface:
        return Problem(
            Reason(
                "doctor.other_interface", address=address, name=device, configured=seen.interface
            ),
            Reason("doctor.do_set_interface", name=device),
        )
    return None


def web_port(seen: Seen) -> Problem | None:
    """Look whether the web server answers."""
    address, port = seen.server.address, seen.server.web_port
    if seen.web == "open":
        return None
    if seen.web == "refused":
        return Problem(
            Reason("doctor.web_refused", address=address, port=port), Reason("doctor.do_start_web")
        )
    if seen.web == "silent" and seen.there:
        return Problem(
            Reason("doctor.web_firewall", address=address, port=port, there=seen.there),
            let_in((port, "tcp")),
        )
    if seen.web == "silent":
        return Problem(
            Reason("doctor.web_silent", address=address, port=port, wait_s=CONNECT_S),
            Reason("doctor.do_wake_first"),
        )
    return Problem(
        Reason("doctor.web_other", address=address, port=port, said=own_words(seen.web)),
        Reason("doctor.do_see_route"),
    )


def server_certificate(seen: Seen) -> Problem | None:
    """Look whether haproxy takes the certificate that the server shows."""
    if not seen.server.by_https:
        raise NotUsed("doctor.by_http")
    if seen.web != "open":
        raise NotSeen("doctor.web_not_open")
    if seen.shown:
        return Problem(seen.shown, Reason("doctor.do_server_certificate"))
    return None


def ethernet_address(seen: Seen) -> Problem | None:
    """Look whether the Ethernet address is that of the server's card."""
    if seen.route and seen.route.get("gateway"):
        raise NotSeen("doctor.mac_behind_router")
    if not seen.macs:
        raise NotSeen("doctor.mac_unknown")
    if seen.server.mac.lower() not in seen.macs:
        return Problem(
            Reason(
                "doctor.other_mac",
                address=seen.server.address,
                found=list(seen.macs),
                configured=seen.server.mac,
            ),
            Reason("doctor.do_set_mac", mac=seen.macs[0]),
        )
    return None


def magic_packet(seen: Seen) -> Problem | None:
    """Look whether magic packets can be sent."""
    rungs = _rungs(seen.server, on_wire=True)
    if not rungs:
        raise NotUsed("doctor.etherwake_not_used")
    if missing := _missing(seen, rungs):
        return Problem(Reason("doctor.no_etherwake"), _install(missing))
    if not seen.raw:
        return Problem(Reason("doctor.no_frames"), Reason("doctor.do_run_as_root"))
    return None


def programs(seen: Seen) -> Problem | None:
    """Look whether the programs of its drivers are installed."""
    missing = _missing(seen, [seen.server.sleep, *_rungs(seen.server, on_wire=False)])
    if missing:
        return Problem(Reason("doctor.not_installed", names=list(missing)), _install(missing))
    return None


def _install(missing: Mapping[str, str]) -> Reason:
    return Reason("doctor.do_install", packages=" ".join(missing.values()))


def _door(problem: Reason | None) -> Problem | None:
    if problem is None:
        return None
    port = problem.params["port"]
    service = "varnish" if port == HTTP_PORT else "naproxy-edge"
    taken = problem.code in ("front_door.taken", "front_door.other")
    mend = "doctor.do_free_port" if taken else "doctor.do_open_door"
    return Problem(problem, Reason(mend, port=port, service=service))


def front_door_http(seen: Seen | BoxSeen) -> Problem | None:
    """Look whether visitors reach the box on port 80."""
    return _door(seen.doors.http)


def front_door_https(seen: Seen | BoxSeen) -> Problem | None:
    """Look whether visitors reach the box on port 443."""
    if not seen.doors.over_https:
        raise NotUsed("doctor.https_not_served")
    return _door(seen.doors.https)


OF_BOX: Final = (settings, front_door_http, front_door_https)
"""Checks that need no server."""

CHECKS: Final = (
    *(*OF_BOX, way_to_sleep, interface, route, web_port, server_certificate, ethernet_address),
    *(magic_packet, programs),
    *visitors.CHECKS,
    *ports.CHECKS,
)


def look(seen: Seen) -> list[Finding]:
    """Return what each check says, and each of its way to sleep."""
    return findings.look("box", (*CHECKS, *checks(seen.server.sleep.driver, "box")), seen)


def look_at_box(seen: BoxSeen) -> list[Finding]:
    """Return what the checks of the box alone say."""
    return findings.look("box", OF_BOX, seen)
