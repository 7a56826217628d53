"""One server falls asleep and wakes, and one of the two does not go as it should."""

import threading
import time

import pytest
from naproxy.lab.replay.replay_visit import became

from tests.e2e.clients import ASSET, Load, ask, fresh
from tests.patience import wait_for
from tests.simulator.office import Office, magic
from tests.simulator.office.server import MAC

HANG_S = 2.0
CONFIG = {"server": {"wake": [{"spacing_s": 0.2}]}}


def test_a_request_wakes_the_server_and_is_answered(asleep: Office) -> None:
    answer = ask(asleep.client, fresh())
    assert (answer.status, answer.headers["x-naproxy"]) == (200, "held")
    assert asleep.server.board.state == "on"


def test_a_wake_is_a_magic_packet_on_the_wire(asleep: Office) -> None:
    with asleep.capture(asleep.box, "ether proto 0x0842") as wire:
        assert ask(asleep.client, fresh()).status == 200
        assert magic.wakes(wire.wait(1)[0].data, magic.address(MAC))


def test_a_cache_hit_wakes_no_server(office: Office) -> None:
    path = "/css/base.css?cached"
    assert ask(office.client, path, headers=ASSET).status == 200
    office.box.sleep()
    answer = ask(office.client, path, headers=ASSET)
    assert (answer.status, became(answer.headers)) == (200, "hit")
    assert office.server.board.state == "off"


def fall_asleep(office: Office) -> None:
    """Tell the server to sleep; returns once it obeys: sooner, a request calls the sleep off."""
    office.server.board.configure(sleep_s=3.0)
    office.box.api("POST", "/v1/servers/web/sleep", {})
    wait_for(lambda: office.server.board.state == "suspending", "the server to fall asleep")


def states(office: Office) -> list[str]:
    return [each["state"] for each in office.server.board.report()["transitions"]]


def test_a_request_that_comes_while_it_falls_asleep_is_answered(office: Office) -> None:
    fall_asleep(office)
    assert ask(office.client, fresh()).status == 200
    assert "off" in states(office)[-4:]


def test_requests_keep_coming_while_it_falls_asleep_and_all_are_answered(office: Office) -> None:
    fall_asleep(office)
    before = len(states(office))
    with Load(lambda _: ask(office.client, fresh()), threads=4) as load:
        # It may sleep for less than a millisecond: it is called all the time.
        woken = ["off", "resuming", "on"]
        wait_for(lambda: states(office)[before:][-3:] == woken, "the server to sleep and to wake")
    assert {answer.status for answer in load.answers} == {200}


def test_three_lost_magic_packets_lose_no_request(asleep: Office) -> None:
    asleep.server.board.configure(ignore_packets=3)
    assert ask(asleep.client, fresh()).status == 200
    effects = [packet["effect"] for packet in asleep.server.board.report()["packets"]]
    woke = effects.index("wake", len(effects) - effects[::-1].index("none, ignored"))
    assert effects[woke - 3 : woke] == ["none, ignored"] * 3


def test_a_server_that_wakes_slowly_is_waited_for(asleep: Office) -> None:
    asleep.server.board.configure(wake_s=4.0)
    answer = ask(asleep.client, fresh())
    assert answer.status == 200
    assert answer.took_s > 4


def test_a_server_that_wakes_by_itself_is_noticed(asleep: Office) -> None:
    asleep.server.board.power_on()
    asleep.box.await_state("awake")
    assert asleep.box.status()["reason"]["code"] == "server.woke_itself"


def test_a_sleep_command_that_hangs_until_the_wake_is_a_sleep_all_the_same(office: Office) -> None:
    office.server.board.configure(hold_command=True)
    office.box.sleep()
    assert ask(office.client, fresh()).status == 200


def test_the_ledger_names_the_client_that_woke_the_server(asleep: Office) -> None:
    path = fresh()
    ask(asleep.client, path, source="198.18.3.4")
    asleep.box.await_state("awake")
    newest = asleep.box.wakes()[0]
    assert (newest["who"], newest["path"]) == ("198.18.3.4", path)
    assert (newest["class"], newest["outcome"]) == ("api", "up")
    assert newest["waited_s"] > 0


def test_the_seconds_of_a_wake_are_in_the_ledger_by_stages(asleep: Office) -> None:
    asleep.server.board.configure(wake_s=1.5)
    ask(asleep.client, fresh())
    asleep.box.await_state("awake")
    newest = asleep.box.wakes()[0]
    took_s = {each["stage"]: each["took_s"] for each in newest["stages"]}
    assert list(took_s) == ["network", "port", "answer"]
    assert took_s["network"] >= 1.5, "it is silent until it has woken"
    assert sum(took_s.values()) == pytest.approx(newest["waited_s"], abs=0.1)


def test_a_server_that_hangs_after_its_wake_answers_pings_long_before_it_is_ready(
    asleep: Office,
) -> None:
    """Its kernel is up and takes connections, but no process runs."""
    asleep.server.board.configure(hang=True)
    asked = threading.Thread(target=ask, args=(asleep.client, fresh()), daemon=True)
    asked.start()
    wait_for(lambda: asleep.server.board.state == "hung", "the hung wake")
    hung_s = asleep.server.board.report()["transitions"][-1]["t_s"]
    wait_for(lambda: time.monotonic() - hung_s >= HANG_S, "the end of the hang")
    asleep.server.board.power_on()
    asked.join(timeout=60)
    asleep.box.await_state("awake")
    took_s = {each["stage"]: each["took_s"] for each in asleep.box.wakes()[0]["stages"]}
    assert list(took_s) == ["network", "port", "answer"]
    assert took_s["answer"] >= HANG_S / 2 > took_s["network"]
