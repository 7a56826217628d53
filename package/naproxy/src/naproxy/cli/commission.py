"""The commands `naproxy commission`, `naproxy live`, `naproxy arm` and `naproxy leave`."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping
from typing import Any, Final

from naproxy.api import powers
from naproxy.api.command import CommandError, by_office_clock, call, duration, socket_option
from naproxy.cli.commands import describe, server_named
from naproxy.core.reason import stored_reason
from naproxy.server.commissioning import Plan

_POLL_S: Final = 0.2
_DEFAULT: Final = Plan()


def add_parser(subparsers: Any) -> None:
    """Declare the subcommands."""
    commission: argparse.ArgumentParser = subparsers.add_parser(
        "commission",
        help="prove that a server wakes, and measure it, before it may sleep by itself",
        description="Put a server to sleep and wake it, several times, and measure that. Naproxy"
        " puts only a server that woke every time to sleep by itself. Exit status 0: it woke every"
        " time."
        " Ctrl-C cancels it; the server is awake in the end.",
        parents=[socket_option()],
    )
    commission.add_argument("id", metavar="SERVER", help="the server")
    commission.add_argument(
        "--cycles",
        type=int,
        default=_DEFAULT.cycles,
        metavar="N",
        help="how many sleeps and wakes (default: %(default)s; at least 4 to fit the power)",
    )
    for state, default_s in (("awake", _DEFAULT.awake_s), ("asleep", _DEFAULT.asleep_s)):
        commission.add_argument(
            f"--{state}",
            type=duration,
            default=default_s,
            metavar="TIME",
            help=f"shortest time {state} in a cycle; the longest is five times that"
            " (default: %(default)g s)",
        )
    commission.add_argument("--no-wait", action="store_true", help="start it and do not wait")
    commission.add_argument("--cancel", action="store_true", help="cancel the running one")
    commission.add_argument(
        "--report", action="store_true", help="only report on the running one, or the last result"
    )
    commission.add_argument(
        "--use",
        action="store_true",
        help="use the powers that it measured: write them to [server.power]",
    )
    commission.add_argument(
        "--replace", action="store_true", help="with --use: replace powers that are there already"
    )
    commission.add_argument("--json", action="store_true", help="as JSON, with everything")
    live: argparse.ArgumentParser = subparsers.add_parser(
        "live",
        help="confirm that a server's visitors come through the box",
        description="Confirm that the router or DNS sends a server's visitors to the box. The box"
        " notices the first visitor by itself; use this if it cannot wait for one. Visitors who"
        " still go directly to the server get no answer while it sleeps.",
        parents=[socket_option()],
    )
    live.add_argument("id", metavar="SERVER", help="the server")
    arm: argparse.ArgumentParser = subparsers.add_parser(
        "arm",
        help="let a server sleep by itself again after it failed to wake",
        description="Let a server sleep by itself again after a failed wake has kept it awake."
        " Fix the cause first; the server must have passed its commissioning.",
        parents=[socket_option()],
    )
    arm.add_argument("id", metavar="SERVER", help="the server")
    leave: argparse.ArgumentParser = subparsers.add_parser(
        "leave",
        help="let a server that puts itself to sleep decide when",
        description="Let a server that puts itself to sleep decide when. The box no longer orders"
        " it to sleep, but still wakes it and measures. The settings of its way to sleep are"
        " deleted.",
        parents=[socket_option()],
    )
    leave.add_argument("id", metavar="SERVER", help="the server")


def run(args: argparse.Namespace) -> int:
    """Run one of the subcommands."""
    return _commission(args) if args.command == "commission" else _tell(args)


def _call(args: argparse.Namespace, what: str, body: Any = None) -> Any:
    return call(args.socket, f"server.{what}", body, server=args.id)


def _tell(args: argparse.Namespace) -> int:
    """Have one of the others done, and say what the server does now."""
    server = _call(args, args.command)
    by_office_clock(args.socket)
    print("\n".join(describe(server, time.time())))
    return 0


def _commission(args: argparse.Namespace) -> int:
    if args.replace and not args.use:
        raise CommandError("--replace works only with --use")
    if args.use and (args.cancel or args.no_wait):
        raise CommandError("--use needs a commissioning that has ended: add --report")
    if args.cancel:
        report = _call(args, "cancel")
    elif args.report:
        report = _call(args, "commissioned")
    else:
        plan = {"cycles": args.cycles, "awake_s": args.awake, "asleep_s": args.asleep}
        if _status(args)["live"]["waits"]:
            print(to_direct_visitors(Plan(**plan)), file=sys.stderr)
        report = _call(args, "commission", plan)
        if not args.no_wait:
            report = _watch(args, report)
    _show(args, report)
    if report["ended"] and report["fit"]:
        power = _use(args, report) if args.use else _call(args, "power")
        if not args.json:
            print("\n".join(reckoned(args.id, power)))
    elif args.use:
        raise CommandError(f"there is no power to use: {_no_fit(report) or 'it goes on'}")
    return 0 if report["passed"] or args.no_wait or args.cancel or args.report else 1


def _show(args: argparse.Namespace, report: Mapping[str, Any]) -> None:
    if args.json:
        print(json.dumps(report, indent=2))
        return
    print("\n".join(table(report)))
    if report["passed"] and (why := _status(args)["not_armed"]):
        print(f"not armed yet: {stored_reason(why)}")


def _status(args: argparse.Namespace) -> Mapping[str, Any]:
    return server_named(call(args.socket, "status"), args.id)


def to_direct_visitors(plan: Plan) -> str:
    """Say what a test does to visitors who go directly to the server."""
    asleep_s = [plan.whiles_s(number)[1] for number in range(1, plan.cycles + 1)]
    return (
        "No visitor has come through the box yet. Visitors who go directly to the server get no"
        f" answer while it sleeps: {plan.cycles} times, for up to {max(asleep_s):g} s,"
        f" {sum(asleep_s):g} s in all, and while it falls asleep and wakes."
    )


def _use(args: argparse.Namespace, report: Mapping[str, Any]) -> dict[str, Any]:
    """Have what was measured written; CommandError with why it is not."""
    if not report["passed"]:
        raise CommandError("the server did not pass, so its powers are not used")
    try:
        power: dict[str, Any]
        power = _call(args, "use_power", {"replace": args.replace})
    except CommandError as error:
        if error.where != "replace":
            raise
        raise CommandError(f"{error.words} (--report --use --replace)") from None
    return power


def reckoned(server: str, power: Mapping[str, Any]) -> list[str]:
    """Return what the rule for sleeping reckons with, and how to have it use what was measured."""
    lines = [f"reckoned with: {powers.words(power['in_force'])}"]
    if power["measured"] is None:
        lines.append("what was measured is too uncertain to use")
    elif power["measured"] != power["in_force"]:
        replace = " --replace" if power["given"] else ""
        lines.append(
            f"to reckon with what was measured: naproxy commission {server} --report --use{replace}"
        )
    return lines


def _watch(args: argparse.Namespace, report: dict[str, Any]) -> dict[str, Any]:
    """Show progress until it has ended; an interrupt cancels it."""
    live = _Live(quiet=args.json)
    while not report["ended"]:
        live.show(report)
        try:
            time.sleep(_POLL_S)
            report = _call(args, "commissioned")
        except KeyboardInterrupt:
            report = _call(args, "cancel")
    live.show(report)
    return report


class _Live:
    """One line that changes on a terminal, and one that stays for each cycle."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._terminal = sys.stdout.isatty()
        self._cycles = 0
        self._notes = 0

    def show(self, report: Mapping[str, Any]) -> None:
        if self._quiet:
            return
        for note in report["notes"][self._notes :]:
            self._stay(str(stored_reason(note)))
        self._notes = len(report["notes"])
        for cycle in report["done"][self._cycles :]:
            self._stay(
                f"cycle {cycle['number']} of {report['cycles']}: asleep after"
                f" {cycle['fell_s']:.1f} s, up after {cycle['rose_s']:.2f} s{_power(cycle)}"
            )
        self._cycles = len(report["done"])
        if self._terminal and not report["ended"]:
            why = f" ({stored_reason(report['reason'])})" if report["reason"] else ""
            now = f"{report['phase']} for {report['phase_s']:.0f} s{why}"
            print(f"\r\x1b[Kcycle {report['cycle']} of {report['cycles']}: {now}", end="")
            sys.stdout.flush()

    def _stay(self, line: str) -> None:
        print(f"\r\x1b[K{line}" if self._terminal else line, flush=True)


def _power(cycle: Mapping[str, Any]) -> str:
    asleep_w, awake_w = cycle["asleep_w"], cycle["awake_w"]
    if asleep_w is None or awake_w is None:
        return ""
    return f"; {asleep_w:.1f} W asleep, {awake_w:.1f} W awake"


_TIMES: Final = (
    ("fell_ping_s", "to fall asleep, by ping"),
    ("fell_net_s", "  less a login's own time"),
    ("fell_s", "to fall asleep, by the probe"),
    ("rose_ping_s", "to wake, by ping"),
    ("rose_s", "to wake, by the probe"),
)
_POWERS: Final = (
    ("on_w", "P_on", "W"),
    ("off_w", "P_off", "W"),
    ("switch_j", "E_switch", "J"),
)


def table(report: Mapping[str, Any]) -> list[str]:
    """Return the results as lines for a terminal."""
    lines = []
    if report["times"]:
        lines.append(f"{'seconds':<30}{'p50':>8}{'p95':>8}{'worst':>8}")
    for name, words in _TIMES:
        at = report["times"].get(name)
        if at:
            lines.append(f"{words:<30}{at['p50']:>8.2f}{at['p95']:>8.2f}{at['worst']:>8.2f}")
    wake = report.get("wake") or {}
    lines += stage_lines(wake)
    if report["fit"]:
        share = f"{100 * report['fit']['confidence']:.0f} % interval"
        lines.append(f"{'power':<30}{'fit':>8}  {share}")
        for name, words, unit in _POWERS:
            fit = report["fit"][name]
            lines.append(
                f"{words:<30}{fit['value']:>8.1f}  {fit['low']:.1f} to {fit['high']:.1f} {unit}"
            )
    elif report["done"]:
        lines.append(f"power not fitted: {_no_fit(report)}")
    what = "armed" if report["armed"] else "passed"
    if not report["passed"]:
        what = f"not armed: {report['phase']}"
    reason = report["reason"]
    lines.append(f"{what}: {stored_reason(reason)}" if reason else what)
    return lines + advice_lines(wake)


_STAGES: Final = {
    "power": "packet to power",
    "link": "to the link of the cable",
    "network": "to an answer of the network",
    "port": "to the open port",
    "answer": "to the proper answer",
}


def stage_lines(wake: Mapping[str, Any]) -> list[str]:
    """Return where the seconds of the wakes went, now and before."""
    now, before = (
        {each["stage"]: each["took_s"] for each in wake.get(name, ())}
        for name in ("stages", "before")
    )
    if not now:
        return []
    lines = [f"{'the wake by stages, seconds':<30}{'now':>8}{'before' if before else '':>8}"]
    rows = [(name, now.get(key), before.get(key)) for key, name in _STAGES.items()]
    rows.append(("in all", sum(now.values()), sum(before.values()) if before else None))
    for words, *took in rows:
        if took != [None, None]:
            cells = "".join(f"{'' if s is None else format(s, '.2f'):>8}" for s in took)
            lines.append(f"{words:<30}{cells}".rstrip())
    return lines


def advice_lines(wake: Mapping[str, Any]) -> list[str]:
    """Return what can be gained of a wake, each with the commands for the server's shell."""
    lines = []
    for advice in wake.get("advice", ()):
        lines.append(f"to gain: {stored_reason(advice['reason'])}")
        lines += [f"    {command}" for command in advice["commands"]]
    return lines


def _no_fit(report: Mapping[str, Any]) -> str:
    return str(stored_reason(report["no_fit"])) if report["no_fit"] else ""
