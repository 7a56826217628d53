"""A server's status in the control API. Reads, and changes nothing."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any, Final

from naproxy.controller.deciding import Decider
from naproxy.controller.executing import Executor
from naproxy.controller.supervise import Supervisor
from naproxy.core import page_h
from naproxy.core.page_h import Cause, Outcome
from naproxy.core.reason import Reason, plain, together
from naproxy.core.state import STATES, Klass
from naproxy.server.machine import Machine
from naproxy.shm.page import read_u64

_APPOINTMENTS: Final = 3


def status(executor: Executor, decider: Decider, supervisor: Supervisor) -> dict[str, Any]:
    """Return it as JSON types."""
    now_s, wall_s = time.monotonic(), time.time()
    server, machine, decision = executor.server, executor.machine, decider.decision
    eta_s, check_s = machine.eta_s(now_s), decider.next_check_s
    kept_awake = machine.kept_awake(now_s)
    supervised = supervisor.status()
    return {
        "id": server.id,
        "state": STATES[machine.state],
        "since_s": wall_s - (now_s - machine.since_s),
        "reason": _reason(machine).plain(),
        "mode": "awake" if kept_awake else "auto",
        "mode_until_s": decider.mode_until_s if kept_awake else None,
        "held": int(executor.record.held_now) + executor.sharing.through.held,
        "eta_s": None if eta_s is None else round(eta_s, 1),
        "inhibitors": plain(decider.inhibitors()),
        "appointments": [
            {"t_s": each.t_s, "name": each.name}
            for each in executor.appointments.next(wall_s)[:_APPOINTMENTS]
        ],
        "services": _services(executor),
        "proper_status": machine.proper or None,
        "moved": asdict(moved) if (moved := executor.moved) else None,
        "alert": machine.alert.plain() if machine.alert else None,
        "wake_s": machine.wake.value_s if machine.wake.count else None,
        "sleep_s": machine.fall.value_s if machine.fall.count else None,
        "rungs": machine.ladder.status(),
        **supervised,
        "https": {**supervised["https"], "through": executor.sharing.through.status()},
        "decision": {
            "policy": server.policy.name,
            "sleep": decision.sleep,
            "reason": decider.reason(now_s).plain(),
            "next_check_s": None if check_s is None else check_s - now_s + wall_s,
        },
        "over_share": executor.sharing.status(),
        "counters": _counters(executor.record),
    }


def _reason(machine: Machine) -> Reason:
    return together(machine.reason, waits) if (waits := machine.waits_for) else machine.reason


def _services(executor: Executor) -> dict[str, Any]:
    """Return what else it does; `told`: there, not only seen from here.

    `looks`: its way to sleep can look who is connected, `flows`: to ports of UDP, too.
    """
    known, office = executor.services, executor.office
    return {
        "told": known.told is not None,
        "looks": executor.server.sleep.looks,
        "flows": known.all.flows,
        "listens": known.all.text(),
        "list": [each.plain() for each in office.services(known.all.listeners)],
    }


def _counters(record: page_h.Server) -> dict[str, Any]:
    requests = {
        klass: {outcome: _item(record.requests[klass], outcome) for outcome in Outcome}
        for klass in Klass
    }
    delays = [_item(record.delays, bucket) for bucket in range(page_h.DELAYS)]
    # A sum, which the page leaves out, see naproxy_page.h.
    asked = [requests[klass] for klass in Klass if not klass.robot]
    total = sum(n for o in asked for outcome, n in o.items() if outcome not in page_h.APART)
    total -= read_u64(lambda: record.spent)
    delays[0] = total - sum(delays[1:]) - sum(o[Outcome.WAITING_PAGE] for o in asked)
    return {
        "requests": {
            klass.name.lower(): {o.name.lower(): n for o, n in outcomes.items()}
            for klass, outcomes in requests.items()
        },
        "wakes": {cause.name.lower(): _item(record.wakes, cause) for cause in Cause},
        "delays": delays,
        "total": total,
        "delayed": read_u64(lambda: record.delayed),
        "magic_packets": read_u64(lambda: record.magic_packets),
        "fetching_now": int(record.fetching_now),
        "piping_now": int(record.piping_now),
    }


def _item(counters: Any, index: int) -> int:
    return read_u64(lambda: int(counters[index]))
