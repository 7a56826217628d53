"""How full Varnish's cache is, and what it let go in the last day."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from naproxy.box import fill
from naproxy.box.fill import Counted, Fill, Ledger
from naproxy.core.processes import Printed
from naproxy.history.write.journal import Journal

from tests.patience import wait_for

HOUR_S = 3600.0
SEEN = Counted(3600, 100 << 20, 28 << 20, 5000, 40, 900, 0)


def said(counted: Counted, **more: Any) -> bytes:
    counters = {name: {"value": getattr(counted, key)} for key, name in fill._NAMES.items()}
    return json.dumps({"version": 1, "counters": counters | more}).encode()


def test_what_varnish_counts_is_read() -> None:
    assert fill.read(said(SEEN)) == SEEN
    old = json.loads(said(SEEN))["counters"] | {"timestamp": "2020-01-01"}
    assert fill.read(json.dumps(old).encode()) == SEEN


def test_what_it_does_not_count_is_nothing() -> None:
    for text in (
        b"",
        b"Could not get hold of varnishd",
        b"[]",
        b"null",
        b"{}",
        b'{"counters": 7}',
        b"[" * 9999,
        said(SEEN, **{"MAIN.uptime": {"value": "long"}}),
        said(SEEN, **{"MAIN.uptime": None}),
    ):
        assert fill.read(text) is None, text


def gone(ledger: Ledger) -> tuple[int, float]:
    told = ledger.told()
    assert told
    return told["pushed_out"], told["seen_s"]


def test_what_went_is_counted_once_over_restarts_of_both() -> None:
    ledger = Ledger()
    assert ledger.told() is None
    assert ledger.add(10 * HOUR_S, SEEN)
    assert gone(ledger) == (40, 3600)
    assert not ledger.add(10.1 * HOUR_S, replace(SEEN, uptime_s=3960, pushed_out=45))
    ledger = Ledger(json.loads(json.dumps(ledger.kept())))
    assert ledger.add(11 * HOUR_S, replace(SEEN, uptime_s=7200, pushed_out=50))
    assert gone(ledger) == (50, 7200)
    # Varnish has started again.
    ledger.add(11.5 * HOUR_S, replace(SEEN, uptime_s=60, pushed_out=3))
    assert gone(ledger) == (53, 7260)


def test_only_the_last_day_counts() -> None:
    ledger = Ledger()
    for hour in range(100):
        ledger.add(hour * HOUR_S, replace(SEEN, uptime_s=hour * 3600, pushed_out=10 * hour))
    assert gone(ledger) == (240, 86400)
    assert len(ledger.kept()["hours"]) == 24
    # A clock that was far ahead is set right.
    ledger.add(5 * HOUR_S, replace(SEEN, uptime_s=100 * 3600, pushed_out=1000))
    assert gone(ledger) == (10, 3600)


def test_of_a_varnish_that_has_run_for_long_nothing_is_guessed() -> None:
    ledger = Ledger()
    ledger.add(0.0, replace(SEEN, uptime_s=864000, pushed_out=10**6))
    assert gone(ledger) == (0, 0)


def test_what_was_kept_and_cannot_be_read_is_forgotten() -> None:
    for kept in ({"hours": 7}, {"hours": {"x": {}}}, {"hours": {"1": {}}}, {"last": 1}):
        assert Ledger(kept).told() is None, kept


class Machine:
    """Varnish as it answers."""

    def __init__(self) -> None:
        self.done: Printed | None = None

    async def run(self, argv: Any, timeout_s: float) -> Printed:
        if self.done is None:
            raise FileNotFoundError(argv[0])
        return self.done


def test_where_varnish_does_not_answer_nothing_is_told(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    machine: Any = Machine()
    asked = Fill("", journal, machine, lambda: 0.0)
    for done, known in (
        (None, False),
        (Printed(0, said(SEEN), b""), True),
        (Printed(1, b"", b"Could not get hold of varnishd"), False),
        (Printed(None, b"", b""), False),
        (Printed(0, said(SEEN), b""), True),
    ):
        machine.done = done
        asyncio.run(asked.ask())
        assert (asked.told()["cache"] is not None) is known
    assert Fill("", journal, machine)._ledger.told() is not None


@pytest.mark.skipif(not shutil.which("varnishd"), reason="varnish not installed")
def test_a_real_varnish_is_asked(tmp_path: Path) -> None:
    name = tmp_path / "varnish"
    room = ("-s", "default=malloc,128m")
    server = subprocess.Popen(
        ["varnishd", "-F", "-n", name, "-a", "127.0.0.1:0", "-b", "none", *room],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        asked = Fill(str(name), Journal(tmp_path))

        def answers() -> bool:
            asyncio.run(asked.ask())
            return asked.told()["cache"] is not None

        wait_for(answers, "varnish")
        assert asked.told()["cache"]["room_bytes"] == 128 << 20
    finally:
        server.terminate()
        server.wait(15)
