"""Meters that are asked by HTTP. Answers are from public documentation, named beside each."""

import gzip
import json
import re
import socket
import threading
import zlib
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.request import parse_http_list, parse_keqv_list

import pytest
from driver_calls import certificate, needs, presenting, secret_file
from hypothesis import given
from hypothesis import strategies as st
from meters import fault, ok, power_w, read, web
from naproxy.drivers.meter import Fault, Reading, json_object, redfish, shelly, tasmota

# https://shelly-api-docs.shelly.cloud/gen2/Components/FunctionalComponents/Switch/, with a load
SWITCH = b"""{"id": 0, "source": "timer", "output": true, "timer_started_at": 1626942399.36,
"timer_duration": 60, "apower": 8.9, "voltage": 237.571,
"aenergy": {"total": 14.093, "by_minute": [0, 0, 0], "minute_ts": 1626942399},
"temperature": {"tC": 53.3, "tF": 127.9}}"""
# https://shelly-api-docs.shelly.cloud/gen1/#shelly-plug-plugs-meter-0
METER = b"""{"power": 36.61, "is_valid": true, "timestamp": 1561036406,
"counters": [36.610, 36.600, 36.590], "total": 9612}"""
# https://tasmota.github.io/docs/Commands/ (Status 8) and the fields of JSON-Status-Responses
STATUS_8 = b"""{"StatusSNS": {"Time": "2018-02-15T01:00:50", "ENERGY": {"Total": 3.185,
"Yesterday": 0.1, "Today": 0.32, "Power": 27, "ApparentPower": 29, "Factor": 0.94,
"Voltage": 234, "Current": 0.122}}}"""
# https://pubs.lenovo.com/xcc-restapi/power_management_properties_get_flex_d2
POWER = b"""{"PowerControl@odata.count": 1, "PowerControl": [{"Name": "Server Power Control",
"@odata.id": "/redfish/v1/Chassis/2/Power#/PowerControl/0", "MemberId": "0",
"PowerCapacityWatts": 200, "PowerConsumedWatts": 150,
"RelatedItem": [{"@odata.id": "/redfish/v1/Chassis/2"}]}],
"@odata.type": "#Power.v1_5_3.Power", "Id": "Power",
"@odata.id": "/redfish/v1/Chassis/2/Power", "Name": "Power"}"""
# DMTF DSP2046, EnvironmentMetrics
METRICS = b"""{"@odata.type": "#EnvironmentMetrics.v1_3_0.EnvironmentMetrics",
"Id": "EnvironmentMetrics", "Name": "Chassis Environment Metrics",
"PowerWatts": {"DataSourceUri": "/redfish/v1/Chassis/1/Sensors/TotalPower", "Reading": 374},
"EnergykWh": {"DataSourceUri": "/redfish/v1/Chassis/1/Sensors/TotalEnergy", "Reading": 325675}}"""

Parse = Callable[[dict[str, Any]], Reading]
DEVICES: dict[str, tuple[bytes, Parse, dict[str, Any]]] = {
    "shelly": (SWITCH, shelly.parse, {}),
    "tasmota": (STATUS_8, lambda said: tasmota.parse(said, 0), {}),
    "redfish": (POWER, redfish.parse, {"tls": False}),
}
device = pytest.mark.parametrize("name", DEVICES)


def asked_of(name: str, respond: Callable[[bytes], bytes], **options: Any) -> Fault | Reading:
    """What a driver's first item is when its device answers so."""
    with web(respond) as port:
        [item] = read(name, host="127.0.0.1", port=port, **DEVICES[name][2], **options)
    return item


def ask(name: str, answer: bytes, **options: Any) -> Fault | Reading:
    return asked_of(name, lambda _: answer, **options)


def refused(name: str, answer: bytes, **options: Any) -> Fault:
    item = ask(name, answer, **options)
    assert isinstance(item, Fault), (name, answer[:100])
    return item


def test_a_plug_counts_by_its_generation() -> None:
    assert ask("shelly", ok(SWITCH)) == Reading(8.9, counter_j=pytest.approx(14.093 * 3600))
    first = ask("shelly", ok(METER), kind="meter")
    assert first == Reading(36.61, counter_j=9612 * 60)
    invalid = ok(METER.replace(b"true", b"false"))
    assert "not valid" in str(refused("shelly", invalid, kind="meter"))


def test_a_shelly_is_asked_as_its_documentation_says() -> None:
    for component, path in (
        ("meter", b"GET /meter/1 "),
        ("emeter", b"GET /emeter/1 "),
        ("switch", b"GET /rpc/Switch.GetStatus?id=1 "),
        ("pm1", b"GET /rpc/PM1.GetStatus?id=1 "),
        ("em1", b"GET /rpc/EM1.GetStatus?id=1 "),
    ):

        def respond(head: bytes, path: bytes = path) -> bytes:
            return ok(SWITCH if head.startswith(path) else b"{}")

        item = asked_of("shelly", respond, kind=component, channel=1)
        assert isinstance(item, Reading), component
        assert item.power_w == 8.9


# https://github.com/Jan200101/ShellyPy/issues/20, a Shelly Pro EM
EM1 = b"""{"id": 1, "current": 2.598, "voltage": 234.9, "act_power": 501.8, "aprt_power": 612.4,
"pf": 0.84, "freq": 50, "calibration": "factory"}"""
# https://shelly-api-docs.shelly.cloud/gen2/ComponentsAndServices/EM/, a Shelly Pro 3EM
EM = {
    **{"id": 0, "a_current": 4.029, "a_voltage": 236.1, "a_act_power": 951.2},
    **{"b_current": 4.027, "b_voltage": 236.201, "b_act_power": -951.1},
    **{"c_current": 3.03, "c_voltage": 236.402, "c_act_power": 715.4, "n_current": None},
    **{"total_current": 11.083, "total_act_power": 2484.782, "total_aprt_power": 2486.7},
}


def em(channel: int, **changes: Any) -> Fault | Reading:
    def respond(head: bytes) -> bytes:
        assert head.startswith(b"GET /rpc/EM.GetStatus?id=0 "), head
        return ok(json.dumps({**EM, **changes}).encode())

    return asked_of("shelly", respond, kind="em", channel=channel)


def test_a_clamp_of_an_energy_meter_is_read() -> None:
    assert ask("shelly", ok(EM1), kind="em1", channel=1) == Reading(501.8)
    broken = EM1.replace(b'"id": 1', b'"id": 1, "errors": ["power_meter_failure"]')
    assert "not valid" in str(refused("shelly", ok(broken), kind="em1"))


def test_three_phases_together_or_one_of_them_are_read() -> None:
    assert em(0) == Reading(2484.782)
    assert em(1) == Reading(951.2)
    assert em(3) == Reading(715.4)
    assert "3 channels" in str(em(4))
    assert "power" in str(em(0, total_act_power=None))
    broken = {"b_errors": ["power_meter_failure"]}
    assert "not valid" in str(em(0, **broken))
    assert em(1, **broken) == Reading(951.2)


def _locked(nonces: list[str], asked: list[bytes]) -> Callable[[bytes], bytes]:
    """A plug of a later generation with a password, which takes each nonce three times."""
    uses = dict.fromkeys(nonces, 0)

    def respond(head: bytes) -> bytes:
        asked.append(head)
        nonce = next((n for n in nonces if uses[n] < 3), nonces[-1])
        [said] = re.findall(rb"Authorization: Digest (.*)\r\n", head) or [b""]
        given = parse_keqv_list(parse_http_list(said.decode()))
        if given.get("nonce") == nonce:
            uses[nonce] += 1
            # As the plug's documentation counts it.
            ha1 = sha256(b"admin:plug:correct horse").hexdigest()
            ha2 = sha256(b"GET:/rpc/Switch.GetStatus?id=0").hexdigest()
            words = f"{ha1}:{nonce}:{uses[nonce]:08x}:{given['cnonce']}:auth:{ha2}"
            if given["response"] == sha256(words.encode()).hexdigest():
                return ok(SWITCH)
        return (
            f'HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Digest qop="auth", realm="plug",'
            f' nonce="{nonce}", algorithm=SHA-256\r\nContent-Length: 0\r\n\r\n'
        ).encode()

    return respond


def test_a_plug_with_a_password_is_asked_again_only_when_its_challenge_is_new(
    tmp_path: Path,
) -> None:
    asked: list[bytes] = []
    file = secret_file(tmp_path, "correct horse")
    with web(_locked(["one", "two"], asked)) as port:
        options = {"host": "127.0.0.1", "port": port, "password_file": file, "interval_s": 0.1}
        items = read("shelly", 5, **options)
    assert [item.power_w for item in items if isinstance(item, Reading)] == [8.9] * 5
    assert len(asked) == 7


def test_a_wrong_password_is_said_and_not_tried_for_ever(tmp_path: Path) -> None:
    asked: list[bytes] = []
    file = secret_file(tmp_path, "wrong")
    item = asked_of("shelly", _locked(["one"], asked), password_file=file)
    assert "a valid user and password" in str(item)
    assert len(asked) == 2


def test_a_tasmota_plug() -> None:
    asked = []

    def respond(head: bytes) -> bytes:
        asked.append(head.split(b" ")[1])
        return ok(STATUS_8)

    item = asked_of("tasmota", respond)
    assert item == Reading(27, counter_j=pytest.approx(3.185 * 3.6e6))
    assert asked == [b"/cm?cmnd=Status+8"]


def test_one_of_several_channels_of_tasmota() -> None:
    several = STATUS_8.replace(b'"Power": 27', b'"Power": [27, 3.5]')
    assert ask("tasmota", ok(several), channel=1) == Reading(3.5)
    assert "2 channels" in str(refused("tasmota", ok(several), channel=2))
    counted = several.replace(b'"Total": 3.185', b'"Total": [3.1, 0.085]')
    assert ask("tasmota", ok(counted), channel=1) == Reading(3.5, counter_j=0.085 * 3.6e6)
    assert "1 channel" in str(refused("tasmota", ok(STATUS_8), channel=1))


def test_tasmota_wants_a_password() -> None:
    # https://tasmota.github.io/docs/Commands/#with-web-requests
    said = b'{"WARNING":"Need user=<username>&password=<password>"}'
    assert refused("tasmota", ok(said)).kind == "refused"


def test_redfish_power_of_a_chassis_or_environment_metrics() -> None:
    assert ask("redfish", ok(POWER)) == Reading(150)
    assert ask("redfish", ok(METRICS)) == Reading(374, counter_j=325675 * 3.6e6)


def test_redfish_null_while_the_server_is_off_is_not_zero() -> None:
    assert "null" in str(refused("redfish", ok(POWER.replace(b"150", b"null"))))
    assert ask("redfish", ok(POWER.replace(b"150", b"0"))) == Reading(0)


def power(*controls: dict[str, Any]) -> Fault | Reading:
    return ask("redfish", ok(json.dumps({"PowerControl": controls}).encode()))


def test_redfish_of_a_part_before_the_whole_is_not_the_server() -> None:
    whole = {"Name": "Server Power Control", "PowerConsumedWatts": 150}
    for about in (
        {"Name": "CPU Sub-system Power"},
        {"Name": "Power 1", "PhysicalContext": "CPU"},
        {"Name": "Power 1", "RelatedItem": [{"@odata.id": "/redfish/v1/Systems/1/Processors/1"}]},
        {"Name": "Memory Power Control"},
    ):
        part = {"PowerConsumedWatts": 37, **about}
        assert power(part, whole) == Reading(150), part
        assert power(whole, part) == Reading(150), part
        said = str(power(part))
        assert "parts only" in said, said
    # The whole of Supermicro's X10, which relates it to a processor
    place = [{"@odata.id": "/redfish/v1/Systems/1/Processors/1"}]
    named = {"Name": "System Power Control", "PowerConsumedWatts": 91, "RelatedItem": place}
    assert power(named) == Reading(91)
    assert power({"PowerConsumedWatts": 565}) == Reading(565)
    assert power({"Name": "Chassis", "PhysicalContext": "Chassis", **named}) == Reading(91)
    assert power({**whole, "PowerConsumedWatts": None}, whole) == Reading(150)


def test_a_bmc_whose_maximum_is_0_w_does_not_measure() -> None:
    said = power({"PowerConsumedWatts": 0, "PowerMetrics": {"MaxConsumedWatts": 0}})
    assert "does not measure" in str(said)
    idle = {"PowerConsumedWatts": 0, "PowerMetrics": {"MaxConsumedWatts": 276}}
    assert power(idle) == Reading(0)


def test_redfish_energy_in_joules_or_a_bare_power() -> None:
    joules = METRICS.replace(b'"EnergykWh"', b'"EnergyJoules"')
    assert ask("redfish", ok(joules)) == Reading(374, counter_j=325675)
    assert ask("redfish", ok(b'{"PowerWatts": 374.5}')) == Reading(374.5)
    assert "null" in str(refused("redfish", ok(b'{"PowerWatts": {"Reading": null}}')))


def packed(body: bytes, coding: bytes, name: bytes | None = None) -> bytes:
    how = {b"gzip": gzip.compress, b"deflate": zlib.compress}[coding]
    said = b"\r\nContent-Encoding: %s\r\n" % (name or coding)
    return ok(how(body)).replace(b"\r\n", said, 1)


@device
def test_a_compressed_answer_is_read(name: str) -> None:
    body = DEVICES[name][0]
    for coding in (b"gzip", b"deflate"):
        assert isinstance(ask(name, packed(body, coding)), Reading), coding
    assert isinstance(ask(name, packed(body, b"gzip", b"GZip")), Reading)


@device
def test_a_compressed_answer_that_swells_or_cannot_be_unpacked_is_refused(name: str) -> None:
    assert refused(name, packed(b" " * (1 << 24), b"gzip")).kind == "huge"
    for answer in (
        packed(DEVICES[name][0], b"gzip").replace(b"\x1f\x8b", b"\x1f\x8c"),
        packed(DEVICES[name][0], b"gzip", b"br"),
    ):
        assert "compressed" in str(refused(name, answer))
    half = gzip.compress(DEVICES[name][0])[:40]
    cut = ok(half).replace(b"\r\n", b"\r\nContent-Encoding: gzip\r\n", 1)
    assert "compressed" in str(refused(name, cut))


def moved(to: bytes) -> bytes:
    return b"HTTP/1.1 308 X\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n" % to


def test_a_redirect_to_the_same_path_with_a_slash_is_followed_once() -> None:
    path = b"/redfish/v1/Chassis/1/Power/"
    for to in (path, b"https://127.0.0.1" + path):

        def respond(head: bytes, to: bytes = to) -> bytes:
            return ok(POWER) if b"GET " + path + b" " in head else moved(to)

        assert asked_of("redfish", respond) == Reading(150), to
    assert "308" in str(asked_of("redfish", lambda _: moved(path)))


def test_a_redirect_to_another_path_or_host_is_told() -> None:
    for to in (b"/redfish/v1/Chassis/2/Power/", b"https://192.0.2.1/redfish/v1/Chassis/1/Power/"):
        assert "308" in str(refused("redfish", moved(to)))


def test_a_password_is_sent_to_redfish(tmp_path: Path) -> None:
    secret = secret_file(tmp_path, "correct horse")

    def respond(head: bytes) -> bytes:
        if b"Authorization: Basic bmFwcm94eTpjb3JyZWN0IGhvcnNl\r\n" in head:
            return ok(POWER)
        return b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"

    with web(respond) as port:
        options = {"host": "127.0.0.1", "port": port, "tls": False}
        login = {"user": "naproxy", "password_file": secret}
        assert power_w("redfish", **options, **login) == 150
        assert fault("redfish", **options).kind == "refused"


@needs("openssl")
def test_the_pinned_certificate_is_trusted_and_no_other(tmp_path: Path) -> None:
    fingerprint = certificate(tmp_path)
    with web(lambda _: ok(POWER), presenting(tmp_path)) as port:
        options = {"host": "127.0.0.1", "port": port}
        assert power_w("redfish", **options, fingerprint=fingerprint) == 150
        assert "not the pinned one" in str(fault("redfish", **options, fingerprint="ab" * 32))
        assert fault("redfish", **options).kind == "lost"


# Hostile


@device
def test_a_power_that_is_no_number_is_refused(name: str) -> None:
    for change in (*("NaN", "Infinity", "1e999", "1" + "0" * 400, '"eleven"', "true", "{}"),):
        good = DEVICES[name][0].decode()
        for key in ('"apower": 8.9', '"Power": 27', '"PowerConsumedWatts": 150'):
            good = good.replace(key, f"{key.rpartition(' ')[0]} {change}")
        assert refused(name, ok(good.encode())).kind == "not_a_number", change


@device
def test_an_answer_that_is_no_object_is_refused(name: str) -> None:
    for body in (
        *(b"", b"{", b"[]", b"null", b"\x00\xff\xfe" * 50, b"[" * 100000, b"<html>"),
        b'{"a":1}{"a":1}',
    ):
        assert refused(name, ok(body)).kind == "format", body[:50]


@device
def test_an_answer_that_breaks_off_or_never_ends_is_refused(name: str) -> None:
    assert refused(name, ok(DEVICES[name][0])[:-20]).kind in ("cut", "lost")
    assert refused(name, b"HTTP/1.1 200 OK\r\n\r\n" + b" " * (1 << 20)).kind == "huge"


@device
def test_what_is_not_http_is_refused(name: str) -> None:
    for answer in (
        b"",
        b"\x00\xff" * 40,
        b"HTTP/1.1 999999 ?\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"a:b\r\n" * 500,
    ):
        assert refused(name, answer).kind in ("lost", "refused"), answer


@device
def test_another_status_is_told(name: str) -> None:
    for status in (301, 404, 500):
        answer = b"HTTP/1.1 %d X\r\nLocation: http://192.0.2.1/\r\n\r\n" % status
        assert str(status) in str(refused(name, answer))


@device
def test_a_silent_device_is_given_up_in_time(name: str) -> None:
    gone = threading.Event()

    def respond(_: bytes) -> bytes:
        gone.wait(60)
        return b""

    with web(respond) as port:
        options = {"host": "127.0.0.1", "port": port, **DEVICES[name][2]}
        assert fault(name, timeout_s=0.3, **options).kind in ("silence", "lost")
        gone.set()


@pytest.mark.parametrize("head", [b"", b"Connection: close\r\n"], ids=["kept", "last"])
def test_no_thread_stays_with_a_device_that_drips(head: bytes) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    let_go = threading.Event()

    def drip() -> None:
        connection, _ = listener.accept()
        with connection, suppress(OSError):
            connection.recv(4096)
            connection.sendall(b"HTTP/1.1 200 OK\r\n%bContent-Length: 99999\r\n\r\n" % head)
            while not gone.wait(0.05):
                connection.sendall(b" ")
            return
        let_go.set()

    gone = threading.Event()
    thread = threading.Thread(target=drip)
    thread.start()
    with listener:
        options = {"host": "127.0.0.1", "port": listener.getsockname()[1]}
        assert fault("shelly", timeout_s=0.3, **options).kind == "silence"
        assert let_go.wait(10)
    gone.set()
    thread.join()


@device
def test_a_device_that_is_not_there_is_told(name: str) -> None:
    with web(lambda _: b"") as port:
        pass
    said = fault(name, host="127.0.0.1", port=port, **DEVICES[name][2])
    assert (said.kind, str(said)) == ("lost", "127.0.0.1: connection refused")


OURS = ("apower", "aenergy", "total", "power", "is_valid", "voltage", "WARNING", "Total", "Power")
KEYS = st.sampled_from(
    (*OURS, "StatusSNS", "ENERGY", "PowerControl", "PowerConsumedWatts", "PowerWatts", "Reading")
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=4,
)


INNER = JSON | st.dictionaries(KEYS, JSON, max_size=3) | st.lists(JSON, max_size=3)


@given(said=st.dictionaries(KEYS, INNER, max_size=5))
def test_nonsense_is_a_fault_or_a_reading(said: dict[str, Any]) -> None:
    for name, (_, parse, _) in DEVICES.items():
        try:
            found = parse(json_object(json.dumps(said).encode()))
        except Fault:
            continue
        assert isinstance(found.power_w, float), name
