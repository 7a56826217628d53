"""Running programs that hang, and that leave others running."""

import asyncio
import time

import pytest
from naproxy.core import processes as program


def ended(script: str, timeout_s: float) -> tuple[program.Ended, float]:
    async def play() -> program.Ended:
        async with asyncio.timeout(20):
            return await program.run(["sh", "-c", script], timeout_s)

    begun_s = time.monotonic()
    return asyncio.run(play()), time.monotonic() - begun_s


@pytest.mark.parametrize("child", ["sleep 60", "setsid sleep 60"])
def test_a_program_that_hangs_in_a_child_is_over_after_its_time(child: str) -> None:
    found, took_s = ended(f"echo begun; {child} & wait", 1.0)
    assert found == program.Ended(None, "begun")
    assert took_s < 10


def test_what_hangs_with_the_program_is_killed_with_it() -> None:
    found, _ = ended("echo $$; sleep 60 & wait", 1.0)
    alive, _ = ended(f"kill -0 -- -{found.said}", 10.0)
    assert alive.code != 0


def test_a_program_that_leaves_another_running_has_ended() -> None:
    found, took_s = ended("echo done; setsid sleep 30 & exit 3", 20.0)
    assert found == program.Ended(3, "done")
    assert took_s < 10


def test_however_much_a_program_says_it_ends_and_the_start_is_kept() -> None:
    found, _ = ended("head -c 1000000 /dev/zero | tr '\\0' x", 20.0)
    assert found.code == 0
    assert found.said.startswith("xxx")
    assert len(found.said) == program.MOST_WORDS


def test_one_that_is_cancelled_is_killed() -> None:
    async def play() -> None:
        async with asyncio.timeout(0.5):
            await program.run(["sh", "-c", "sleep 60 & wait"], 30.0)

    begun_s = time.monotonic()
    with pytest.raises(TimeoutError):
        asyncio.run(play())
    assert time.monotonic() - begun_s < 10
