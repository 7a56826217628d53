"""Graphics processors at work, as the kernel's amdgpu and NVIDIA's tool tell of them."""

import subprocess

import pytest

from naproxy_agent import Readings, Rules, read_gpus, reasons


def no_tool(command):
    raise AssertionError(command)


@pytest.fixture
def busy(tmp_path):
    device = tmp_path / "sys/class/drm/card1/device"
    device.mkdir(parents=True)
    return device / "gpu_busy_percent"


def test_a_server_without_a_gpu_has_none_at_work(tmp_path):
    assert read_gpus(tmp_path, no_tool) == ()


def test_a_gpu_is_found_by_its_name(busy, tmp_path):
    busy.write_text("64\n")
    assert read_gpus(tmp_path, no_tool) == (("card1", 64.0),)


def test_a_gpu_that_sleeps_does_not_say_and_counts_as_idle(busy, tmp_path):
    busy.mkdir()  # reading it fails, as that of a device which is off
    assert read_gpus(tmp_path, no_tool) == ()


def test_what_is_no_number_is_no_idle_gpu(busy, tmp_path):
    busy.write_text("much\n")
    with pytest.raises(ValueError, match="much"):
        read_gpus(tmp_path, no_tool)


def test_a_gpu_that_computes_keeps_the_server_awake_above_the_limit():
    readings = Readings(gpus=(("card0", 20.0), ("card1", 97.0)))
    assert reasons(readings, Rules(), "mem") == ("GPU card1 is 97 % busy",)
    assert reasons(readings, Rules(gpu_above=None), "mem") == ()


def nvidia(tmp_path, said, code=0):
    """The reading if nvidia-smi prints this."""
    (tmp_path / "usr/bin").mkdir(parents=True, exist_ok=True)
    (tmp_path / "usr/bin/nvidia-smi").touch(0o755)

    def run(command):
        assert command[0] == "systemd-run"
        if code:
            raise subprocess.CalledProcessError(code, command, said, "")
        return said

    return read_gpus(tmp_path, run)


def test_nvidia_s_cards_are_told_apart_and_one_that_cannot_tell_counts_as_idle(tmp_path):
    assert nvidia(tmp_path, "0, 3\n1, 97\n2, [N/A]\n") == (("nvidia0", 3.0), ("nvidia1", 97.0))
    assert nvidia(tmp_path, "No devices were found\n", 6) == ()


def test_nvidia_s_tool_that_fails_does_not_count_as_idle(tmp_path):
    with pytest.raises(subprocess.CalledProcessError):
        nvidia(tmp_path, "Failed to initialize NVML\n", 9)
