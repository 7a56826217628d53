"""How Naproxy is installed on a machine: arguments of its programs, no settings of an office.

With some of them one could run programs as root, so no request may bring them.
"""

from __future__ import annotations

from dataclasses import dataclass

from naproxy.core.schema import is_absolute, option


@dataclass(frozen=True, kw_only=True)
class Installation:
    """Places, groups and programs; each is an argument, `data_dir` is `--data-dir`."""

    run_dir: str = option(
        "folder of the shared page and the sockets", "/run/naproxy", check=is_absolute
    )
    data_dir: str = option("folder of the history", "/var/lib/naproxy", check=is_absolute)
    group: str = option(
        "group that may use the shared page: the group of Varnish", "varnish", high=32
    )
    control_group: str = option(
        "group that may control Naproxy: the web interface's", "naproxy", high=32
    )
    read_group: str = option(
        "group that may only read how servers and meters are: that of naproxy mqtt",
        "naproxy-read",
        high=32,
    )
    webui_user: str = option(
        "user of the web interface: of the programs that may control Naproxy, only its may fetch"
        " and restore backups, and get keys",
        "naproxy-webui",
        high=32,
    )
    realtime: bool = option("run ahead of other programs, so that waking is never late", True)
    platform: str = option(
        "naproxy: the box owns the whole machine, as with our image; none: it does not, and leaves"
        " the network and the clock alone",
        "none",
        choices=("none", "naproxy"),
    )
    system_dir: str = option(
        "folder of the settings for the machine's own network, clock and name, with platform"
        " naproxy",
        "/data/naproxy/system",
        check=is_absolute,
    )
    helper: str = option(
        "program that carries them out", "/usr/sbin/naproxy-system", check=is_absolute
    )
    rauc_conf: str = option(
        "RAUC's configuration: if it exists, images update this machine",
        "/etc/rauc/system.conf",
        check=is_absolute,
    )
    edge_dir: str = option(
        "folder of the certificates for HTTPS, and of what haproxy starts from",
        "/var/lib/naproxy-edge",
        check=is_absolute,
    )
    edge_user: str = option("user and group of haproxy's workers", "naproxy-edge", low=1, high=32)
    acme_hook: str = option(
        "program that uacme calls to show an issuer of certificates that a name is ours",
        "/usr/libexec/naproxy-acme-hook",
        check=is_absolute,
    )
    varnish_name: str = option(
        "Varnish's name (its -n), to empty the cache; empty: the usual one", "", high=255
    )


def argument(key: str) -> str:
    """Return what the argument for a key is called."""
    return f"--{key.replace('_', '-')}"
