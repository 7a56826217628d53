"""`naproxy acme-hook`: what uacme calls for each challenge of an issuer of certificates.

It shows the box's answer (HTTP-01), or has the office's own program write into the DNS (DNS-01).
What it cannot do it declines by its exit status, and uacme tries the next.
"""

from __future__ import annotations

import argparse
import os
import subprocess
from typing import Any

from naproxy.api.client import DEFAULT_SOCKET
from naproxy.api.command import CommandError, call
from naproxy.core.processes import words
from naproxy.core.reason import Reason, WrongError
from naproxy.drivers.own_command import roots


def add_parser(subparsers: Any) -> None:
    """Declare the subcommand."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "acme-hook",
        help="answer a challenge, as uacme asks for it",
        description="Answer a challenge, as uacme asks for it; nobody else need call it.",
    )
    parser.add_argument("method", choices=("begin", "done", "failed"))
    parser.add_argument("type", help="such as http-01")
    parser.add_argument("ident", help="the name")
    # Either may begin with a hyphen, which is none of an option: see `run`.
    parser.add_argument("token")
    parser.add_argument("auth")


def run(args: argparse.Namespace) -> int:
    """Do as uacme says; 1: declined."""
    if args.type != os.environ.get("NAPROXY_CHALLENGE"):
        return 1
    if args.type == "dns-01":
        return _own_program(args)
    path = os.environ.get("NAPROXY_SOCKET", DEFAULT_SOCKET)
    if args.method == "begin":
        call(path, "challenge.put", {"answer": args.auth}, token=args.token)
    else:
        call(path, "challenge.remove", token=args.token)
    return 0


def _own_program(args: argparse.Namespace) -> int:
    """Run the office's, with the same arguments as uacme runs us."""
    try:
        file = roots(os.environ.get("NAPROXY_HOOK", ""))
        given = (args.method, args.type, args.ident, args.token, args.auth)
        done = subprocess.run([file, *given], capture_output=True, check=False)
    except WrongError as error:
        raise CommandError(str(error)) from None
    except OSError as error:
        raise CommandError(f"{file}: {error.strerror}") from None
    if done.returncode:
        said = words(done.stderr or done.stdout)
        raise CommandError(said or str(Reason("driver.exit_status", status=done.returncode)))
    return 0
