"""A past is made once for all who want it at the same time."""

import shutil
from pathlib import Path

import pytest

from tests.simulator.past import cached
from tests.simulator.past.cached import Making

DAYS = 0.05


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(cached, "CACHE", tmp_path / "past")
    return tmp_path / "past"


def test_who_comes_while_another_makes_it_waits_and_has_the_same(tmp_path: Path) -> None:
    first, second = Making(DAYS), Making(DAYS)
    first.into(tmp_path / "first")
    second.into(tmp_path / "second")
    mine, other = (tmp_path / name / "history.db" for name in ("first", "second"))
    assert mine.read_bytes() == other.read_bytes()


def test_who_waited_for_one_that_was_given_up_makes_it(tmp_path: Path) -> None:
    first, second = Making(DAYS), Making(DAYS)
    first.stop()
    second.into(tmp_path / "second")
    assert (tmp_path / "second/history.db").stat().st_size


def test_one_that_is_forgotten_meanwhile_can_be_copied(tmp_path: Path, cache: Path) -> None:
    cached.fill(tmp_path / "first", DAYS)
    second = Making(DAYS)
    shutil.rmtree(cache)
    second.into(tmp_path / "second")
    assert (tmp_path / "second/history.db").stat().st_size


def test_nothing_half_made_is_left(tmp_path: Path, cache: Path) -> None:
    Making(DAYS).stop()
    assert list(cache.iterdir()) == []
