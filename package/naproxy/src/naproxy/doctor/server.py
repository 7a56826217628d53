"""A server's facts about itself: facts.sh runs there, and its lines are checked here.

The lines come from another machine: invalid ones are rejected, and findings are made
printable and short.
"""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from importlib.resources import files
from typing import Final

from naproxy.config.document import Server
from naproxy.core import findings
from naproxy.core.findings import Finding, NotSeen, NotUsed, Problem
from naproxy.core.processes import words
from naproxy.core.reason import Reason, WrongError, own_words
from naproxy.core.schema import is_address
from naproxy.drivers.checks import OnServer
from naproxy.drivers.sleep import checks

MOST_BYTES: Final = 65536
_FIRST_LINE: Final = "naproxy-facts 1"
_KEY: Final = re.compile(r"[a-z_]{1,20}")
_SHOWN: Final = 5
_NUMBER: Final = re.compile(r"[0-9]{1,6}")
_LEAST_LINES: Final = 10


class FactsError(WrongError):
    """These are not the lines of facts.sh."""


class Seen(OnServer):
    """The server's answers, and the configuration's demands on it."""

    server: Server


def script(server: Server, box: str = "") -> str:
    """Return the script for the server's own shell; `box` is the address it knows the box by."""
    login = server.sleep.login
    head = {"MAC": server.mac.lower(), "USER_IN": login, "STATE": server.sleep.state}
    head["BOX"] = box
    body = files(__package__).joinpath("facts.sh").read_text()
    first, _, rest = body.partition("\n")
    values = "".join(f"{name}={shlex.quote(value)}\n" for name, value in head.items())
    return f"{first}\n{values}{rest}"


def parse(data: bytes) -> dict[str, str]:
    """Read what the script printed; FactsError if it is something else."""
    if len(data) > MOST_BYTES:
        raise FactsError("doctor.facts_large", high=MOST_BYTES)
    lines = data.decode(errors="replace").splitlines()
    if not lines or lines[0] != _FIRST_LINE:
        raise FactsError("doctor.facts_begin", line=_FIRST_LINE)
    facts = {}
    for line in lines[1:]:
        name, equals, value = line.partition("=")
        if not equals or not _KEY.fullmatch(name):
            raise FactsError("doctor.facts_line", line=words(line.encode()))
        facts[name] = value.strip()
    return facts


def card(seen: Seen) -> Problem | None:
    """Look whether the card with the configured Ethernet address is in the server."""
    if not seen.facts.get("card"):
        return Problem(
            Reason("doctor.no_card", mac=seen.server.mac), Reason("doctor.do_list_cards")
        )
    return None


def wake_on_lan(seen: Seen) -> Problem | None:
    """Look whether the card wakes by a magic packet."""
    name = seen.card
    if seen.facts.get("ethtool") == "missing":
        raise NotSeen("doctor.no_ethtool")
    if seen.facts.get("root") == "yes" and not seen.facts.get("wol_can"):
        return Problem(
            Reason("doctor.wol_unknown_to_driver", name=name), Reason("doctor.do_other_card")
        )
    can = seen.fact("wol_can", "doctor.ethtool_silent")
    if "g" not in can:
        return Problem(
            Reason("doctor.wol_cannot", name=name, can=can), Reason("doctor.do_wol_firmware")
        )
    now = seen.fact("wol", "doctor.ethtool_silent")
    if "g" not in now:
        return Problem(
            Reason("doctor.wol_off", now=now), Reason("doctor.do_wol", name=shlex.quote(name))
        )
    if now != "g":
        return Problem(
            Reason("doctor.wol_others", now=now),
            Reason("doctor.do_wol_only", name=shlex.quote(name)),
        )
    return None


def wake_on_lan_kept(seen: Seen) -> Problem | None:
    """Look whether it still does after the next boot."""
    if "g" not in seen.facts.get("wol", ""):
        raise NotSeen("doctor.wol_not_now")
    if not seen.facts.get("kept"):
        return Problem(Reason("doctor.wol_not_kept"), Reason("doctor.do_set_in_network"), note=True)
    return None


def device_wakeup(seen: Seen) -> Problem | None:
    """Look whether the kernel lets the card wake the machine."""
    value = seen.fact("wakeup", "doctor.no_wakeup_switch")
    if value != "enabled":
        return Problem(
            Reason("doctor.wakeup_is", value=value),
            Reason("doctor.do_enable_wakeup", name=shlex.quote(seen.card)),
        )
    return None


def energy_efficient_ethernet(seen: Seen) -> Problem | None:
    """Look whether Energy Efficient Ethernet (EEE) may get in the way."""
    if seen.fact("eee", "doctor.eee_unknown").startswith("enabled"):
        return Problem(
            Reason("doctor.eee_on"),
            Reason("doctor.do_eee_off", name=shlex.quote(seen.card)),
            note=True,
        )
    return None


def sleep_state(seen: Seen) -> Problem | None:
    """Look whether the kernel can go to the state that is configured."""
    state = seen.server.sleep.state
    if state == "off":
        raise NotSeen("doctor.always_off")
    wanted = "mem" if state == "ram" else "disk"
    states = seen.fact("states", "doctor.no_states")
    if wanted in states.split():
        return None
    what = Reason("doctor.state_missing", states=states, state=wanted)
    if (virtual := seen.facts.get("virtual", "none")) not in ("", "none"):
        what = Reason("doctor.state_missing_virtual", states=states, state=wanted, kind=virtual)
    return Problem(what, Reason("doctor.do_allow_state"))


def sleep_depth(seen: Seen) -> Problem | None:
    """Look whether suspend to RAM is S3, not only idle."""
    if seen.server.sleep.state != "ram":
        raise NotUsed("doctor.ram_not_used")
    kinds = seen.fact("mem_sleep", "doctor.no_mem_sleep")
    if "[deep]" not in kinds:
        mend = Reason("doctor.do_deep" if "deep" in kinds else "doctor.do_find_s3")
        return Problem(Reason("doctor.mem_sleep", kinds=kinds), mend, note=True)
    return None


def sleep_target(seen: Seen) -> Problem | None:
    """Look whether systemd is allowed to do it."""
    name, _, state = seen.fact("target", "doctor.no_systemd").partition(" ")
    if not state:
        raise NotSeen("doctor.systemd_silent")
    masked = seen.facts.get("masked") or (name if state == "masked" else "")
    if masked:
        quoted = " ".join(map(shlex.quote, masked.split()))
        return Problem(
            Reason("doctor.masked", units=masked), Reason("doctor.do_unmask", units=quoted)
        )
    if (can := seen.facts.get("can", "yes")) in ("na", "no"):
        return Problem(
            Reason("doctor.not_offered", can=can, unit=name), Reason("doctor.do_allow_sleep")
        )
    return None


_SERVICES: Final = {80: "http", 443: "https", 22: "ssh"}
"""firewalld's names of the ports."""


def firewall(seen: Seen) -> Problem | None:
    """Look whether a firewall of the server keeps the box out."""
    wanted = [(seen.server.web_port, "tcp")]
    if door := seen.server.sleep.door:
        wanted.append(door)
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
                Reason("doctor.firewalld", zone=zone, ports=" ".join(closed)),
                Reason("doctor.do_firewalld", zone=shlex.quote(zone), ports=add),
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
            return Problem(
                Reason("doctor.ufw", ports=closed),
                Reason("doctor.do_ufw", commands=add),
                note=True,
            )
        return None
    if seen.facts.get("nft_drops", "0") not in ("", "0"):
        return Problem(Reason("doctor.nftables"), Reason("doctor.do_nftables"), note=True)
    if seen.facts.get("root") != "yes":
        raise NotSeen("doctor.rules_need_root")
    return None


def logs_client(seen: Seen) -> Problem | None:
    """Look whether the web server's log has the visitors' addresses, not the box's."""
    box, counts = seen.facts.get("box", ""), _clients(seen)
    if not box:
        raise NotSeen("doctor.box_unknown")
    if sum(counts.values()) < _LEAST_LINES:
        raise NotSeen("doctor.log_unseen")
    if 2 * counts[box] <= sum(counts.values()):
        return None
    return Problem(
        Reason("doctor.log_box", address=box), Reason("doctor.do_log_clients"), note=True
    )


def _clients(seen: Seen) -> Counter[str]:
    found: Counter[str] = Counter()
    for each in seen.facts.get("log_clients", "").split():
        address, _, number = each.rpartition("=")
        if _NUMBER.fullmatch(number) and is_address(address) is None:
            found[address] += int(number)
    return found


def inhibitors(seen: Seen) -> Problem | None:
    """Look whether a program holds it awake now."""
    said = seen.fact("inhibitors", "doctor.no_logind")
    against = {"idle", "shutdown" if seen.server.sleep.state == "off" else "sleep"}
    try:
        locks = [
            f"{who}: {why}"
            for what, who, why, mode, *_ in json.loads(said)["data"][0]
            if str(mode).startswith("block") and against & set(str(what).split(":"))
        ]
    except (ValueError, LookupError, TypeError):
        raise NotSeen("doctor.logind_cut") from None
    if locks:
        return Problem(
            own_words("; ".join(locks[:_SHOWN])), Reason("doctor.do_see_locks"), note=True
        )
    return None


def users(seen: Seen) -> Problem | None:
    """Look whether somebody is logged in now."""
    if seen.facts.get("users"):
        return Problem(own_words(seen.facts["users"]), Reason("doctor.do_log_out"), note=True)
    return None


def firmware(seen: Seen) -> Problem | None:
    """Look whether the firmware keeps the card powered in sleep."""
    if "D3cold-" in seen.facts.get("pme", ""):
        return Problem(
            Reason("doctor.no_pme", pme=seen.facts["pme"]), Reason("doctor.do_power"), note=True
        )
    raise NotSeen("doctor.firmware_unseen")


CHECKS: Final = (
    *(card, wake_on_lan, wake_on_lan_kept, device_wakeup, energy_efficient_ethernet),
    *(sleep_state, sleep_depth, sleep_target, inhibitors, users, firewall, firmware),
    logs_client,
)


def look(seen: Seen) -> list[Finding]:
    """Return what each check says, and each of its way to sleep."""
    return findings.look("server", (*CHECKS, *checks(seen.server.sleep.driver, "server")), seen)
