"""What a server says about itself: facts.sh runs there, its lines are judged here.

The lines come from another machine: what does not fit is refused; a finding is made
printable and short.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from naproxy.config import Server
from naproxy.doctor.findings import Look, NotSeen, NotUsed, Problem
from naproxy.drivers.program import words

MOST_BYTES: Final = 65536
_FIRST_LINE: Final = "naproxy-facts 1"
_KEY: Final = re.compile(r"[a-z_]{1,20}")
_SHOWN: Final = 5


class FactsError(ValueError):
    """These are not the lines of facts.sh, in words."""


@dataclass(frozen=True)
class Seen:
    """What the server said, and what the configuration asks of it."""

    facts: Mapping[str, str]
    server: Server

    def fact(self, name: str, missing: str) -> str:
        """Return a fact that must be there to judge; NotSeen with `missing` if it is not."""
        value = self.facts.get(name, "")
        if not value:
            raise NotSeen(missing)
        return value

    @property
    def card(self) -> str:
        """The interface's name on the server."""
        return self.fact("card", "the card was not found")


def script(server: Server) -> str:
    """Return the script for the server's own shell."""
    user = server.sleep.user if server.sleep.driver == "ssh" else ""
    head = {"MAC": server.mac.lower(), "USER_IN": user, "STATE": server.sleep.state}
    body = files(__package__).joinpath("facts.sh").read_text()
    first, _, rest = body.partition("\n")
    values = "".join(f"{name}={shlex.quote(value)}\n" for name, value in head.items())
    return f"{first}\n{values}{rest}"


def parse(data: bytes) -> dict[str, str]:
    """Read what the script printed; FactsError if it is something else."""
    if len(data) > MOST_BYTES:
        raise FactsError(f"more than {MOST_BYTES} bytes: not what the script prints")
    lines = data.decode(errors="replace").splitlines()
    if not lines or lines[0] != _FIRST_LINE:
        raise FactsError(f"does not begin with {_FIRST_LINE!r}: did the script run?")
    facts = {}
    for line in lines[1:]:
        name, equals, value = line.partition("=")
        if not equals or not _KEY.fullmatch(name):
            raise FactsError(f"has a line that the script does not print: {words(line.encode())}")
        facts[name] = value.strip()
    return facts


def card(seen: Seen) -> Problem | None:
    """The card with the configured Ethernet address is in the server."""
    if not seen.facts.get("card"):
        return Problem(
            f"no network card of the server has the address {seen.server.mac}",
            "ip -br link, on the server, lists them: set mac to that of the wired card",
        )
    return None


def wake_on_lan(seen: Seen) -> Problem | None:
    """The card wakes by a magic packet."""
    name = seen.card
    if seen.facts.get("ethtool") == "missing":
        raise NotSeen("ethtool is not installed on the server: apt install ethtool")
    if seen.facts.get("root") == "yes" and not seen.facts.get("wol_can"):
        return Problem(
            f"{name} cannot: its driver knows no wake-on-LAN",
            "use another card, or another way to wake it; a virtual machine: the driver libvirt"
            " (docs/drivers.md)",
        )
    can = seen.fact("wol_can", "ethtool says nothing of it: run the script as root")
    if "g" not in can:
        return Problem(
            f"{name} cannot: it supports Wake-on: {can}",
            "switch Wake on LAN (also called PME, power on by PCI-E) on in the firmware; else"
            " use another card, or another way to wake it",
        )
    now = seen.fact("wol", "ethtool says nothing of it: run the script as root")
    if "g" not in now:
        return Problem(
            f"it is off: Wake-on: {now}",
            f"ethtool -s {shlex.quote(name)} wol g, and make that last (docs/server.md)",
        )
    if now != "g":
        return Problem(
            f"it also wakes by other packets: Wake-on: {now}",
            f"ethtool -s {shlex.quote(name)} wol g",
        )
    return None


def wake_on_lan_kept(seen: Seen) -> Problem | None:
    """It still does after the next boot."""
    if "g" not in seen.facts.get("wol", ""):
        raise NotSeen("it does not now")
    if not seen.facts.get("kept"):
        return Problem(
            "nothing in the usual places sets it: a boot or a driver may switch it off",
            "set it in the network's configuration (docs/server.md)",
            note=True,
        )
    return None


def device_wakeup(seen: Seen) -> Problem | None:
    """The kernel lets the card wake the machine."""
    value = seen.fact("wakeup", "the card has no such switch")
    if value != "enabled":
        return Problem(
            f"power/wakeup of the card is {value}",
            f"echo enabled > /sys/class/net/{shlex.quote(seen.card)}/device/power/wakeup;"
            " ethtool -s ... wol g does it too",
        )
    return None


def energy_efficient_ethernet(seen: Seen) -> Problem | None:
    """Energy Efficient Ethernet (EEE) does not get in the way."""
    if seen.fact("eee", "the card says nothing of it").startswith("enabled"):
        return Problem(
            "EEE is on: a few cards and switches lose the link in sleep with it",
            f"if wakes fail: ethtool --set-eee {shlex.quote(seen.card)} eee off",
            note=True,
        )
    return None


def sleep_state(seen: Seen) -> Problem | None:
    """The kernel can go to the state that is configured."""
    state = seen.server.sleep.state
    if state == "off":
        raise NotSeen("power off is always there; S5 and deep sleep are firmware settings")
    wanted = "mem" if state == "ram" else "disk"
    states = seen.fact("states", "/sys/power/state cannot be read")
    if wanted not in states.split():
        virtual = seen.facts.get("virtual", "none")
        where = "" if virtual in ("", "none") else f" (it is a virtual machine: {virtual})"
        return Problem(
            f"/sys/power/state has {states}, not {wanted}{where}",
            "switch S3 on in the firmware (suspend to RAM, ACPI sleep S3); disk needs swap as"
            " large as the memory; else set sleep.state",
        )
    return None


def sleep_depth(seen: Seen) -> Problem | None:
    """Suspend to RAM is S3, not only idle."""
    if seen.server.sleep.state != "ram":
        raise NotUsed("suspend to RAM is not used")
    kinds = seen.fact("mem_sleep", "/sys/power/mem_sleep is not there")
    if "[deep]" not in kinds:
        mend = (
            "echo deep > /sys/power/mem_sleep, and mem_sleep_default=deep on the kernel's line"
            if "deep" in kinds
            else "look for S3 in the firmware; s2idle draws more, and a card may not wake it"
        )
        return Problem(f"/sys/power/mem_sleep has {kinds}", mend, note=True)
    return None


def sleep_target(seen: Seen) -> Problem | None:
    """systemd is allowed to do it."""
    name, _, state = seen.fact("target", "no systemd on the server").partition(" ")
    if not state:
        raise NotSeen("systemd does not answer on the server")
    masked = seen.facts.get("masked") or (name if state == "masked" else "")
    if masked:
        words = " ".join(map(shlex.quote, masked.split()))
        return Problem(f"masked: {masked}", f"systemctl unmask {words}")
    if (can := seen.facts.get("can", "yes")) in ("na", "no"):
        return Problem(
            f"logind does not offer it (it says {can}), though {name} is there",
            "look for AllowSuspend=no or AllowHibernation=no in /etc/systemd/sleep.conf and"
            " sleep.conf.d; suspend to disk also needs swap as large as the memory in use",
        )
    return None


_SERVICES: Final = {80: "http", 443: "https", 22: "ssh"}
"""What firewalld calls the ports."""


def firewall(seen: Seen) -> Problem | None:
    """No firewall of the server keeps the box out."""
    wanted = [(seen.server.port, "tcp")]
    sleep = seen.server.sleep
    if sleep.driver in ("ssh", "agent"):
        wanted.append((sleep.port, "udp" if sleep.driver == "agent" else "tcp"))
    if said := seen.facts.get("firewalld", ""):
        zone, _, allowed = said.partition(":")
        names = set(allowed.split())
        closed = [
            f"{port}/{protocol}"
            for port, protocol in wanted
            if not {f"{port}/{protocol}", _SERVICES.get(port, "")} & names
        ]
        if closed:
            add = " ".join(f"--add-port={each}" for each in closed)
            return Problem(
                f"firewalld's zone {zone} does not name {' '.join(closed)}",
                f"unless a rule of it lets the box in: firewall-cmd --permanent"
                f" --zone={shlex.quote(zone)} {add}, then firewall-cmd --reload",
                note=True,
            )
        return None
    rules = seen.facts.get("ufw", "")
    if rules.startswith("Status: active"):
        closed = [
            f"port {port} proto {protocol}"
            for port, protocol in wanted
            if not re.search(rf"(?<![\d.:]){port}(?![\d.:])", rules)
        ]
        if closed:
            add = "; ".join(f"ufw allow from BOX to any {each}" for each in closed)
            return Problem(f"ufw is on and does not name {', '.join(closed)}", add, note=True)
        return None
    if seen.facts.get("nft_drops", "0") not in ("", "0"):
        return Problem(
            "a table of nftables drops what no rule allows",
            "see that it lets the box in: nft list ruleset",
            note=True,
        )
    if seen.facts.get("root") != "yes":
        raise NotSeen("rules of firewalls can only be read as root")
    return None


def inhibitors(seen: Seen) -> Problem | None:
    """No program holds it awake now."""
    said = seen.fact("inhibitors", "no logind on the server")
    against = {"idle", "shutdown" if seen.server.sleep.state == "off" else "sleep"}
    try:
        locks = [
            f"{who}: {why}"
            for what, who, why, mode, *_ in json.loads(said)["data"][0]
            if str(mode).startswith("block") and against & set(str(what).split(":"))
        ]
    except (ValueError, LookupError, TypeError):
        raise NotSeen("logind's answer was cut or is not understood") from None
    if locks:
        return Problem(
            "; ".join(locks[:_SHOWN]),
            "as it should be if that is work; else: systemd-inhibit --list",
            note=True,
        )
    return None


def users(seen: Seen) -> Problem | None:
    """Nobody is logged in now."""
    if seen.facts.get("users"):
        return Problem(
            seen.facts["users"],
            "systemctl suspend and the agent count that as a reason to stay awake",
            note=True,
        )
    return None


def forced_command(seen: Seen) -> Problem | None:
    """Each key of the login for the box runs the one command only."""
    if seen.server.sleep.driver != "ssh":
        raise NotUsed("ssh is not used")
    user = seen.server.sleep.user
    if not seen.facts.get("login"):
        return Problem(f"there is no user {user}", "make it: docs/server.md")
    if seen.facts["login"].endswith(("nologin", "false")):
        return Problem(
            f"{user} has the shell {seen.facts['login']}, which runs no command",
            f"usermod -s /bin/sh {user}",
        )
    if seen.facts.get("root") != "yes":
        raise NotSeen("authorized_keys can only be read as root")
    keys, forced = (seen.facts.get(name, "") for name in ("keys", "forced"))
    if keys in ("", "0"):
        return Problem(
            f"{user} has no authorized_keys", "put the box's public key there: docs/server.md"
        )
    if keys != forced:
        return Problem(
            "a key there has no forced command: who has it may do anything that the user may",
            'begin its line with: restrict,command="/usr/local/bin/naproxy-sleep"',
        )
    if seen.facts.get("command") != "runs":
        return Problem(
            "the forced command is not there or not executable",
            "put it there: docs/server.md; chmod 755",
        )
    return None


def agent_unit(seen: Seen) -> Problem | None:
    """The agent runs."""
    if seen.server.sleep.driver != "agent":
        raise NotUsed("the agent is not used")
    state = seen.facts.get("agent_unit", "")
    if state != "active":
        return Problem(
            f"naproxy-agent.service is {state or 'not there'}",
            "install it (docs/agent.md), or: journalctl -u naproxy-agent",
        )
    return None


def firmware(seen: Seen) -> Problem | None:
    """The firmware keeps the card powered in sleep."""
    if "D3cold-" in seen.facts.get("pme", ""):
        return Problem(
            f"lspci says PME({seen.facts['pme']}): in D3cold, where a card is while the machine"
            " sleeps, this one cannot wake it",
            "if it does not wake: ErP, EuP and Deep Sleep (S5) off in the firmware, then power it"
            " off and on, and look again; else another card",
            note=True,
        )
    raise NotSeen(
        "no program can see that: in the firmware, switch Wake on LAN on, and ErP, EuP or Deep"
        " Sleep (S5) off; after a power failure let it power on; naproxy commission proves it"
    )


LOOK: Final = Look(
    "server",
    (
        *(card, wake_on_lan, wake_on_lan_kept, device_wakeup, energy_efficient_ethernet),
        *(sleep_state, sleep_depth, sleep_target, inhibitors, users),
        *(firewall, forced_command, agent_unit, firmware),
    ),
)
