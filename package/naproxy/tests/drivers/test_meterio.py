"""Programs that meters are read with: what they leave running, and with what priority."""

import asyncio
import os

import pytest
from naproxy.core.reason import Reason
from naproxy.drivers.meter import Fault
from naproxy.drivers.meter_io import MOST_BYTES, tool


def say(script: str, timeout_s: float = 20.0) -> str:
    async def play() -> str:
        async with asyncio.timeout(20):
            return await tool(["sh", "-c", script], timeout_s)

    return asyncio.run(play())


def test_what_a_program_complains_of_is_not_what_it_says() -> None:
    assert say("echo trouble >&2; echo 5; echo 6") == "5\n6\n"


def test_a_program_that_hangs_is_over_after_its_time() -> None:
    with pytest.raises(Fault) as caught:
        say("sleep 30", 0.2)
    assert caught.value.reason == Reason("meter.no_answer", who="sh", limit_s=0.2)


def test_a_program_that_prints_for_ever_is_ended() -> None:
    with pytest.raises(Fault, match=f"more than {MOST_BYTES} bytes"):
        say("yes", 2.0)


def test_a_program_that_fails_is_told_in_its_own_words() -> None:
    with pytest.raises(Fault, match=r"^sh: no such device$"):
        say("echo half an answer; echo no such device >&2; exit 1")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may run before others")
def test_a_program_has_not_the_controllers_priority() -> None:
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    try:
        # It is taken away once the program has started: otherwise this one would never end.
        own = "$(cut -d' ' -f41 /proc/self/stat)"
        assert say(f'until [ "{own}" = {os.SCHED_OTHER} ]; do sleep 0.01; done; echo done')
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
