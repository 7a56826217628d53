"""Virtual time goes on, however far."""

import asyncio

import pytest

from tests.simulator.past import clock


@pytest.mark.parametrize("days", [0, 1, 195, 1000])
def test_waiting_ends_however_late_it_is(days: int) -> None:
    now = clock.Clock(0.0)
    now.monotonic_s += 86400 * days

    async def wait() -> None:
        for _ in range(1000):
            await asyncio.sleep(1e-9)
            await asyncio.sleep(0.1)

    before_s = now.monotonic_s
    with now.installed(), asyncio.Runner(loop_factory=lambda: clock.loop(now)) as runner:
        runner.run(wait())
    assert now.monotonic_s - before_s == pytest.approx(100, rel=1e-3)


def test_waiting_for_ever_is_an_error() -> None:
    now = clock.Clock(0.0)

    async def wait() -> None:
        await asyncio.get_running_loop().create_future()

    made = clock.loop(now)
    with now.installed():
        with pytest.raises(RuntimeError, match="ever"):
            made.run_until_complete(wait())
        made.close()
