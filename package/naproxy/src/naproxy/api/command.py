"""What commands share that ask the controller or read its configuration."""

from __future__ import annotations

import argparse
import contextlib
import re
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from naproxy.api.client import DEFAULT_SOCKET, NoAnswerError, ask
from naproxy.api.table import ROUTES
from naproxy.config import document as config
from naproxy.config.installation import Installation, argument
from naproxy.core import office_time
from naproxy.core.reason import WrongError

_UNITS_S: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class CommandError(Exception):
    """What went wrong, in words for the terminal; `where` is the field that it is about."""

    def __init__(self, words: str, where: str | None = None) -> None:
        super().__init__(f"{where}: {words}" if where else words)
        self.words = words
        self.where = where


def call(path: str, name: str, body: Mapping[str, Any] | None = None, /, **asked: object) -> Any:
    """Ask a route of the controller; CommandError in its words if it says no or does not answer.

    `asked` are the variables of the route's path, and its query.
    """
    route = ROUTES[name]
    if route.body is not None and body is None:
        body = {}
    try:
        target = route.target(**asked)
    except UnicodeEncodeError as error:
        raise CommandError(f"{error.object!a} is not valid UTF-8") from None
    try:
        answer = ask(path, route.method, target, body, timeout_s=route.timeout_s)
    except NoAnswerError as error:
        raise CommandError(str(error)) from None
    if not answer.good:
        raise CommandError(
            str(answer.body.get("error", f"status {answer.status}")), answer.body.get("where")
        )
    if name == "status":
        _follow(answer.body["box"].get("time_zone", ""))
    return answer.body


def by_office_clock(path: str) -> None:
    """Tell times by the office's clock from now on, as the controller knows it; CommandError."""
    call(path, "status")


def _follow(time_zone: str) -> None:
    # A controller in another place may know zones that are not here.
    with contextlib.suppress(WrongError):
        office_time.follow(time_zone)


def socket_option(default: str = DEFAULT_SOCKET) -> argparse.ArgumentParser:
    """Return the option that all commands have which talk to the controller."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--socket",
        default=default,
        metavar="PATH",
        help="the controller's socket (default: %(default)s)",
    )
    return common


def add_config_option(parser: argparse.ArgumentParser) -> None:
    """Declare the option that all commands have which read the configuration themselves."""
    parser.add_argument(
        "--config",
        type=Path,
        default=Path(config.DEFAULT_FILE),
        metavar="FILE",
        help="configuration file (default: %(default)s)",
    )


def installation_options(*keys: str) -> argparse.ArgumentParser:
    """Return the options that say how Naproxy is installed, those named or all."""
    common = argparse.ArgumentParser(add_help=False)
    for field in fields(Installation):
        if keys and field.name not in keys:
            continue
        help = f"{field.metadata['help']} (default: {field.default})"
        if isinstance(field.default, bool):
            action = argparse.BooleanOptionalAction
            common.add_argument(argument(field.name), action=action, help=help)
        else:
            choices = field.metadata["choices"] or None
            word = None if choices else field.name.rpartition("_")[2].upper()
            common.add_argument(argument(field.name), choices=choices, metavar=word, help=help)
    return common


def installed(args: argparse.Namespace, found: config.Found) -> Installation:
    """Return how Naproxy is installed: what an argument does not say, an older file may."""
    names = [field.name for field in fields(Installation)]
    given = {name: getattr(args, name) for name in names if getattr(args, name, None) is not None}
    return Installation(**{**found.arguments, **given})


def duration(text: str) -> float:
    """Read 90, 90s, 5m, 2h or 7d as seconds."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 90s, 5m, 2h or 7d")
    return float(found[1]) * _UNITS_S[found[2] or "s"]


def above_0(text: str) -> float:
    """Read a number above 0."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < 1e15:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return number
