"""The commands `naproxy certificate` and `naproxy edge`: HTTPS at the box."""

from __future__ import annotations

import argparse
import base64
import codecs
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from naproxy.api.command import CommandError, by_office_clock, call, socket_option
from naproxy.core import office_time
from naproxy.core.reason import stored_reason

_MOST_BYTES: Final = 1 << 18
_POLL_S: Final = 0.5


def add_parser(subparsers: Any) -> None:
    """Declare the subcommands."""
    common = socket_option()
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "certificate",
        help="send, look at, and remove certificates of HTTPS",
        description="Manage the certificates that the box shows to visitors over HTTPS.",
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    def add(name: str, help: str, *, id: bool = True) -> argparse.ArgumentParser:
        made: argparse.ArgumentParser = actions.add_parser(
            name, help=help, description=help[0].upper() + help[1:] + ".", parents=[common]
        )
        if id:
            made.add_argument("id", metavar="ID", help="the certificate's name, such as main")
        made.add_argument("--json", action="store_true", help="as JSON")
        return made

    add("list", "list them", id=False)
    add("show", "say all that is known of one")
    _add_files(add("put", "use a certificate and its key"))
    _add_files(add("check", "judge a certificate and its key; nothing is kept", id=False))
    remove = add("remove", "forget one and its key")
    remove.add_argument(
        "--force", action="store_true", help="also where visitors must come by HTTPS"
    )
    key = add("key", "say what to paste on the server that has it, so that the box may fetch it")
    key.add_argument(
        "--folder", required=True, metavar="PATH", help="where it is on the server, with its key"
    )
    renew = add("renew", "have one issued anew or fetched, and wait for it")
    renew.add_argument(
        "--staging", action="store_true", help="only try whether that would work; nothing changes"
    )
    edge = subparsers.add_parser(
        "edge",
        help="say whether HTTPS is served, and how",
        description="Say whether the box serves HTTPS, and what haproxy was told. Exit status 1 if"
        " it is wanted and not served.",
        parents=[common],
    )
    edge.add_argument("--config", action="store_true", help="print haproxy's configuration")
    edge.add_argument("--json", action="store_true", help="as JSON")


def _add_files(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--pem", type=Path, metavar="FILE", help="the certificate and its chain")
    what.add_argument("--pkcs12", type=Path, metavar="FILE", help="all in one .pfx or .p12 file")
    parser.add_argument(
        "--key", type=Path, metavar="FILE", help="the private key, if it is not in the other file"
    )
    parser.add_argument(
        "--password-file", type=Path, metavar="FILE", help="its first line is the key's password"
    )


def run(args: argparse.Namespace) -> int:
    """Run one of the subcommands."""
    if not args.json:
        by_office_clock(args.socket)
    return _edge(args) if args.command == "edge" else _certificate(args)


def _certificate(args: argparse.Namespace) -> int:
    told: Any
    if args.action == "key":
        told = call(args.socket, "certificate.key", {"folder": args.folder}, certificate=args.id)
        print(json.dumps(told, indent=2) if args.json else told["script"] or told["line"])
        return 0
    match args.action:
        case "put":
            told = call(args.socket, "certificate.put", _sent(args), certificate=args.id)
        case "check":
            told = call(args.socket, "certificate.check", _sent(args))
        case "remove":
            force = "true" if args.force else None
            told = call(args.socket, "certificate.remove", certificate=args.id, force=force)
        case "renew":
            told = _renewed(args)
        case "show":
            told = _one(call(args.socket, "certificates"), args.id)
        case _:
            told = call(args.socket, "certificates")
    if args.json:
        print(json.dumps(told, indent=2))
    else:
        listed = told.get("certificates", [told])
        print("\n".join(line for each in listed for line in describe(each)) or "none yet")
    return 0


def _renewed(args: argparse.Namespace) -> Any:
    job = call(
        args.socket, "certificate.renew.begin", {"staging": args.staging}, certificate=args.id
    )
    while job["state"] == "running":
        time.sleep(_POLL_S)
        job = call(args.socket, "certificate.renew", certificate=args.id)
    if job["error"]:
        raise CommandError(job["error"]["error"])
    return job["result"]


def _one(told: Mapping[str, Any], name: str) -> Any:
    found = next((each for each in told["certificates"] if each["id"] == name), None)
    if found is None:
        known = ", ".join(each["id"] for each in told["certificates"]) or "none yet"
        raise CommandError(f"there is no certificate {name}, only {known}")
    return found


def _sent(args: argparse.Namespace) -> dict[str, str]:
    sent = {}
    if args.pkcs12:
        sent["pkcs12"] = base64.b64encode(_read(args.pkcs12)).decode()
    else:
        sent["pem"] = _text(args.pem)
    if args.key:
        sent["key"] = _text(args.key)
    if args.password_file:
        sent["password"] = _text(args.password_file).partition("\n")[0].rstrip("\r")
    return sent


def _text(file: Path) -> str:
    """Return a file's text, DER as base64; other data is refused where PEM is read."""
    data = _read(file)
    if data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return data.decode("utf-16", errors="replace")
    if data[:1] == b"\x30" and not data.isascii():
        return base64.b64encode(data).decode()
    return data.removeprefix(codecs.BOM_UTF8).decode("ascii", errors="replace")


def _read(file: Path) -> bytes:
    with file.open("rb") as opened:
        data = opened.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise CommandError(f"{file}: larger than {_MOST_BYTES >> 10} KiB")
    return data


def describe(certificate: Mapping[str, Any]) -> list[str]:
    """Return one as lines for a terminal."""
    name = certificate.get("id")
    head = f"{name}: " if name else ""
    asked = certificate.get("asked")
    names = ", ".join(certificate["names"]) or "not readable"
    if asked is not None:
        names = ", ".join([*asked, "not there yet"])
    lines = [f"{head}{names}"]
    if certificate["not_after_s"] is not None:
        until = office_time.day(certificate["not_after_s"])
        kind = f"{certificate['kind'].upper()} {certificate['bits']}"
        lines.append(f"  {kind}, issued by {certificate['issuer']}, until {until}")
        lines.append(f"  used by {', '.join(certificate['in_use_by']) or 'no server'}")
    if certificate.get("next_try_s") is not None:
        at = office_time.shown(certificate["next_try_s"], "%Y-%m-%d %H:%M")
        verb = "looks for another" if certificate["source"] == "server" else "has it issued anew"
        lines.append(f"  the box {verb} at {at}" if asked is None else f"  next try: {at}")
    if certificate.get("problem"):
        lines.append(f"  PROBLEM: {stored_reason(certificate['problem'])}")
    return lines + [f"  note: {stored_reason(each)}" for each in certificate["notes"]]


def _edge(args: argparse.Namespace) -> int:
    by_office_clock(args.socket)
    told = call(args.socket, "edge")
    if args.json:
        print(json.dumps(told, indent=2))
    elif args.config:
        print(told["configuration"], end="")
    else:
        print("\n".join(_describe_edge(told)))
    if told["wanted"] and told["problem"] and args.config:
        print(f"PROBLEM: {stored_reason(told['problem'])}", file=sys.stderr)
    return 1 if told["wanted"] and told["problem"] else 0


def _describe_server(told: Mapping[str, Any]) -> str:
    said = f"server {told['server']} is asked by HTTPS"
    return f"PROBLEM: {said}: {stored_reason(told['problem'])}" if told["problem"] else said


def _describe_edge(told: Mapping[str, Any]) -> list[str]:
    if not told["wanted"]:
        return ['HTTPS is not served: no server has mode = "box" or "through" in [server.https]']
    lines = ["HTTPS is not served"]
    if told["running"]:
        does = "HTTPS is served" if told["serves"] else "HTTPS to servers is done"
        if told["passes"] and not told["serves"]:
            does = "HTTPS is passed on"
        lines = [f"{does} by haproxy {told['version']}"]
        lines.append(f"{told['connections']} connections are open")
    if told["applied_s"] is not None:
        since = office_time.stamp(told["applied_s"])
        lines.append(f"its configuration is of {since}")
    if told["uncovered"]:
        lines.append(f"no certificate for {', '.join(told['uncovered'])}: browsers warn")
    if told["passes"]:
        lines.append(f"passed on unopened: {', '.join(told['passes'])}")
    lines += [_describe_server(each) for each in told["to_server"]]
    lines += [str(stored_reason(each)) for each in told["ending"]]
    return lines + ([f"PROBLEM: {stored_reason(told['problem'])}"] if told["problem"] else [])
