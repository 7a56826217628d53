"""Where the seconds of a wake go on stock Debians, before and after the advice that the box gives.

Before: NetworkManager runs the card, with an address by DHCP, as on a Debian with a desktop. Then
the box's own commands for the long stage are run there. The figures are in docs/guest-test.md.
"""

import json
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from naproxy.server import stages
from naproxy.server.stages import Stage, Waking
from naproxy.server.wake_advice import Way, advise

from tests.guest.guest import GuestOffice, Pinger
from tests.guest.image import BUILD, image
from tests.guest.power import SUSPEND, WAKEUP
from tests.patience import wait_for
from tests.simulator.office.server import ADDRESS, MAC

RELEASES = ("bookworm",)
CYCLES = 3
SLOW_S = 600.0
FILE = BUILD / "wakes.json"
TO_NETWORK_MANAGER = f"""
dev=$(ip -o -4 addr show to {ADDRESS} | awk '{{ print $2; exit }}')
systemctl disable --now systemd-networkd.socket systemd-networkd
# NetworkManager leaves alone what is configured already.
ip address flush dev "$dev"
ip link set "$dev" down
systemctl enable --now NetworkManager
"""
SLEEP = "systemd-run --on-active=0.3 --timer-property=AccuracySec=10ms systemctl suspend"
"""Soon, so that the guest's agent can answer before."""
RESUMED = re.compile(
    r"^\[ *([0-9.]+)\] (?:ACPI: PM: Low-level resume|PM: suspend exit)", re.MULTILINE
)


@pytest.fixture(scope="module", params=RELEASES)
def office(request: pytest.FixtureRequest) -> Iterator[GuestOffice]:
    """A Debian whose card NetworkManager runs, with an address by DHCP."""
    with GuestOffice(image(request.param), keep=BUILD / f"logs-wake-{request.param}") as office:
        dhcp = [
            *("dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--user=root"),
            *("--port=0", "--interface=eth0", "--bind-interfaces", "--leasefile-ro"),
            *("--dhcp-authoritative", "--dhcp-range=192.0.2.2,static,255.255.255.0,12h"),
            *(f"--dhcp-host={MAC},{ADDRESS}", "--log-dhcp", "--log-facility=-"),
        ]
        office.client.popen(dhcp, log="dhcp")
        office.server.run_inside(TO_NETWORK_MANAGER)
        wait_for(lambda: "dynamic" in addresses(office), "an address by DHCP", SLOW_S)
        wait_for(office.server.answers, "the web server", SLOW_S)
        yield office


def addresses(office: GuestOffice) -> str:
    return office.server.run_inside(f"ip -4 address show to {ADDRESS}").stdout


def wake(office: GuestOffice) -> tuple[Stage, ...]:
    """Have it sleep, wake it, and return where the seconds went."""
    guest = office.server
    power = guest.power
    assert power
    slept, woken = power.count(SUSPEND), power.count(WAKEUP)
    with Pinger(office.client, office.logs / "ping-wake.log") as pinger:
        guest.run_inside(SLEEP)
        power.wait(SUSPEND, slept + 1, SLOW_S)
        waking = Waking(time.monotonic())
        office.client.run(["etherwake", "-i", "eth0", MAC])
        port_s = wait_for(lambda: connected_s(office), "the web port", SLOW_S)
        wait_for(guest.answers, "the web server after the wake", SLOW_S)
        ready_s = time.monotonic()
        ping_s = pinger.first_after(power.wait(WAKEUP, woken + 1))
    # An open port proves that the network answers; the ping is due every 100 ms only.
    waking.pinged(min(ping_s, port_s))
    waking.connected(port_s)
    return waking.up(ready_s)


def connected_s(office: GuestOffice) -> float:
    """Return when its web port took a connection; 0: it does not."""
    try:
        office.client.connect(ADDRESS, 80, timeout_s=0.25).close()
    except OSError:
        return 0.0
    return time.monotonic()


def whole_s(found: tuple[Stage, ...]) -> float:
    return sum(stage.took_s for stage in found)


def kernel_s(office: GuestOffice) -> float:
    """How long the guest's own kernel took to resume, the last time."""
    *_, began, ended = RESUMED.findall(office.server.run_inside("dmesg").stdout)
    return round(float(ended) - float(began), 3)


def test_the_advice_halves_the_wake_of_a_card_that_networkmanager_runs(
    office: GuestOffice, request: pytest.FixtureRequest
) -> None:
    before = [wake(office) for _ in range(CYCLES)]
    [advice] = [
        each
        for each in advise(stages.typical(before), Way("ram", ADDRESS))
        if each.reason.code == "server.gain_address"
    ]
    office.server.run_inside("\n".join(advice.commands))
    wait_for(lambda: "dynamic" not in addresses(office), "the fixed address", SLOW_S)
    wait_for(office.server.answers, "the web server with a fixed address", SLOW_S)
    after, kernels_s = [], []
    for _ in range(CYCLES):
        after.append(wake(office))
        kernels_s.append(kernel_s(office))
    (office.logs / "journal-wake.log").write_text(office.server.journal())
    keep(
        request.node.callspec.params["office"],
        {
            "accelerator": office.server.accelerator,
            "before": [stages.plain(each) for each in before],
            "after": [stages.plain(each) for each in after],
            "kernel_after_s": kernels_s,
        },
    )
    assert whole_s(stages.typical(after)) <= whole_s(stages.typical(before)) / 2


def keep(release: str, figures: dict[str, Any]) -> None:
    """Print the figures, and keep them in build/guest/wakes.json."""
    kept = json.loads(FILE.read_text()) if FILE.exists() else {}
    FILE.write_text(json.dumps({**kept, release: figures}, indent=2) + "\n")
    for name in ("before", "after"):
        for each in figures[name]:
            took = stages.load(each)
            words = ", ".join(f"{stage.name} {stage.took_s:.2f}" for stage in took)
            print(f"\n{release} {name}: {words}; in all {whole_s(took):.2f} s")
    print(f"after it, the kernel's own resume: {figures['kernel_after_s']}")
