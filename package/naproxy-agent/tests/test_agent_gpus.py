"""Graphics processors at work: the kernel's file of amdgpu, and nvidia-smi's answers."""

import subprocess

import pytest

from naproxy_agent import Readings, Rules, read_gpus, reasons

# nvidia-smi --query-gpu=index,utilization.gpu --format=csv,noheader,nounits
TWO = "0, 97\n1, 3\n"
OLD = "0, [N/A]\n"


def without(_command):
    raise FileNotFoundError("nvidia-smi")


def fails(said, code):
    def run(command):
        raise subprocess.CalledProcessError(code, command, said, "")

    return run


def test_a_server_without_a_gpu_has_none_at_work(tmp_path):
    assert read_gpus(without, tmp_path) == ()
    assert read_gpus(fails("No devices were found", 6), tmp_path) == ()


def test_gpus_are_found_in_sysfs_and_by_nvidias_tool(tmp_path):
    device = tmp_path / "sys/class/drm/card1/device"
    device.mkdir(parents=True)
    (device / "gpu_busy_percent").write_text("64\n")
    found = (("card1", 64.0), ("nvidia0", 97.0), ("nvidia1", 3.0))
    assert read_gpus(lambda _: TWO, tmp_path) == found


def test_a_gpu_that_does_not_say_counts_as_idle(tmp_path):
    assert read_gpus(lambda _: OLD, tmp_path) == ()


def test_a_tool_that_fails_is_no_idle_gpu(tmp_path):
    failed = fails("NVIDIA-SMI has failed because it couldn't communicate with the driver.", 9)
    with pytest.raises(subprocess.CalledProcessError):
        read_gpus(failed, tmp_path)


def test_a_gpu_that_computes_keeps_the_server_awake_above_the_limit():
    readings = Readings(gpus=(("card1", 20.0), ("nvidia0", 97.0)))
    assert reasons(readings, Rules(), "mem") == ("GPU nvidia0 is 97 % busy",)
    assert reasons(readings, Rules(gpu_above=None), "mem") == ()
