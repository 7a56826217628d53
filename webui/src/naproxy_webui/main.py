"""The web interface: `naproxy-webui`, waitress, behind lighttpd on the box."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from naproxy_webui.options import Settings

if TYPE_CHECKING:
    from flask import Flask

_M_ARENA_MAX: Final = -8
_M_MMAP_THRESHOLD: Final = -3
_M_TRIM_THRESHOLD: Final = -1
_LARGE_BYTES: Final = 256 << 10
DEFAULTS: Final = Settings()
SERVER: Final[dict[str, Any]] = {
    "threads": 4,
    "ident": None,
    "connection_limit": 60,
    "channel_timeout": 30,
    "cleanup_interval": 5,
    "max_request_header_size": 16384,
    # A little more than the application takes, so that its own words say what is too large.
    "max_request_body_size": 2 << 20,
    "inbuf_overflow": 64 << 10,
    "outbuf_overflow": 256 << 10,
}
"""waitress: limits on slow clients and large requests."""


def parser() -> argparse.ArgumentParser:
    """Return what the command line may have."""
    made = argparse.ArgumentParser(prog="naproxy-webui", description=__doc__)
    made.add_argument(
        "--listen",
        default="127.0.0.1:8081",
        metavar="WHERE",
        help="HOST:PORT, or unix:PATH for lighttpd, which then names the client"
        " (default: %(default)s)",
    )
    for option, default, words in (
        ("--data-dir", DEFAULTS.data_dir, "the controller's folder, for the history"),
        ("--state-dir", DEFAULTS.state_dir, "our folder for users, tokens, the claim code"),
        ("--run-dir", DEFAULTS.run_dir, "our folder for sessions"),
        ("--fingerprint", DEFAULTS.fingerprint, "file that naproxy-certificate writes"),
    ):
        made.add_argument(
            option, type=Path, default=default, metavar="PATH", help=f"{words} (%(default)s)"
        )
    made.add_argument(
        "--socket", default=DEFAULTS.control_socket, metavar="PATH", help="the controller's socket"
    )
    made.add_argument(
        "--name",
        action="append",
        default=[],
        metavar="NAME",
        help="a further name or address of the box; may be repeated",
    )
    made.add_argument(
        "--announce",
        type=Path,
        metavar="FILE",
        help="also write claim code and fingerprint there, such as /dev/console",
    )
    made.add_argument(
        "--forget-users",
        action="store_true",
        help="remove all users and tokens, so that somebody can claim the box again; then end",
    )
    made.add_argument(
        "--forget-second-factor",
        metavar="USER",
        help="turn this user's two-factor login off, end the user's sessions; then end",
    )
    return made


def main(arguments: list[str] | None = None) -> int:
    """Serve until a signal."""
    args = parser().parse_args(arguments)
    _spare_memory()
    settings = Settings(
        data_dir=args.data_dir,
        state_dir=args.state_dir,
        run_dir=args.run_dir,
        control_socket=args.socket,
        names=tuple(args.name),
        fingerprint=args.fingerprint,
    )
    from naproxy_webui.app import create_app  # noqa: PLC0415 - `--help` needs none of it

    app = create_app(settings)
    if args.forget_second_factor is not None:
        return _forget_second_factor(app, args.forget_second_factor)
    if args.forget_users:
        app.extensions["naproxy_keys"].forget_all()
    announce(list(words(app, settings)), args.announce)
    if not args.forget_users:
        _serve(app, args.listen)
    return 0


def _forget_second_factor(app: Flask, name: str) -> int:
    from naproxy_webui.auth.users import key  # noqa: PLC0415 - `--help` needs none of it

    keys = app.extensions["naproxy_keys"]
    user = next((each for each in keys.users.all() if key(each.name) == key(name)), None)
    if user is None or not keys.seconds.turn_off(user):
        why = "no user has that name" if user is None else "two-factor login is not on"
        print(f"naproxy-webui: {name}: {why}", file=sys.stderr)
        return 1
    keys.sessions.end_all(user.id)
    print(f"naproxy-webui: {user.name} now signs in with the password only")
    return 0


def words(app: Flask, settings: Settings) -> Iterator[str]:
    """Yield what who stands before the box should know."""
    from naproxy_webui.auth import claim  # noqa: PLC0415 - as above

    if not app.extensions["naproxy_keys"].users.exist():
        yield f"naproxy-webui: the claim code of this box is {claim.code(settings.state_dir)}"
    if settings.fingerprint.is_file():
        known = settings.fingerprint.read_text().strip()
        yield f"naproxy-webui: the fingerprint of its certificate (SHA-256) is {known}"


def announce(lines: list[str], file: Path | None) -> None:
    """Write to standard error, where the log takes it up, and to the console if there is one."""
    text = "".join(f"{line}\n" for line in lines)
    print(text, end="", file=sys.stderr, flush=True)
    if file is None:
        return
    try:
        with file.open("a") as out:
            out.write(text)
    except OSError as error:
        print(f"naproxy-webui: {file}: {error.strerror}", file=sys.stderr)


def _spare_memory() -> None:
    """Tell glibc's malloc to keep little.

    One pool for all threads: few wait for it. And large pieces go back to the system when they
    are free: left alone, malloc keeps the 16 MiB of the second password that it checks.
    """
    import ctypes  # noqa: PLC0415 - as above

    with suppress(AttributeError):  # another C library does without
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_ARENA_MAX, 1)
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _LARGE_BYTES)


def _serve(app: Flask, where: str) -> None:
    from waitress import serve  # type: ignore[import-untyped]  # noqa: PLC0415 - as above

    kind, _, path = where.partition(":")
    if kind == "unix":
        Path(path).unlink(missing_ok=True)
        # lighttpd appends the address to X-Forwarded-For: the last one is its own word.
        serve(
            app,
            unix_socket=path,
            unix_socket_perms="660",
            trusted_proxy="localhost",  # waitress's name for the peer on a unix socket
            trusted_proxy_count=1,
            trusted_proxy_headers={"x-forwarded-for", "x-forwarded-proto"},
            **SERVER,
        )
    else:
        serve(app, listen=where, **SERVER)
