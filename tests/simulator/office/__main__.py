"""`python -m tests.simulator.office`: an office to play with. docs/virtual-office.md tells more."""

import argparse
import dataclasses
import json
import signal
import sys
from pathlib import Path
from typing import Any

from tests.simulator.office import box, server
from tests.simulator.office.mainboard import Mainboard, Settings
from tests.simulator.office.namespace import OfficeError
from tests.simulator.office.office import Office, clean
from tests.simulator.office.server import Site


def main() -> int:
    """Return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulator.office", description=__doc__)
    commands = parser.add_subparsers(required=True)

    up = commands.add_parser("up", help="start an office and keep it until Ctrl-C")
    up.add_argument("--keep", type=Path, help="copy logs and configuration there at the end")
    up.add_argument("--box", action="store_true", help="start varnishd and the controller")
    up.add_argument("--every-path", action="store_true", help="the site answers any path")
    up.add_argument("--log", type=Path, help="the site answers the paths of this access log")
    for field in dataclasses.fields(Settings):
        if isinstance(field.default, float):
            option = f"--{field.name.replace('_', '-')}"
            up.add_argument(option, type=float, default=field.default, metavar="S")
    up.set_defaults(command=_up)

    board = commands.add_parser("board", help="talk to the virtual mainboard")
    board.add_argument("socket", type=Path, help="its control socket, as `up` prints it")
    board.add_argument("do", choices=("report", "suspend", "power_on", "configure"))
    board.add_argument("setting", nargs="*", help="NAME=VALUE, for configure; VALUE is JSON")
    board.set_defaults(command=_board)

    left = commands.add_parser("clean", help="remove what killed offices left behind")
    left.set_defaults(command=_clean)

    options = parser.parse_args()
    try:
        options.command(options)
    except (OfficeError, TimeoutError) as error:
        print(f"office: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
    return 0


def _up(options: argparse.Namespace) -> None:
    settings = Settings(sleep_s=options.sleep_s, wake_s=options.wake_s)
    site = Site(every_path=options.every_path, log=options.log)
    with Office(keep=options.keep, board=settings, site=site) as office:
        if options.box:
            office.box.start()
        print(f"office {office.name}, logs in {office.logs}\n\na shell in each machine:")
        for machine in (office.client, office.box, office.server):
            print(f"  nsenter --net={machine.path} bash")
        print(f"\nthe server: http://{server.ADDRESS}/ from the client, its power by")
        print(f"  python -m tests.simulator.office board {office.server.board.control} report")
        if options.box:
            print(f"\nthe box: http://{box.ADDRESS}/ from the client, its controller by")
            print(f"  naproxy status --socket {office.box.run_dir / 'control.sock'}")
        print("\nCtrl-C ends it.", flush=True)
        signal.pause()


def _board(options: argparse.Namespace) -> None:
    changes: dict[str, Any] = {}
    for setting in options.setting:
        name, _, value = setting.partition("=")
        try:
            changes[name] = json.loads(value)
        except ValueError:
            changes[name] = value
    try:
        answer = Mainboard(options.socket)(options.do, **changes)
    except OSError as error:
        raise OfficeError(f"{options.socket}: {error.strerror}") from error
    print(json.dumps(answer, indent=2))


def _clean(_: argparse.Namespace) -> None:
    for name in clean():
        print(f"removed {name}")


if __name__ == "__main__":
    sys.exit(main())
