"""Configuration changes by the steps of the setup guide. Pure.

A step's form becomes changes for `PATCH /v1/config`: comments and the rest of the file survive,
and the controller validates everything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from naproxy.api import table
from naproxy.core.names import ascii_site, covers, is_site_name
from naproxy.core.reason import WrongError

STEPS: Final = table.STEPS
AGAIN: Final = tuple(step for step in STEPS if step not in ("welcome", "done"))
"""Steps that can be done again by themselves."""

WAYS: Final = {
    "ssh": ("state", "user"),
    "agent": ("state",),
    "login": ("state", "user", "command"),
    "itself": (),
    "none": (),
}
"""The ways to sleep that the guide leads through; their keys.

Over `ssh` and by datagram (`agent`) the agent decides. A `login` runs a command and checks nothing.
"""
OURS: Final = "naproxy-sleep"
"""The command over ssh that runs the agent."""

MOST_NAMES: Final = 16
"""Of a server's certificate that are proposed: a large one is of a hoster, for everybody."""

Changes = list[dict[str, Any]]


def put(where: str, value: Any) -> dict[str, Any]:
    """Set a key."""
    return {"op": "set", "where": where, "value": value}


def server_id(name: str, taken: Iterable[str]) -> str:
    """Make a server's short name from the machine's name; `web` if that leaves nothing."""
    made = re.sub(r"[^a-z0-9]+", "-", name.partition(".")[0].lower()).strip("-")[:24]
    made = made if made and made != "box" else "web"
    used = set(taken)
    numbered = (f"{made}-{number}" for number in range(2, 100))
    return made if made not in used else next(each for each in numbered if each not in used)


def server(config: Mapping[str, Any], chosen: Mapping[str, Any], name: str | None) -> Changes:
    """Return the changes for a chosen machine: a new server, or the new address of an old one."""
    # Without a configured interface, the box uses its routes.
    own = config["box"]["interface"]
    interface = (chosen.get("interface") or own) if own else ""
    changes: Changes = []
    if not config["server"] and interface != own:
        changes.append(put("box.interface", interface))
        own = interface
    place = {key: chosen[key] for key in ("address", "mac", "port")}
    if name is None:
        first: dict[str, Any] = {"default": True} if not config["server"] else {}
        made = {"id": server_id(chosen.get("name") or "", _ids(config)), **place, **first}
        if interface != own:
            made["interface"] = interface
        return [*changes, {"op": "add", "where": "server", "value": made}]
    changes += [put(f"server.{name}.{key}", value) for key, value in place.items()]
    if _wire(config, name) != interface:
        changes.append(put(f"server.{name}.interface", interface))
    return changes


def _ids(config: Mapping[str, Any]) -> list[str]:
    return [each["id"] for each in config["server"]]


def server_in(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return what is configured of a server that there is."""
    found: dict[str, Any] = next(each for each in config["server"] if each["id"] == name)
    return found


def _wire(config: Mapping[str, Any], name: str) -> str:
    wire: str = server_in(config, name)["interface"] or config["box"]["interface"]
    return wire


def host_names(typed: Sequence[str]) -> list[str]:
    """Return each host name in typed or pasted texts once; a text may also be a URL."""
    found = []
    for text in typed:
        for word in re.split(r"[\s,;]+", text):
            name = re.sub(r"^[a-z]+://", "", word.strip().lower()).partition("/")[0]
            name = name.rpartition("@")[2].partition(":")[0].rstrip(".")
            if name:
                found.append(_ascii(name))
    return list(dict.fromkeys(found))


def _ascii(name: str) -> str:
    """Return a name as in DNS; an invalid one stays as it is, and the controller rejects it."""
    try:
        return ascii_site(name)
    except WrongError:
        return name


def seen(found: Mapping[str, Any], server: Mapping[str, Any]) -> dict[str, Any]:
    """Return a look's findings on HTTPS: whether visitors use it, and names not served yet.

    `answers`: port 443 answers; `leads`: the HTTPS target of the website's redirect, or None.
    """
    look = found["look"] or {"port": "unknown", "shown": (), "led": ()}
    leads = next((each["to"] for each in look["led"] if each["https"]), None)
    named = [name for each in look["shown"] for name in each["names"]]
    served = [_ascii(host) for host in server["hosts"]]
    names = [
        name
        for name in dict.fromkeys(each.lower() for each in named)
        if not is_site_name(name) and not any(covers(site, name) for site in served)
    ]
    known = look["port"] != "unknown" and found["look"] is not None
    answers = look["port"] == "open"
    return {"known": known, "answers": answers, "leads": leads, "names": names[:MOST_NAMES]}


def https(
    server: Mapping[str, Any], mode: str | None, names: Sequence[str], *, silent: bool
) -> Changes:
    """Return what a choice changes; names are added to those that there are.

    `later` serves nothing: the box keeps the server awake while visitors use HTTPS. Where nobody
    uses it and the server is seen to be `silent`, `none` is enough: the box sees if that changes.
    """
    where = f"server.{server['id']}"
    hosts = [*server["hosts"], *(name for name in names if name not in server["hosts"])]
    changes = [put(f"{where}.hosts", hosts)] if hosts != server["hosts"] else []
    if mode is None:
        return changes
    wanted = "none" if mode == "later" or (mode == "unused" and silent) else mode
    if wanted != "box":
        off = {"redirect": False, "hsts_s": 0}
        changes += [
            put(f"{where}.https.{key}", value)
            for key, value in off.items()
            if server["https"][key] != value
        ]
    return [*changes, put(f"{where}.https.mode", wanted)]


def cache(
    config: Mapping[str, Any], name: str, chosen: Mapping[str, str], paths: Sequence[str]
) -> Changes:
    """Return what a choice of the cache changes: its keys, and rules for parts of the website.

    Such a part may be used while the server sleeps. A rule that there is for it stays as it is.
    """
    before = server_in(config, name)["cache"]
    changes = [
        put(f"server.{name}.cache.{key}", value)
        for key, value in chosen.items()
        if value != before[key]
    ]
    ruled = {each["path"] for each in config["cache_rule"] if each["server"] in ("", name)}
    for path in dict.fromkeys(path for path in paths if path not in ruled):
        rule = {"path": path, "asleep": "yes", "server": name}
        changes.append({"op": "add", "where": "cache_rule", "value": rule})
    return changes


def sleep(config: Mapping[str, Any], name: str, way: Mapping[str, Any]) -> Changes:
    """Return what a way to sleep changes; keys of the way that is in force stay."""
    here = f"server.{name}.sleep"
    before = server_in(config, name)["sleep"]
    wanted = {"driver": way["driver"], **{key: way[key] for key in WAYS[way["driver"]]}}
    if way["driver"] == "login":
        wanted["driver"] = "ssh"
    elif way["driver"] == "ssh" and way_now(before) == "login":
        wanted["command"] = OURS
    if before["driver"] == wanted["driver"]:
        return [put(f"{here}.{key}", value) for key, value in wanted.items()]
    return [put(here, wanted)]


def way_now(settings: Mapping[str, Any]) -> str:
    """Return which of the ways is configured; the driver's name if it is another."""
    if settings["driver"] != "ssh":
        return str(settings["driver"])
    return "ssh" if settings["command"].rpartition("/")[2] == OURS else "login"


def meter(config: Mapping[str, Any], name: str, chosen: Mapping[str, Any]) -> Changes:
    """Return the changes for a choice of a meter: it replaces this server's meters.

    `none` leaves none. `estimate` is a model by the server's state; pages mark it as an estimate,
    and the sleep rule uses it. Any other choice is a meter that was found.
    """
    mine = [number for number, each in enumerate(config["meter"], 1) if each["of"] == name]
    # From the end, because each removal renumbers the following ones.
    changes: Changes = [{"op": "remove", "where": f"meter.{n}"} for n in reversed(mine)]
    if chosen["kind"] == "none":
        return changes
    taken = [each["id"] for number, each in enumerate(config["meter"], 1) if number not in mine]
    made: dict[str, Any] = {"id": server_id("meter", taken), "of": name}
    if chosen["kind"] == "estimate":
        watts = {"on_w": float(chosen["on_w"]), "off_w": float(chosen["off_w"])}
        changes += powers(name, watts)
        made |= {"driver": "simulated", **watts}
    else:
        made |= {"driver": chosen["driver"], **chosen["keys"]}
    return [*changes, {"op": "add", "where": "meter", "value": made}]


def powers(name: str, watts: Mapping[str, float]) -> Changes:
    """Return what measured or estimated powers change."""
    return [put(f"server.{name}.power.{key}", float(value)) for key, value in watts.items()]
