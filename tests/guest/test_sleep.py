"""The guest really sleeps, and a magic packet for its card wakes it."""

import hashlib
import json
import statistics
import struct
import threading
import time

import pytest

from tests.guest.guest import Guest, GuestOffice, Pinger, udp, wire
from tests.guest.image import BUILD
from tests.guest.power import SUSPEND
from tests.patience import wait_for
from tests.simulator.office import magic
from tests.simulator.office.server import ADDRESS, MAC

CYCLES = 10
CARD = magic.address(MAC)
SOMEBODY = magic.address("02:00:5e:10:00:99")
ALL = b"\xff" * 6
WAKE_ON_LAN = struct.pack(">H", 0x0842)


def etherwake(office: GuestOffice) -> None:
    office.client.run(["etherwake", "-i", "eth0", MAC])


def test_it_boots_systemd_on_a_kernel_that_can_suspend_to_ram(guest: Guest) -> None:
    said = guest.run_inside("cat /sys/power/mem_sleep; cat /proc/1/comm").stdout
    assert said.split("\n")[:2] == ["s2idle [deep]", "systemd"]
    print(f"\nup after {guest.boot_s:.1f} s, accelerator {guest.accelerator}")


def test_the_forced_command_suspends_it_and_nothing_answers(office: GuestOffice) -> None:
    guest = office.server
    before = guest.suspends()
    with Pinger(office.client, office.logs / "ping.log") as pinger:
        pinger.first_after(0)
        guest.sleep()
        assert guest.power
        assert guest.qmp("query-status")["status"] == "suspended"
        assert not guest.answers()
        woke_s = guest.wake(lambda: etherwake(office))
        slept_s = [event.t_s for event in guest.power.events if event.name == SUSPEND][-1]
        pinger.first_after(woke_s)
        assert not [at for at in pinger.answers() if slept_s < at < woke_s]
    wait_for(guest.answers, "the web server after the wake")
    assert guest.suspends() == before + 1


def test_the_box_s_key_can_do_nothing_but_suspend(guest: Guest) -> None:
    assert guest.power
    before = guest.power.count(SUSPEND)
    assert "uid" not in guest.order("id").stdout
    guest.power.wait(SUSPEND, before + 1)


@pytest.mark.parametrize("to", [ALL, CARD], ids=["to all", "to its card"])
def test_a_magic_packet_wakes_it(office: GuestOffice, to: bytes) -> None:
    guest = office.server
    guest.sleep()
    with wire(office.client) as sender:
        guest.wake(lambda: sender.send(to + SOMEBODY + WAKE_ON_LAN + magic.packet(CARD)))
    wait_for(guest.answers, "the web server after the wake")


@pytest.mark.parametrize("to", [("192.0.2.255", 9), (ADDRESS, 7), ("ff02::1%eth0", 9)])
def test_a_magic_packet_in_a_datagram_wakes_it(office: GuestOffice, to: tuple[str, int]) -> None:
    guest = office.server
    guest.sleep()
    with udp(office.client, to) as sender:
        guest.wake(lambda: sender.send(magic.packet(CARD)))
    wait_for(guest.answers, "the web server after the wake")


def test_a_download_goes_on_after_the_sleep_on_the_same_connection(office: GuestOffice) -> None:
    guest = office.server
    expected = guest.run_inside(
        "sha256sum /var/www/html/big; stat -c %s /var/www/html/big"
    ).stdout.split()
    got = bytearray()
    connection = office.client.connect(ADDRESS, 80, timeout_s=120)

    def download() -> None:
        connection.sendall(b"GET /big HTTP/1.0\r\nHost: guest\r\n\r\n")
        while piece := connection.recv(65536):
            got.extend(piece)

    reader = threading.Thread(target=download, daemon=True)
    with connection:
        reader.start()
        wait_for(lambda: len(got) > 100_000, "the download to be under way")
        guest.sleep()
        had = len(got)
        assert had < int(expected[2])
        guest.wake(lambda: etherwake(office))
        reader.join(timeout=120)
    body = bytes(got).partition(b"\r\n\r\n")[2]
    assert len(body) == int(expected[2])
    assert hashlib.sha256(body).hexdigest() == expected[0]


def test_ten_cycles_and_how_long_they_take(office: GuestOffice) -> None:
    guest = office.server
    before = guest.suspends()
    rows = []
    with Pinger(office.client, office.logs / "ping-cycles.log") as pinger:
        pinger.first_after(0)
        for _ in range(CYCLES):
            rows.append(cycle(office, pinger))
    assert guest.suspends() == before + CYCLES
    report(guest, rows)


def cycle(office: GuestOffice, pinger: Pinger) -> dict[str, float]:
    """Sleep and wake once; times in seconds from the command or the packet."""
    guest = office.server
    ordered_s = time.monotonic()
    suspended_s = guest.sleep()
    silent_s = pinger.last_before(suspended_s)
    sent_s = time.monotonic()
    woke_s = guest.wake(lambda: etherwake(office))
    ping_s = pinger.first_after(woke_s)
    wait_for(guest.answers, "the web server after the wake")
    ready_s = time.monotonic()
    return {
        "last_ping_s": silent_s - ordered_s,
        "suspended_s": suspended_s - ordered_s,
        "woken_s": woke_s - sent_s,
        "first_ping_s": ping_s - sent_s,
        "ready_s": ready_s - sent_s,
    }


def report(guest: Guest, rows: list[dict[str, float]]) -> None:
    """Print the cycles, and keep them in build/guest/cycles.json."""
    print(f"\n{'cycle':>6}" + "".join(f"{name:>14}" for name in rows[0]))
    for i, row in enumerate(rows, 1):
        print(f"{i:>6}" + "".join(f"{value:>14.2f}" for value in row.values()))
    medians = {name: statistics.median(row[name] for row in rows) for name in rows[0]}
    print(f"{'median':>6}" + "".join(f"{value:>14.2f}" for value in medians.values()))
    result = {
        "accelerator": guest.accelerator,
        "boot_s": guest.boot_s,
        "cycles": rows,
        "median": medians,
    }
    (BUILD / "cycles.json").write_text(json.dumps(result, indent=2) + "\n")
