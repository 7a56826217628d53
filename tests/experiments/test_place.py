"""The line and the server of the papers' experiments, as ping, curl and h2load see them."""

import re
from collections.abc import Iterator

import pytest
from naproxy.api.command import CommandError
from naproxy.lab.measure.trial import counted

from tests.bench.link import FAR
from tests.experiments.place import BYTES_S, Place, place

pytestmark = pytest.mark.alone


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    work = tmp_path_factory.mktemp("experiment")
    for folder in (work, *work.parents[:2]):
        folder.chmod(0o755)
    with place(work) as made:
        yield made


@pytest.mark.parametrize("rtt_ms", [30, 200])
def test_the_round_trip_is_within_5_percent(at: Place, rtt_ms: int) -> None:
    at.line.set(rtt_s=rtt_ms / 1e3, bytes_s=BYTES_S)
    found, lost = at.line.ping(100, 0.02)
    assert lost == 0
    assert found[50] == pytest.approx(rtt_ms / 1e3, rel=0.05)
    assert found[98] - found[50] < 2e-3


def test_the_loss_is_that_of_both_ways(at: Place) -> None:
    at.line.set(rtt_s=0.0, bytes_s=BYTES_S, loss=0.05)
    _, lost = at.line.ping(1000, 0.002)
    assert lost == pytest.approx(1 - 0.95**2, abs=0.04)


def test_the_jitter_spreads_the_round_trips_and_keeps_their_order(at: Place) -> None:
    at.line.set(rtt_s=0.04, bytes_s=BYTES_S, jitter_s=0.01)
    found, lost = at.line.ping(100, 0.05)
    assert lost == 0
    assert found[90] - found[10] > 5e-3
    assert found[0] >= 0.04


def test_a_download_gets_the_rate_of_the_line(at: Place) -> None:
    at.line.set(rtt_s=0.0, bytes_s=1e6)
    before = counted(at.counters())
    words = ["h2load", "-n100", "-c1", "-m10", f"https://{FAR}/pages/30000.html"]
    said = at.client.run(words, timeout_s=60).stdout
    sent = counted(at.counters()).out_bytes - before.out_bytes
    took = re.search(r"finished in ([\d.]+)s, ", said)
    assert took
    assert sent / float(took[1]) == pytest.approx(1e6, rel=0.05)


def test_a_line_that_is_not_as_asked_is_refused(at: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(at.line, "ping", lambda _count, _every_s: ([0.09] * 20, 0.0))
    with pytest.raises(CommandError, match=r"round trip of 90\.00 ms"):
        at.set_link(30, 0)


def test_the_servers_counters_count_its_own_processor_and_bytes(at: Place) -> None:
    at.line.set(rtt_s=0.0, bytes_s=BYTES_S)
    before = counted(at.counters())
    words = ["-n2000", "-c1", "-m1", f"https://{FAR}/pages/10000.html"]
    said = at.client.run(["h2load", *words], timeout_s=60).stdout
    after = counted(at.counters())
    assert "2000 succeeded" in said
    assert after.cpu_s > before.cpu_s
    assert after.out_bytes - before.out_bytes == pytest.approx(20e6, rel=0.15)
