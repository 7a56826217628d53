"""Graphics processors at work, as the kernel's amdgpu tells of them."""

import pytest

from naproxy_agent import Readings, Rules, read_gpus, reasons


@pytest.fixture
def busy(tmp_path):
    device = tmp_path / "sys/class/drm/card1/device"
    device.mkdir(parents=True)
    return device / "gpu_busy_percent"


def test_a_server_without_a_gpu_has_none_at_work(tmp_path):
    assert read_gpus(tmp_path) == ()


def test_a_gpu_is_found_by_its_name(busy, tmp_path):
    busy.write_text("64\n")
    assert read_gpus(tmp_path) == (("card1", 64.0),)


def test_a_gpu_that_sleeps_does_not_say_and_counts_as_idle(busy, tmp_path):
    busy.mkdir()  # reading it fails, as that of a device which is off
    assert read_gpus(tmp_path) == ()


def test_what_is_no_number_is_no_idle_gpu(busy, tmp_path):
    busy.write_text("much\n")
    with pytest.raises(ValueError, match="much"):
        read_gpus(tmp_path)


def test_a_gpu_that_computes_keeps_the_server_awake_above_the_limit():
    readings = Readings(gpus=(("card0", 20.0), ("card1", 97.0)))
    assert reasons(readings, Rules(), "mem") == ("GPU card1 is 97 % busy",)
    assert reasons(readings, Rules(gpu_above=None), "mem") == ()
