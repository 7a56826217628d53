"""Certificates that the box gets by itself: their settings, for forms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from naproxy.core.names import ascii_site, covers

COMING: Final = ("https.acme_clock", "https.acme_coming", "https.fetch_coming")
"""Reasons why there is no certificate yet although nothing is wrong."""


def issuing(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return how the box has certificates issued: the first of them, or how one would be."""
    own = _first(config, "acme") or {"id": "", "names": [], "hook": ""}
    served = [each for each in config["server"] if each["https"]["mode"] == "box"]
    hosts = list(dict.fromkeys(host for server in served for host in server["hosts"]))
    wanted = own["names"] or hosts
    return {
        "id": own["id"],
        "hook": own["hook"],
        "email": config["https"]["acme_email"],
        "agreed": config["https"]["acme_terms"],
        "issuer": config["https"]["acme_directory"],
        "served": bool(served),
        # More names than are served: they must not become "all that are served".
        "more": not set(own["names"]) <= set(hosts),
        "names": [
            (name, name in wanted and (bool(own["hook"]) or not name.startswith("*.")))
            for name in dict.fromkeys((*hosts, *wanted))
        ],
    }


def fetching(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the box fetches from servers: `servers` are those it can, with its id or ""."""
    by_ssh = [each["id"] for each in config["server"] if each["sleep"]["driver"] == "ssh"]
    known = {
        each["server"]: each["id"]
        for each in reversed(config["certificate"])
        if each["source"] == "server"
    }
    return {"servers": [(name, known.get(name, "")) for name in by_ssh]}


def way(config: Mapping[str, Any]) -> str:
    """Return how certificates come here: `acme`, `upload` or `server`; new ones are issued."""
    sources = {each["source"] for each in config["certificate"]}
    return next((each for each in ("acme", "server", "upload") if each in sources), "acme")


def cared_for(
    config: Mapping[str, Any], server: Mapping[str, Any], there: Iterable[Mapping[str, Any]]
) -> bool:
    """Return whether a server has a certificate or will get one; `there`: the box's certificates.

    Any certificate counts if the server has no names, as none can be matched.
    """
    sites = [ascii_site(host) for host in server["hosts"]]
    found = {each["id"]: each["names"] for each in there}

    def for_it(own: Mapping[str, Any]) -> bool:
        if own["source"] == "server":
            return bool(own["server"] == server["id"])
        if own["source"] == "acme" and not own["names"]:
            return True
        names = [ascii_site(name) for name in own["names"] or found.get(own["id"], ())]
        return not sites or any(covers(name, site) for name in names for site in sites)

    return any(for_it(own) for own in config["certificate"])


def _first(config: Mapping[str, Any], source: str) -> Mapping[str, Any] | None:
    return next((each for each in config["certificate"] if each["source"] == source), None)
