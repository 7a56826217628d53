"""Meters that other people's programs speak to: the programs are real, and so is the far end."""

import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import bmc
import pytest
from driver_calls import needs, secret_file
from free_port import free_port
from hypothesis import given
from hypothesis import strategies as st
from meters import fault, power_w, read
from naproxy.drivers.meter import Fault, Reading, ipmi, nut, snmp

from tests.patience import wait_for

SNMPD, UPSD, DUMMY = "/usr/sbin/snmpd", "/lib/nut/upsd", "/lib/nut/dummy-ups"


def end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    process.wait(10)


# ipmi: real ipmitool; a BMC of ours, because OpenIPMI's simulator has no DCMI


def ask_bmc(said: bytes) -> Fault | Reading:
    with bmc.bmc(said) as port:
        [item] = read("ipmi", interface="lan", host="127.0.0.1", port=port)
    return item


@pytest.mark.long
@needs("ipmitool")
def test_a_bmc_says_its_power_if_it_measures() -> None:
    assert ask_bmc(bmc.reading(215)) == Reading(215.0)
    assert ask_bmc(bmc.reading(0)) == Reading(0.0)
    assert "deactivated" in str(ask_bmc(bmc.reading(0, active=False)))


@pytest.mark.long
@needs("ipmitool")
def test_a_bmc_without_dcmi_or_without_an_answer_is_told() -> None:
    item = ask_bmc(b"\xc1\xdc")
    assert isinstance(item, Fault)
    assert item.kind == "refused"
    port = free_port(socket.SOCK_DGRAM)
    said = fault("ipmi", interface="lan", host="127.0.0.1", port=port, timeout_s=1)
    assert said.kind == "silence"


# https://github.com/lovoo/ipmi_exporter/issues/18
IPMITOOL = """
    Instantaneous power reading:                   215 Watts
    Minimum during sampling period:                162 Watts
    Maximum during sampling period:                276 Watts
    Average power reading over sample period:      176 Watts
    IPMI timestamp:                           Wed Feb 15 12:49:51 2017
    Sampling period:                          01131466 Seconds.
    Power reading state is:                   activated

"""


def test_what_ipmitool_prints_is_read() -> None:
    assert ipmi.parse(IPMITOOL) == Reading(215.0)
    # https://github.com/openbmc/openbmc/issues/3257
    assert ipmi.parse(IPMITOOL.replace("activated", "deactivated")) == Reading(215.0)


def test_what_ipmitool_cannot_mean_is_refused() -> None:
    for text, kind in (
        ("", "format"),
        (IPMITOOL[:60], "format"),
        (IPMITOOL[:200], "cut"),
        (IPMITOOL + IPMITOOL, "doubled"),
        (IPMITOOL.replace("215", "nan"), "not_a_number"),
        (IPMITOOL.replace("215", "2_1"), "not_a_number"),
        (IPMITOOL.replace("215", "1e999"), "not_a_number"),
        ("\x00\xff" * 99, "format"),
        (IPMITOOL.replace("215", "65535"), "format"),
    ):
        with pytest.raises(Fault) as caught:
            ipmi.parse(text)
        assert caught.value.kind == kind, text


def test_the_password_of_a_bmc_is_not_on_the_command_line() -> None:
    settings = ipmi.Settings(id="b", of="web", user="naproxy", password_file="/etc/naproxy/bmc")
    command = " ".join(ipmi.command(settings, "192.0.2.9"))
    assert command.startswith("ipmitool -I lanplus -H 192.0.2.9 -p 623 -U naproxy ")
    assert command.endswith(" -f /etc/naproxy/bmc dcmi power reading")


def test_a_program_that_is_not_installed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert str(fault("ipmi")) == "ipmitool cannot be run: no such file or directory"


# snmp: real snmpget and a real snmpd, whose values a script gives

VALUES = {
    f"{snmp._APC}.26.4.3.1.5.1": ("integer", "12"),
    f"{snmp._APC}.26.4.3.1.9.1": ("integer", "3456"),
    f"{snmp._APC}.26.9.4.3.1.7.3": ("integer", "43"),
    f"{snmp._APC}.26.9.4.3.1.11.3": ("integer", "17"),
    f"{snmp._APC}.12.1.16.0": ("gauge", "115"),
    "1.3.6.1.4.1.8072.9999.1.0": ("string", "61.5"),
    "1.3.6.1.4.1.8072.9999.2.0": ("integer", "-7"),
    "1.3.6.1.4.1.8072.9999.3.0": ("string", "NaN"),
    "1.3.6.1.4.1.8072.9999.4.0": ("string", "noise"),
}


@pytest.fixture(scope="module")
def pdu(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    folder = tmp_path_factory.mktemp("snmp")
    script = folder / "value"
    cases = "".join(
        f".{oid}) echo {kind}; echo {value};;\n" for oid, (kind, value) in VALUES.items()
    )
    script.write_text(f'#!/bin/sh\n[ "$1" = -g ] || exit\necho "$2"\ncase $2 in\n{cases}esac\n')
    script.chmod(0o755)
    port = free_port(socket.SOCK_DGRAM)
    roots = (snmp._APC, "1.3.6.1.4.1.8072.9999")
    (folder / "snmpd.conf").write_text(
        f"agentAddress udp:127.0.0.1:{port}\nrocommunity secret 127.0.0.1\n"
        + "".join(f"pass .{root} {script}\n" for root in roots)
    )
    process = subprocess.Popen(
        [SNMPD, "-f", "-C", "-c", folder / "snmpd.conf", "-Lf", folder / "log"],
        env={**os.environ, "MIBS": "", "SNMP_PERSISTENT_DIR": str(folder)},
    )
    community = secret_file(folder, "secret")
    asked = {"host": "127.0.0.1", "port": port, "password_file": community}
    wait_for(lambda: isinstance(read("snmp", **asked)[0], Reading), "snmpd")
    yield asked
    end(process)


needs_snmp = needs(SNMPD, "snmpget")


@needs_snmp
def test_power_strips_outlets_and_any_object_are_read(pdu: dict[str, Any]) -> None:
    strip, outlet = Reading(120.0, counter_j=3456 * 360e3), Reading(43.0, counter_j=17 * 360e3)
    assert read("snmp", **pdu) == [strip]
    assert read("snmp", kind="apc-outlet", channel=3, **pdu) == [outlet]
    assert power_w("snmp", kind="apc-first", **pdu) == 115
    oid = "1.3.6.1.4.1.8072.9999.1.0"
    assert power_w("snmp", kind="oid", source=oid, unit_w=0.1, **pdu) == pytest.approx(6.15)


@needs_snmp
def test_an_object_that_is_not_there_or_no_number_is_told(pdu: dict[str, Any]) -> None:
    assert "no such object" in str(fault("snmp", kind="apc-outlet", channel=9, **pdu))
    for number in (3, 4):
        oid = f"1.3.6.1.4.1.8072.9999.{number}.0"
        assert fault("snmp", kind="oid", source=oid, **pdu).kind == "not_a_number", number


@needs_snmp
def test_a_wrong_community_is_silence(pdu: dict[str, Any]) -> None:
    wrong = {**pdu, "password_file": ""}
    assert fault("snmp", timeout_s=0.6, **wrong).kind in ("silence", "refused")


def test_a_community_that_would_change_the_configuration_is_refused(tmp_path: Path) -> None:
    file = secret_file(tmp_path, 'public" \\')
    assert fault("snmp", host="127.0.0.1", password_file=file).kind == "refused"


# nut: real upsd and dummy-ups

UPS = """ups.load: 25
ups.realpower.nominal: 390
ups.status: OL
"""


class Ups:
    """A real upsd, with a UPS whose variables are a file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port(socket.SOCK_STREAM)
        self.variables = folder / "dummy.dev"
        self.name = f"dummy@127.0.0.1:{self.port}"

    @contextmanager
    def running(self, variables: str = UPS) -> Iterator[None]:
        self.variables.write_text(variables)
        (self.folder / "ups.conf").write_text(
            f"[dummy]\ndriver = dummy-ups\nport = {self.variables}\nmode = dummy-loop\n"
            "pollinterval = 1\n"
        )
        (self.folder / "upsd.conf").write_text(f"LISTEN 127.0.0.1 {self.port}\nMAXAGE 3\n")
        (self.folder / "upsd.users").write_text("")
        for file in self.folder.iterdir():
            file.chmod(0o640)
        environment = {
            **os.environ,
            "NUT_CONFPATH": str(self.folder),
            "NUT_STATEPATH": str(self.folder),
            "NUT_ALTPIDPATH": str(self.folder),
        }
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": environment}
        driver = subprocess.Popen([DUMMY, "-a", "dummy", "-F", "-u", "root"], **quiet)  # type: ignore[call-overload]
        daemon = subprocess.Popen([UPSD, "-F", "-u", "root"], **quiet)  # type: ignore[call-overload]
        try:
            wait_for(lambda: isinstance(read("nut", host=self.name)[0], Reading), "upsd")
            yield
        finally:
            end(driver)
            end(daemon)


@pytest.fixture(scope="module")
def ups(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ups]:
    made = Ups(tmp_path_factory.mktemp("nut"))
    with made.running():
        yield made


needs_nut = needs(UPSD, DUMMY, root=True)


@needs_nut
def test_a_variable_of_the_ups_or_its_load_in_percent_is_read(ups: Ups) -> None:
    assert power_w("nut", host=ups.name) == pytest.approx(97.5)
    assert power_w("nut", host=ups.name, source="ups.load") == 25


@needs_nut
def test_the_power_is_read_whatever_the_other_variables_are_called(tmp_path: Path) -> None:
    ups = Ups(tmp_path)
    with ups.running(
        "device.model: Example UPS 1000\ndriver.flag.allow_killpower: 0\nups.realpower: 126\n"
        "output.L1-N.voltage: 230\nbattery.mfr.date: \x01\u00e4\n"
    ):
        assert power_w("nut", host=ups.name) == 126


@needs_nut
def test_a_variable_or_a_ups_that_upsd_lacks_is_told(ups: Ups) -> None:
    said = fault("nut", host=ups.name, source="outlet.9.realpower")
    assert str(said) == "the UPS has no outlet.9.realpower"
    said = fault("nut", host=ups.name.replace("dummy", "other"))
    assert (said.kind, "UNKNOWN-UPS" in str(said)) == ("refused", True)


def test_nobody_at_the_port_is_told() -> None:
    said = fault("nut", host=f"ups@127.0.0.1:{free_port(socket.SOCK_STREAM)}")
    assert str(said).startswith("upsd cannot be asked")


@pytest.mark.parametrize(
    ("says", "kind"),
    [
        (b"ERR ACCESS-DENIED\n", "refused"),
        (b'BEGIN LIST VAR ups\nVAR ups ups.load "25"\n', "cut"),
        (b"BEGIN LIST VAR ups\n" + b"x" * 300_000 + b"\n", "huge"),
        (b'VAR ups ups.load "25"\n' * 20_000, "huge"),
        (b"HTTP/1.1 400 Bad Request\r\nEND LIST VAR ups\r\n", "noise"),
    ],
)
def test_what_no_upsd_says_is_a_fault(says: bytes, kind: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                with suppress(OSError):
                    connection.sendall(says)

        threading.Thread(target=serve, daemon=True).start()
        said = fault("nut", host=f"ups@127.0.0.1:{listener.getsockname()[1]}")
    assert said.kind == kind


def told(variables: str) -> str:
    """Return what upsd says of variables."""
    lines = (line.partition(": ") for line in variables.splitlines())
    return "".join(f'VAR ups {name} "{value}"\n' for name, _, value in lines)


def test_a_real_power_goes_before_a_load_in_percent() -> None:
    found = nut.variables(told(UPS + "ups.realpower: 101\n"))
    assert nut.parse(found) == Reading(101.0)


def test_a_quoted_value_is_read_as_it_was() -> None:
    found = nut.variables('VAR ups ups.model "Smart \\"UPS\\" \\\\ 700"\n')
    assert found == {"ups.model": 'Smart "UPS" \\ 700'}


def test_what_upsd_cannot_mean_is_refused() -> None:
    for text, kind in (
        ("", "format"),
        (told("ups.load: 25\n"), "format"),
        (told(UPS + UPS), "doubled"),
        (told(UPS.replace("25", "nan")), "not_a_number"),
        (told(UPS.replace("390", "many")), "not_a_number"),
        ("\x00\x01\x02", "noise"),
        ("VAR ups no value\n", "noise"),
    ):
        with pytest.raises(Fault) as caught:
            nut.parse(nut.variables(text))
        assert caught.value.kind == kind, text


@pytest.mark.parametrize(
    "line",
    [
        'VAR office driver.flag.allow_killpower "0"',
        'VAR office output.L1-N.voltage "230"',
        'VAR office driver.parameter.loadPercentage "1"',
        'VAR office battery.date "\x01\ufffd"',
        "VAR office ups.id",
        'VAR office ups.model "in two',
        'lines"',
        'VAR office ups.id "a"\nVAR office ups.id "b"',
    ],
)
def test_a_line_that_no_reading_needs_may_be_odd(line: str) -> None:
    text = f'{line}\nVAR office ups.realpower "126"\n'
    assert nut.parse(nut.variables(text)) == Reading(126.0)


@pytest.mark.parametrize("of", ["output", "ups"])
def test_three_phases_are_added(of: str) -> None:
    phases = "".join(f"{of}.L{number}.realpower: {number}00\n" for number in (1, 2, 3))
    assert nut.parse(nut.variables(told(phases))) == Reading(600.0)
    one = phases.splitlines()[0]
    with pytest.raises(Fault, match="neither"):
        nut.parse(nut.variables(told(one)))


def test_three_phases_of_0_w_leave_the_load_in_percent() -> None:
    phases = "".join(f"output.L{number}.realpower: 0\n" for number in (1, 2, 3))
    assert nut.parse(nut.variables(told(phases + UPS))) == Reading(97.5)


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        # nut-ddl: PowerWalker VI 650 SH, Grafenthal PR-3000-HS
        ("ups.realpower: 0\nups.load: 24\n", "0 W while ups.load is 24"),
        ("output.realpower: 0.00\nups.load: 9.00\n", "0 W while ups.load is 9"),
        # Liebert GXT2-3000, HP RT3000 G2 (its nominal power), Riello Sentinel SDL (a tenth)
        ("ups.realpower: 0\noutput.voltage: 230.4\noutput.current: 0.8\n", "contradict|wrong"),
        ("ups.realpower: 3000\noutput.voltage: 223\noutput.current: 0.2\n", "44.6 VA"),
        ("output.realpower: 16.8\nups.power: 168.0\n", "168"),
        # UPSonic IRT1000, CyberPower CP1500 with an old driver, Powerware 9355
        ("ups.realpower.nominal: 900\nups.load: 562020.0\n", "562020"),
        (
            "ups.realpower.nominal: 388\nups.load: 13\nups.model: CP 1500C\n"
            "driver.version.data: CyberPower HID 0.3\n",
            "388.0 W, which is too little",
        ),
        ("ups.realpower.nominal: 2400\nups.power.nominal: 8000\nups.load: 2\n", "too little"),
        ("output.realpower.nominal: 0.00\nups.load: 2\n", "too little"),
    ],
)
def test_a_power_that_cannot_be_right_is_refused(variables: str, words: str) -> None:
    with pytest.raises(Fault, match=words):
        nut.parse(nut.variables(told(variables)))


def test_a_variable_that_is_named_is_read_unless_it_is_0_w_under_load() -> None:
    found = nut.variables(told("ups.realpower: 253\noutput.voltage: 124\noutput.current: 0.2\n"))
    assert nut.parse(found, "ups.realpower") == Reading(253.0)
    idle = nut.variables(told("ups.realpower: 0\noutlet.1.realpower: 0\nups.load: 24\n"))
    assert nut.parse(idle, "outlet.1.realpower") == Reading(0.0)
    with pytest.raises(Fault, match="0 W while"):
        nut.parse(idle, "ups.realpower")


@pytest.mark.parametrize(
    ("variables", "power_w"),
    [
        ("ups.realpower: 0\nups.load: 0\nups.power: 0\n", 0),
        # APC Smart-UPS 750: a power factor of a third
        ("ups.realpower: 25.94\nups.power: 77.93\n", 25.94),
        # Powerware 5130: a voltage that is none
        ("ups.realpower: 918\noutput.voltage: 3946.0\noutput.current: 4.40\n", 918),
        ("ups.realpower: 155\noutput.voltage: 218.0\noutput.current: 0.0\n", 155),
        ("output.realpower.nominal: 480\nups.load: 20\n", 96),
    ],
)
def test_a_power_that_can_be_right_is_read(variables: str, power_w: float) -> None:
    assert nut.parse(nut.variables(told(variables))) == Reading(pytest.approx(power_w))


@given(st.text(max_size=200))
def test_nonsense_is_a_fault_or_a_reading(text: str) -> None:
    asked = snmp.Objects("1", 1.0, "2", 1.0)
    parsers: list[Callable[[str], Reading]] = [
        ipmi.parse,
        lambda said: nut.parse(nut.variables(said)),
        lambda said: snmp.parse(said.splitlines(), asked),
    ]
    for parse in parsers:
        try:
            parse(text)
        except Fault:
            continue
