"""`naproxy fleet`: the configuration of rauc-hawkbit-updater, from ours.

That program asks a hawkBit server for updates and has RAUC write them (docs/update.md).
"""

from __future__ import annotations

import argparse
import configparser
import os
import socket
from configparser import ConfigParser
from pathlib import Path
from typing import Any, Final

from naproxy import __version__
from naproxy.api.command import (
    CommandError,
    add_config_option,
    installation_options,
    installed,
)
from naproxy.config.document import Config
from naproxy.config.worked import Worked
from naproxy.core.reason import Reason
from naproxy.core.schema import ConfigError

DOWNLOAD: Final = "/data/fleet/fleet.raucb"
TENANT: Final = "DEFAULT"
"""hawkBit's own, the only one unless it is set up for several."""


def add_parser(subparsers: Any) -> None:
    """Declare the subcommand."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "fleet",
        help="write the configuration of rauc-hawkbit-updater",
        description="Write FILE, the configuration of rauc-hawkbit-updater, from [fleet] in the"
        " configuration. Exit status 1 if no fleet is configured.",
        parents=[installation_options("rauc_conf")],
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="only root can read it")
    add_config_option(parser)


def run(args: argparse.Namespace) -> int:
    """Write it; CommandError with the reason if there is nothing to write."""
    try:
        found = Worked(args.config).choose().found
        ours = found.config
        if not ours.fleet.url:
            raise CommandError(str(Reason("update.no_fleet")))
        kind = board(Path(installed(args, found).rauc_conf))
        _write(args.file, rendered(ours, socket.gethostname(), kind))
    except ConfigError as error:
        raise CommandError(f"{args.config}: {error}") from None
    return 0


def rendered(ours: Config, host: str, kind: str) -> str:
    """Return the text of the file; `host` is the box's name, `kind` RAUC's `compatible`."""
    fleet = ours.fleet
    token = {"target": "auth_token", "gateway": "gateway_token"}[fleet.token_of]
    client = {
        "hawkbit_server": fleet.url[len("https://") :].rstrip("/"),
        "ssl": "true",
        "ssl_verify": "true",
        "tenant_id": TENANT,
        "target_name": host,
        token: fleet.token,
        "bundle_download_location": DOWNLOAD,
        "resume_downloads": "true",
        "post_update_reboot": str(fleet.restart).lower(),
    }
    device = {"board": kind, "version": __version__}
    return "".join(
        f"[{name}]\n" + "".join(f"{key}={value}\n" for key, value in keys.items()) + "\n"
        for name, keys in (("client", client), ("device", device))
    )


def board(rauc_conf: Path) -> str:
    """Return for which board this image is; empty where RAUC is not configured. CommandError."""
    parsed = ConfigParser(interpolation=None)
    try:
        parsed.read(rauc_conf)
    except (configparser.Error, UnicodeDecodeError) as error:
        raise CommandError(f"{rauc_conf}: {error}") from None
    return parsed.get("system", "compatible", fallback="")


def _write(file: Path, text: str) -> None:
    file.unlink(missing_ok=True)
    opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(opened, "w") as out:
        out.write(text)
