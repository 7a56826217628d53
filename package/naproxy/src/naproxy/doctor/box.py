"""What can be seen of a server from the box: the way to it, and who answers."""

from __future__ import annotations

from typing import Final

from naproxy.agent_protocol import Outcome
from naproxy.config import Server
from naproxy.doctor.findings import Look, NotSeen, NotUsed, Problem
from naproxy.doctor.readings import CONNECT_S, Seen
from naproxy.drivers.sleep.agent import STATES
from naproxy.reason import Reason, own_words

_UNREACHED: Final = ("timed out", "No route to host")
"""What ssh says where nobody answers."""


def _drivers(server: Server) -> set[str]:
    return {rung.driver for rung in (server.wake, *server.rung)}


def _let_in(port: int, protocol: str) -> Reason:
    return Reason("doctor.let_in", port=port, protocol=protocol)


def way_to_sleep(seen: Seen) -> Problem | None:
    """Look whether it can be put to sleep."""
    if seen.server.sleep.driver == "none":
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
        if "etherwake" not in _drivers(seen.server):
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
    address, port = seen.server.address, seen.server.port
    if seen.web == "open":
        return None
    if seen.web == "refused":
        return Problem(
            Reason("doctor.web_refused", address=address, port=port), Reason("doctor.do_start_web")
        )
    if seen.web == "silent" and seen.there:
        return Problem(
            Reason("doctor.web_firewall", address=address, port=port, there=seen.there),
            _let_in(port, "tcp"),
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
    if "etherwake" not in _drivers(seen.server):
        raise NotUsed("doctor.etherwake_not_used")
    if "etherwake" not in seen.programs:
        return Problem(Reason("doctor.no_etherwake"), _install("etherwake"))
    if not seen.raw:
        return Problem(Reason("doctor.no_frames"), Reason("doctor.do_run_as_root"))
    return None


def programs(seen: Seen) -> Problem | None:
    """Look whether the programs of its drivers are installed."""
    needed = {"ipmi": "ipmitool", "gpio": "gpioset", "ssh": "ssh", "libvirt": "ssh"}
    missing = sorted(
        program
        for driver, program in needed.items()
        if driver in {*_drivers(seen.server), seen.server.sleep.driver}
        and program not in seen.programs
    )
    if missing:
        return Problem(Reason("doctor.not_installed", names=missing), _install(*missing))
    return None


_PACKAGES: Final = {"gpioset": "gpiod", "ssh": "openssh-client"}
"""Of Debian, where they are not called as the program."""


def _install(*names: str) -> Reason:
    packages = " ".join(_PACKAGES.get(name, name) for name in names)
    return Reason("doctor.do_install", packages=packages)


def ssh_key(seen: Seen) -> Problem | None:
    """Look whether the box has a key for ssh that nobody else can read."""
    if seen.server.sleep.driver != "ssh":
        raise NotUsed("doctor.ssh_not_used")
    if seen.key_problem:
        made = Reason("doctor.do_make_key", server=seen.server.id, file=seen.server.sleep.key_file)
        return Problem(seen.key_problem, made)
    return None


def ssh_login(seen: Seen) -> Problem | None:
    """Look whether the server lets the box in, and is the one whose key is pinned."""
    if seen.server.sleep.driver != "ssh":
        raise NotUsed("doctor.ssh_not_used")
    if seen.ssh is None or not seen.ssh.let_in:
        return Problem(seen.ssh_problem or Reason("doctor.ssh_not_run"), _to_log_in(seen))
    return None


def _to_log_in(seen: Seen) -> Reason:
    sleep, said = seen.server.sleep, seen.ssh.log.strip() if seen.ssh else None
    if said is not None and "Connection refused" in said:
        return Reason("doctor.do_start_ssh")
    if said is not None and (not said or any(each in said for each in _UNREACHED)):
        return Reason("doctor.do_on_and_let_in", let_in=_let_in(sleep.port, "tcp"))
    return Reason("doctor.do_let_key_in", server=seen.server.id, user=sleep.user)


def ssh_restricted(seen: Seen) -> Problem | None:
    """Look whether the box's key opens nothing but the one command."""
    if seen.server.sleep.driver != "ssh":
        raise NotUsed("doctor.ssh_not_used")
    if seen.ssh is None or not seen.ssh.let_in:
        raise NotSeen("doctor.not_let_in")
    if "administratively prohibited" not in seen.ssh.log + seen.ssh.ended.said:
        return Problem(Reason("doctor.key_opens_tunnels"), Reason("doctor.do_restrict"))
    return None


def agent(seen: Seen) -> Problem | None:
    """Look whether the agent answers, with the same key."""
    if seen.server.sleep.driver != "agent":
        raise NotUsed("doctor.agent_not_used")
    if seen.agent is None:
        return Problem(
            seen.agent_problem or Reason("doctor.agent_silent"),
            Reason("doctor.do_see_agent", let_in=_let_in(seen.server.sleep.port, "udp")),
        )
    return None


def _agents_answer(seen: Seen) -> Outcome:
    if seen.server.sleep.driver != "agent":
        raise NotUsed("doctor.agent_not_used")
    if seen.agent is None:
        raise NotSeen("doctor.agent_silent")
    return seen.agent


def agent_state(seen: Seen) -> Problem | None:
    """Look whether the agent offers the state that is configured."""
    answer = _agents_answer(seen)
    state = STATES[seen.server.sleep.state]
    if state in answer.states:
        return None
    what = Reason("doctor.agent_offers", states=list(answer.states), state=state)
    if not answer.states:
        what = Reason("doctor.agent_offers_nothing", state=state)
    return Problem(what, Reason("doctor.do_give_command", state=state))


def agent_clock(seen: Seen) -> Problem | None:
    """Look whether the clocks of box and server agree."""
    answer = _agents_answer(seen)
    if not answer.clock_warning:
        return None
    ahead_s = answer.clock_ahead_s
    code = "doctor.clock_ahead" if ahead_s > 0 else "doctor.clock_behind"
    return Problem(Reason(code, by_s=abs(ahead_s)), Reason("doctor.do_set_clocks"), note=True)


def agent_consent(seen: Seen) -> Problem | None:
    """Look whether the server would sleep now."""
    answer = _agents_answer(seen)
    if answer.why:
        return Problem(
            own_words("; ".join(answer.why)), Reason("doctor.do_change_agent"), note=True
        )
    return None


LOOK: Final = Look(
    "box",
    (
        *(way_to_sleep, interface, route, web_port, ethernet_address, magic_packet, programs),
        *(ssh_key, ssh_login, ssh_restricted, agent, agent_state, agent_clock, agent_consent),
    ),
)
