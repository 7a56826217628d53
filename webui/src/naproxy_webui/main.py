"""The command `naproxy-webui`: waitress, behind lighttpd on the box."""

from __future__ import annotations

import argparse
from pathlib import Path

from naproxy_webui.settings import Settings

DEFAULTS = Settings()


def parser() -> argparse.ArgumentParser:
    """Return what the command line may have."""
    made = argparse.ArgumentParser(prog="naproxy-webui", description=__doc__)
    made.add_argument("--data-dir", type=Path, default=DEFAULTS.data_dir, help="the controller's")
    made.add_argument("--state-dir", type=Path, default=DEFAULTS.state_dir, help="users, tokens")
    made.add_argument("--run-dir", type=Path, default=DEFAULTS.run_dir, help="sessions")
    made.add_argument("--socket", default=DEFAULTS.control_socket, help="the controller's socket")
    made.add_argument(
        "--name", action="append", default=[], help="a name that the box may be called by"
    )
    made.add_argument("--listen", default="127.0.0.1:8081", help="HOST:PORT, or unix:PATH")
    return made


def main(arguments: list[str] | None = None) -> int:
    """Serve until a signal."""
    args = parser().parse_args(arguments)
    from waitress import serve  # type: ignore[import-untyped]  # noqa: PLC0415 - `--help` needs none of it

    from naproxy_webui.app import create_app  # noqa: PLC0415

    settings = Settings(
        data_dir=args.data_dir,
        state_dir=args.state_dir,
        run_dir=args.run_dir,
        control_socket=args.socket,
        names=tuple(args.name),
    )
    where = (
        {"unix_socket": args.listen.removeprefix("unix:"), "unix_socket_perms": "660"}
        if args.listen.startswith("unix:")
        else {"listen": args.listen}
    )
    serve(create_app(settings), threads=4, ident=None, **where)
    return 0
