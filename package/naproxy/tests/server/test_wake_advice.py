"""What is advised depends on which stage of a wake is long, and on how the server sleeps."""

import shutil
import subprocess

import pytest
from naproxy.server.stages import Stage
from naproxy.server.wake_advice import Advice, Way, advise

RAM = Way("ram", "192.0.2.2")


def codes(advice: list[Advice]) -> list[str]:
    return [each.reason.code.removeprefix("server.gain_") for each in advice]


def wake(**took_s: float) -> tuple[Stage, ...]:
    return tuple(Stage(name, s) for name, s in took_s.items())


@pytest.mark.parametrize(
    ("stages", "state", "advised"),
    [
        (wake(network=3.0, answer=0.1), "ram", ["devices", "link", "address"]),
        (wake(power=0.2, link=2.5, network=0.3, answer=0.1), "ram", ["link"]),
        (wake(link=0.2, network=2.5, answer=0.1), "ram", ["devices", "address"]),
        (wake(power=2.0, network=0.1, answer=0.1), "ram", ["power"]),
        (wake(network=0.2, port=4.0, answer=0.1), "ram", ["services"]),
        (wake(network=0.2, port=0.0, answer=4.0), "ram", ["answer"]),
        (wake(port=3.0, answer=0.1), "ram", ["address", "services"]),
        (wake(answer=3.0), "ram", ["answer"]),
        (
            *(wake(network=20.0, port=8.0, answer=0.1), "off"),
            ["off", "firmware", "link", "address", "boot"],
        ),
        (wake(power=20.0, network=1.0, answer=0.1), "disk", ["disk", "firmware"]),
    ],
)
def test_each_long_stage_has_its_advice(
    stages: tuple[Stage, ...], state: str, advised: list[str]
) -> None:
    assert codes(advise(stages, Way(state, "192.0.2.2"))) == advised


def test_the_longest_stage_comes_first() -> None:
    found = advise(wake(network=2.0, port=1.0, answer=3.0), RAM)
    assert [each.stage for each in found] == ["answer", *["network"] * 3]


@pytest.mark.parametrize(
    "stages", [(), wake(network=0.3, answer=0.1), wake(network=0.49, port=0.0, answer=0.1)]
)
def test_a_quick_wake_needs_no_advice(stages: tuple[Stage, ...]) -> None:
    assert advise(stages, RAM) == []


def test_a_stage_that_is_a_small_part_of_the_wake_is_not_mentioned() -> None:
    found = advise(wake(network=20.0, port=1.0, answer=1.0), RAM)
    assert {each.stage for each in found} == {"network"}


def test_a_server_by_ipv6_is_not_told_to_leave_dhcp_for_ipv4() -> None:
    found = advise(wake(network=3.0, answer=0.1), Way("ram", "2001:db8::2"))
    assert codes(found) == ["devices", "link"]


@pytest.mark.parametrize("state", ["ram", "disk", "off"])
@pytest.mark.parametrize("stage", ["power", "link", "network", "port", "answer"])
def test_every_command_is_valid_shell(stage: str, state: str) -> None:
    for each in advise((Stage(stage, 9.0),), Way(state, "192.0.2.2")):
        script = "\n".join(each.commands)
        done = subprocess.run(
            ["sh", "-n"], check=False, input=script, text=True, capture_output=True
        )
        assert done.returncode == 0, (script, done.stderr)


@pytest.mark.skipif(not shutil.which("ip"), reason="needs iproute2")
def test_the_device_is_found_by_the_server_s_address() -> None:
    [link] = [
        each
        for each in advise(wake(network=3.0), Way("ram", "127.0.0.1"))
        if each.reason.code == "server.gain_link"
    ]
    script = f'{link.commands[0]}; echo "$dev"'
    done = subprocess.run(["sh", "-c", script], text=True, capture_output=True, check=True)
    assert done.stdout == "lo\n"
