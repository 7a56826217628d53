import random
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from driver_calls import needs
from free_port import free_port
from hypothesis import given
from hypothesis import strategies as st
from meters import fault, made, ok, read, web
from naproxy.core.state import State
from naproxy.drivers import powermodel
from naproxy.drivers.meter import Fault, Reading
from naproxy.drivers.powermodel import Coefficients, Counters, Utilisation

from tests.patience import wait_for

TRUE = Coefficients(30.0, 12.0, 3.0, 5.0, 0.1)


def samples(noise_w: float = 0.0, count: int = 200) -> list[tuple[Utilisation, float]]:
    dice = random.Random(4)
    found = []
    for _ in range(count):
        used = Utilisation(
            dice.random(), 0.3 + 0.2 * dice.random(), dice.random(), 100 * dice.random()
        )
        found.append((used, powermodel.estimate_w(TRUE, used) + dice.gauss(0, noise_w)))
    return found


def test_the_full_form_finds_the_coefficients() -> None:
    found = powermodel.fit(samples(), "full")
    for name in ("base_w", "cpu_w", "memory_w", "disk_w", "network_w"):
        assert getattr(found.coefficients, name) == pytest.approx(getattr(TRUE, name), abs=1e-6)
    assert found.rms_w == pytest.approx(0, abs=1e-6)
    assert found.r_squared == pytest.approx(1)


def test_noise_is_what_is_left() -> None:
    found = powermodel.fit(samples(noise_w=1.5, count=2000), "full")
    assert found.rms_w == pytest.approx(1.5, rel=0.1)
    assert found.coefficients.cpu_w == pytest.approx(12.0, abs=0.5)


def test_the_form_of_the_processor_only() -> None:
    pairs = [(u, 20.0 + 8.0 * u.cpu) for u, _ in samples()]
    found = powermodel.fit(pairs, "cpu").coefficients
    assert (found.base_w, found.cpu_w) == (pytest.approx(20.0), pytest.approx(8.0))
    assert (found.memory_w, found.disk_w, found.network_w) == (0, 0, 0)


def test_too_few_samples_are_refused() -> None:
    with pytest.raises(ValueError, match="too few"):
        powermodel.fit(samples(count=19), "cpu")


def test_loads_that_cannot_be_told_apart_are_refused_by_name() -> None:
    for constant, words in ((True, "disk did not vary"), (False, "disk varied only together")):
        same = [
            (Utilisation(u.cpu, u.memory, 0.2 if constant else u.cpu, u.network), w)
            for u, w in samples()
        ]
        with pytest.raises(ValueError, match=words):
            powermodel.fit(same, "full")


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1e4))
def test_an_estimate_is_never_negative(cpu: float, memory: float, disk: float, net: float) -> None:
    odd = Coefficients(1.0, -50.0, 2.0, -50.0, 0.0)
    assert powermodel.estimate_w(odd, Utilisation(cpu, memory, disk, net)) >= 0


def test_utilisation_is_what_lies_between_two_moments_without_a_restart() -> None:
    first = Counters(100.0, 50.0, 400.0, 0.25, {"sda": 10.0, "sdb": 90.0}, 1e6)
    last = Counters(110.0, 60.0, 440.0, 0.5, {"sda": 15.0, "sdb": 91.0}, 21e6)
    assert powermodel.between(first, last) == Utilisation(0.25, 0.5, 0.5, 2.0)
    again = Counters(110.0, 1.0, 440.0, 0.5, {"sda": 15.0}, 21e6)
    assert powermodel.between(first, again) is None


# Where it comes from


def test_this_machines_own_counters_or_that_there_are_none(tmp_path: Path) -> None:
    first, last = (powermodel.from_proc(n * 0.05, Path("/proc")) for n in range(2))
    assert 0 < first.memory < 1
    assert last.cpu_all_s >= first.cpu_all_s > first.cpu_busy_s > 0
    with pytest.raises(Fault, match="cannot be read"):
        powermodel.from_proc(0.0, tmp_path)


@pytest.fixture(scope="module")
def exporter() -> Iterator[int]:
    port = free_port()
    process = subprocess.Popen(
        ["prometheus-node-exporter", f"--web.listen-address=127.0.0.1:{port}"],
        stderr=subprocess.DEVNULL,
    )
    wait_for(lambda: isinstance(read("model", port=port, interval_s=0.1)[0], Reading), "a reading")
    yield port
    process.terminate()
    process.wait(10)


needs_exporter = needs("prometheus-node-exporter")


@needs_exporter
def test_the_real_node_exporter_agrees_with_proc(exporter: int) -> None:
    with socket.create_connection(("127.0.0.1", exporter)) as sock:
        sock.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        text = b"".join(iter(lambda: sock.recv(65536), b""))
    ours, theirs = powermodel.from_proc(0.0, Path("/proc")), powermodel.from_exporter(0.0, text)
    assert theirs.cpu_all_s == pytest.approx(ours.cpu_all_s, rel=0.01)
    assert theirs.cpu_busy_s == pytest.approx(ours.cpu_busy_s, rel=0.05)
    assert theirs.memory == pytest.approx(ours.memory, abs=0.05)
    assert set(theirs.disks_busy_s) == set(ours.disks_busy_s)


@needs_exporter
def test_an_estimate_by_the_real_node_exporter(exporter: int) -> None:
    [item] = read("model", port=exporter, interval_s=0.2, on_w=30.0, cpu_w=10.0)
    assert isinstance(item, Reading)
    assert 30.0 <= item.power_w <= 40.0


def test_an_estimate_is_called_one() -> None:
    assert made("model").about.estimated
    assert "estimate" in made("model").about.accuracy


def test_a_sleeping_server_is_not_asked() -> None:
    assert read("model", state=State.ASLEEP, port=1, off_w=2.5) == [Reading(2.5)]


GOOD = b"""node_cpu_seconds_total{cpu="0",mode="idle"} 100
node_cpu_seconds_total{cpu="0",mode="user"} 20
node_memory_MemTotal_bytes 4e+09
node_memory_MemAvailable_bytes 1e+09
"""


def test_a_bad_answer_of_the_exporter_is_refused() -> None:
    for text, kind in (
        (b"", "format"),
        (GOOD[:60], "format"),
        (GOOD.replace(b"1e+09", b"9e+09"), "format"),
        (GOOD.replace(b" 20", b" -20"), "negative"),
        (GOOD.replace(b" 20", b" 1e999"), "not_a_number"),
        (GOOD.replace(b" 20", b" 1-2"), "not_a_number"),
        (GOOD.replace(b"4e+09", b"NaN"), "format"),
        (b"\x00\xff{" * 1000, "format"),
        (b"node_cpu_seconds_total{" + b'a="b",' * 10000, "format"),
    ):
        with web(lambda _, text=text: ok(text, b"text/plain")) as port:
            assert fault("model", port=port).kind == kind, text
