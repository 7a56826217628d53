import random

import pytest
from naproxy.core.reason import Reason, WrongError
from naproxy.server.fit import Fit, Run, fit

ON_W, OFF_W, SWITCH_J = 43.3, 1.6, 170.7
TIMES = ((20, 20), (60, 20), (20, 60), (60, 60), (40, 40), (25, 50))


def runs(error_j: float = 0.0, seed: int = 1, times: int = 1) -> list[Run]:
    chance = random.Random(seed)
    return [
        Run(on, off, 1, on * ON_W + off * OFF_W + SWITCH_J + chance.gauss(0, error_j))
        for on, off in TIMES * times
    ]


def test_without_noise_the_fit_is_exact() -> None:
    found = fit(runs())
    assert found.on_w.value == pytest.approx(ON_W)
    assert found.off_w.value == pytest.approx(OFF_W)
    assert found.switch_j.value == pytest.approx(SWITCH_J)
    assert found.residual_j == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("confidence", [pytest.param(0.8, marks=pytest.mark.long), 0.95])
def test_intervals_cover_the_truth_as_often_as_they_say(confidence: float) -> None:
    trials = 1000
    covered = {"on_w": 0, "off_w": 0, "switch_j": 0}
    truth = {"on_w": ON_W, "off_w": OFF_W, "switch_j": SWITCH_J}
    for seed in range(trials):
        found: Fit = fit(runs(error_j=8, seed=seed), confidence)
        for name, true in truth.items():
            estimate = getattr(found, name)
            covered[name] += estimate.low <= true <= estimate.high
    # 1000 trials at 0.95 have a standard deviation of 7, at 0.8 of 13.
    for hits in covered.values():
        assert abs(hits - confidence * trials) < 45


def test_more_runs_narrow_the_intervals() -> None:
    few, many = fit(runs(error_j=8)), fit(runs(error_j=8, times=5))
    assert many.on_w.high - many.on_w.low < few.on_w.high - few.on_w.low


def test_runs_that_are_few_or_alike_or_without_a_switch_say_nothing() -> None:
    unswitched = [Run(r.on_s, r.off_s, 0, r.energy_j) for r in runs()]
    for said, why in (
        (runs()[:3], Reason("power.few_runs", number=3)),
        ([runs()[0]] * 6, Reason("power.runs_alike")),
        (unswitched, Reason("power.runs_one_sided")),
    ):
        with pytest.raises(WrongError) as refused:
            fit(said)
        assert refused.value.reason == why
