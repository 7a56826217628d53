"""What can be seen of a server from the box: the way to it, and who answers."""

from __future__ import annotations

from typing import Final

from naproxy.agent_protocol import Outcome
from naproxy.config import Server
from naproxy.doctor.findings import Look, NotSeen, NotUsed, Problem
from naproxy.doctor.readings import CONNECT_S, Seen
from naproxy.drivers.sleep.agent import STATES

_UNREACHED: Final = ("timed out", "No route to host", "no answer in time")


def _drivers(server: Server) -> set[str]:
    return {rung.driver for rung in (server.wake, *server.rung)}


def _let_in(port: int, protocol: str) -> str:
    return (
        f"let the box in, on the server: ufw allow from BOX to any port {port} proto {protocol};"
        f" or firewall-cmd --permanent --add-port={port}/{protocol}, then firewall-cmd --reload"
        " (docs/server.md)"
    )


def way_to_sleep(seen: Seen) -> Problem | None:
    """A way to put it to sleep is configured."""
    if seen.server.sleep.driver == "none":
        return Problem(
            'sleep.driver is "none": the server is never put to sleep',
            'set driver = "ssh" or "agent" in [server.sleep] (docs/server.md)',
        )
    return None


def interface(seen: Seen) -> Problem | None:
    """The interface to the servers is there and up."""
    if seen.up is None:
        return Problem(
            f"there is no interface {seen.interface}", "set box.interface; see: ip -br link"
        )
    if not seen.up:
        return Problem(f"{seen.interface} is down", f"plug it in; ip link set {seen.interface} up")
    return None


def route(seen: Seen) -> Problem | None:
    """The server is on the wire that magic packets go to."""
    if seen.route is None:
        return Problem(
            f"there is no route to {seen.server.address}",
            "give the box an address in the server's network, or a route",
        )
    if gateway := seen.route.get("gateway"):
        if "etherwake" not in _drivers(seen.server):
            return None
        return Problem(
            f"{seen.server.address} is behind the router {gateway}, and magic packets of"
            " etherwake do not cross routers",
            'use the wake driver "udp" with the directed broadcast address of its network, and'
            " let the router pass that; better: put both on one switch",
        )
    if (device := seen.route.get("dev")) != seen.interface:
        return Problem(
            f"{seen.server.address} is reached through {device}, magic packets leave through"
            f" {seen.interface}",
            f'set wake.interface = "{device}", or box.interface if all servers are there',
        )
    return None


def web_port(seen: Seen) -> Problem | None:
    """The web server answers."""
    here = f"{seen.server.address} port {seen.server.port}"
    if seen.web == "open":
        return None
    if seen.web == "refused":
        return Problem(
            f"{here} refuses connections: the machine is on, its web server is not there",
            "start the web server, or set the server's port",
        )
    if seen.web == "silent" and seen.there:
        return Problem(
            f"{here} takes no connection from the box, though {seen.there}: a firewall, most likely"
            " the server's own",
            _let_in(seen.server.port, "tcp"),
        )
    if seen.web == "silent":
        return Problem(
            f"{here} is silent for {CONNECT_S:g} s",
            "wake it first (naproxy wake); else it has another address, or its firewall drops"
            " what the box sends",
        )
    return Problem(f"{here}: {seen.web}", "see the route above")


def ethernet_address(seen: Seen) -> Problem | None:
    """The Ethernet address is that of the server's card."""
    if seen.route and seen.route.get("gateway"):
        raise NotSeen("it is behind a router: compare with `ip link` on the server")
    if not seen.macs:
        raise NotSeen("the server does not answer, so its Ethernet address is not known")
    if seen.server.mac.lower() not in seen.macs:
        return Problem(
            f"{seen.server.address} has {' and '.join(seen.macs)}, configured is"
            f" {seen.server.mac}: magic packets would not wake it",
            f'set mac = "{seen.macs[0]}" if that is the card that is to wake it',
        )
    return None


def magic_packet(seen: Seen) -> Problem | None:
    """Magic packets can be sent."""
    if "etherwake" not in _drivers(seen.server):
        raise NotUsed("etherwake is not among the ways to wake it")
    if "etherwake" not in seen.programs:
        return Problem("etherwake is not installed", "apt install etherwake")
    if not seen.raw:
        return Problem(
            "this user may not send frames",
            "run naproxy doctor as the user of the controller, or root; a controller that is"
            " not root needs the capability CAP_NET_RAW",
        )
    return None


def programs(seen: Seen) -> Problem | None:
    """The programs of its drivers are installed."""
    needed = {"ipmi": "ipmitool", "gpio": "gpioset", "ssh": "ssh", "libvirt": "ssh"}
    missing = sorted(
        program
        for driver, program in needed.items()
        if driver in {*_drivers(seen.server), seen.server.sleep.driver}
        and program not in seen.programs
    )
    if missing:
        return Problem(f"not installed: {', '.join(missing)}", "apt install it")
    return None


def ssh_key(seen: Seen) -> Problem | None:
    """The box has a key for ssh that nobody else can read."""
    if seen.server.sleep.driver != "ssh":
        raise NotUsed("ssh is not used")
    if seen.key_problem:
        path = seen.server.sleep.key_file
        return Problem(
            seen.key_problem,
            f"naproxy key make {seen.server.id}; one that is there already: chmod 600 {path}",
        )
    return None


def ssh_login(seen: Seen) -> Problem | None:
    """The server lets the box in, and is the one whose key is pinned."""
    if seen.server.sleep.driver != "ssh":
        raise NotUsed("ssh is not used")
    if seen.ssh is None or not seen.ssh.let_in:
        sleep, words = seen.server.sleep, seen.ssh_words or "ssh was not run"
        if "Connection refused" in words:
            return Problem(words, "start the server's ssh server: systemctl enable --now ssh")
        if any(each in words for each in _UNREACHED):
            return Problem(words, f"is it on? Else {_let_in(sleep.port, 'tcp')}")
        return Problem(
            words,
            f"put the line that naproxy key make {seen.server.id} prints into"
            f" ~{sleep.user}/.ssh/authorized_keys on the server; pin the server's host key:"
            f" naproxy key pin {seen.server.id} (docs/server.md)",
        )
    return None


def ssh_restricted(seen: Seen) -> Problem | None:
    """The box's key opens nothing but the one command."""
    if seen.server.sleep.driver != "ssh":
        raise NotUsed("ssh is not used")
    if seen.ssh is None or not seen.ssh.let_in:
        raise NotSeen("nobody was let in by ssh")
    if "administratively prohibited" not in seen.ssh.log + seen.ssh.ended.said:
        return Problem(
            "the box's key may open tunnels on the server, so most likely anything",
            'begin its line in authorized_keys with: restrict,command="/usr/local/bin/'
            'naproxy-sleep"',
        )
    return None


def agent(seen: Seen) -> Problem | None:
    """The agent answers, with the same key."""
    if seen.server.sleep.driver != "agent":
        raise NotUsed("the agent is not used")
    if seen.agent is None:
        return Problem(
            seen.agent_words,
            "on the server: systemctl status naproxy-agent; if it runs,"
            f" {_let_in(seen.server.sleep.port, 'udp')}",
        )
    return None


def _agents_answer(seen: Seen) -> Outcome:
    if seen.server.sleep.driver != "agent":
        raise NotUsed("the agent is not used")
    if seen.agent is None:
        raise NotSeen("no agent answered")
    return seen.agent


def agent_state(seen: Seen) -> Problem | None:
    """The agent offers the state that is configured."""
    answer = _agents_answer(seen)
    state = STATES[seen.server.sleep.state]
    if state not in answer.states:
        return Problem(
            f"the agent offers {' '.join(answer.states) or 'nothing'}, not {state}",
            f"give it a command for {state} in [sleep] of naproxy-agent.conf, or set sleep.state",
        )
    return None


def agent_clock(seen: Seen) -> Problem | None:
    """The clocks of box and server agree."""
    answer = _agents_answer(seen)
    if answer.clock_warning:
        return Problem(
            answer.clock_warning,
            "no harm to sleep and wake; let both take the time from a server (NTP), or logs"
            " and office hours will be off",
            note=True,
        )
    return None


def agent_consent(seen: Seen) -> Problem | None:
    """The server would sleep now."""
    answer = _agents_answer(seen)
    if answer.why:
        return Problem(
            "; ".join(answer.why),
            "as it should be if that is work; else change naproxy-agent.conf on the server",
            note=True,
        )
    return None


LOOK: Final = Look(
    "box",
    (
        *(way_to_sleep, interface, route, web_port, ethernet_address, magic_packet, programs),
        *(ssh_key, ssh_login, ssh_restricted, agent, agent_state, agent_clock, agent_consent),
    ),
)
