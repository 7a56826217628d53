"""The Proxmox VE drivers against a double made from its published API, and hostile answers."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from driver_calls import certificate, failures, needs, out_of_time, secret_file
from naproxy.config import document as config
from naproxy.core import findings
from naproxy.core.reason import Reason, own_words
from naproxy.core.schema import ConfigError
from naproxy.doctor import readings
from naproxy.drivers import proxmox as client
from naproxy.drivers.sleep import ACCEPTED, SleepResult, checks
from naproxy.drivers.sleep import proxmox as sleep_proxmox
from naproxy.drivers.wake import proxmox as wake_proxmox
from naproxy.server.machine_io import Answer
from pve import TOKEN, Pve, proxmox
from ssh_server import TARGET

pytestmark = needs("openssl")
Serve = Callable[..., Pve]


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder with a certificate, and its fingerprint."""
    directory = tmp_path_factory.mktemp("pve")
    return directory, certificate(directory, "pve")


@pytest.fixture
def serve(keys: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Makes a Proxmox whose machine is as the test says."""
    monkeypatch.setattr(client, "_POLL_S", 0.01)
    with ExitStack() as stack:

        def begin(kind: str = "qemu", **now: Any) -> Pve:
            made = Pve(kind)
            for name, value in now.items():
                setattr(made, name, value)
            return stack.enter_context(proxmox(made, *keys))

        yield begin


def login(pve: Pve, directory: Path, **changes: Any) -> dict[str, Any]:
    usual = {
        "host": "127.0.0.1",
        "port": pve.port,
        "fingerprint": pve.fingerprint,
        "password_file": secret_file(directory, TOKEN),
        "machine": f"pve/{pve.kind}/100",
        "timeout_s": 20.0,
    }
    return {**usual, **changes}


def sleep(pve: Pve, directory: Path, **changes: Any) -> SleepResult:
    settings = sleep_proxmox.Settings(**login(pve, directory, **changes))
    return asyncio.run(sleep_proxmox.Driver(settings, TARGET).sleep())


def wake(pve: Pve, directory: Path, **changes: Any) -> list[str]:
    settings = wake_proxmox.Settings(**login(pve, directory, **changes))
    return failures(wake_proxmox.Driver(settings, TARGET))


def said(**inner: Any) -> Reason:
    words = Reason(inner.pop("code"), **inner)
    return Reason("proxmox.said", host="127.0.0.1", words=words)


def status(number: int, words: str) -> Reason:
    return said(code="proxmox.status", status=number, said=own_words(words))


# What it is for


@pytest.mark.parametrize(
    ("kind", "state", "orders"),
    [
        ("qemu", "ram", [("suspend", {}), ("resume", {})]),
        ("qemu", "disk", [("suspend", {"todisk": "1"}), ("start", {})]),
        ("qemu", "off", [("shutdown", {"timeout": "16"}), ("start", {})]),
        ("lxc", "off", [("shutdown", {"timeout": "16"}), ("start", {})]),
    ],
)
def test_a_machine_sleeps_and_is_woken_from_there(
    kind: str, state: str, orders: list[Any], serve: Serve, tmp_path: Path
) -> None:
    pve = serve(kind)
    assert sleep(pve, tmp_path, state=state) == SleepResult(Answer.ACCEPTED, ACCEPTED)
    assert (pve.state, pve.orders) == ("paused" if state == "ram" else "stopped", orders[:1])
    assert wake(pve, tmp_path) == []
    assert (pve.state, pve.orders) == ("running", orders)


def test_one_that_is_asleep_already_is_left_alone(serve: Serve, tmp_path: Path) -> None:
    for state, asleep in (
        ("ram", "paused"),
        ("ram", "suspended"),
        ("ram", "stopped"),
        ("disk", "stopped"),
    ):
        pve = serve(state=asleep, lock="suspended" if state == "disk" else "")
        already = Reason("proxmox.already", state=asleep)
        assert sleep(pve, tmp_path, state=state) == SleepResult(Answer.ACCEPTED, already)
        assert pve.orders == []


@pytest.mark.parametrize(("state", "orders"), [("running", []), ("suspended", [("resume", {})])])
def test_only_one_that_does_not_run_is_woken(
    state: str, orders: list[Any], serve: Serve, tmp_path: Path
) -> None:
    pve = serve(state=state)
    assert wake(pve, tmp_path) == []
    assert pve.orders == orders


# Refusals, in Proxmox' own words


def test_what_proxmox_does_not_let_it_do_is_told_and_nothing_is_ordered(
    serve: Serve, tmp_path: Path
) -> None:
    missing = "Configuration file 'nodes/pve/qemu-server/999.conf' does not exist"
    for now, changes, reason in (
        ({"lock": "backup"}, {}, Reason("proxmox.locked", lock="backup")),
        ({}, {"machine": "pve2/qemu/100"}, status(500, "hostname lookup 'pve2' failed")),
        (
            {},
            {"machine": "pve/qemu/999"},
            status(500, missing),
        ),
        ({"state": "paused"}, {"state": "off"}, status(500, "VM is paused - cannot shutdown")),
    ):
        pve = serve(**now)
        answer = Answer.REFUSED if reason.code == "proxmox.locked" else Answer.FAILED
        assert sleep(pve, tmp_path, **changes) == SleepResult(answer, reason)
        assert pve.orders == []


def test_a_right_that_is_missing_is_named(serve: Serve, tmp_path: Path) -> None:
    for right in ("VM.Audit", "VM.PowerMgmt", "Datastore.AllocateSpace"):
        pve = serve()
        pve.rights.remove(right)
        reason = status(403, f"Permission check failed (/vms/100, {right})")
        assert sleep(pve, tmp_path, state="disk") == SleepResult(Answer.FAILED, reason)
        assert pve.orders == []


def test_a_wrong_token_is_told(serve: Serve, tmp_path: Path) -> None:
    wrong = secret_file(tmp_path, TOKEN.replace("aaaa", "ffff"))
    pve, reason = serve(), status(401, "invalid token value!")
    assert sleep(pve, tmp_path, password_file=wrong) == SleepResult(Answer.FAILED, reason)
    assert wake(pve, tmp_path, password_file=wrong) == [str(reason)]


def test_a_task_that_fails_is_told_and_one_with_warnings_was_carried_out(
    serve: Serve, tmp_path: Path
) -> None:
    words = "VM quit/powerdown failed - got timeout"
    result = sleep(serve(exitstatus=words), tmp_path, state="off")
    reason = said(code="proxmox.task", verb="shutdown", words=own_words(words))
    assert result == SleepResult(Answer.FAILED, reason)
    assert sleep(serve(exitstatus="WARNINGS: 1"), tmp_path).answer is Answer.ACCEPTED


# What goes wrong on the way


def test_a_task_that_does_not_end_is_not_waited_for_for_ever(serve: Serve, tmp_path: Path) -> None:
    pve = serve(busy=10**9)
    settings = sleep_proxmox.Settings(**login(pve, tmp_path))
    driver = sleep_proxmox.Driver(settings, TARGET)
    result = out_of_time(driver.sleep, lambda: pve.busy < 10**9)
    unfinished = Reason("proxmox.unfinished", host="127.0.0.1")
    assert result == SleepResult(Answer.FAILED, unfinished)
    assert len(pve.orders) == 1


def test_another_certificate_gets_no_token(serve: Serve, tmp_path: Path) -> None:
    pve = serve()
    [words] = wake(pve, tmp_path, fingerprint="ab" * 32)
    assert "is not the pinned one" in words
    assert pve.fingerprint in words
    assert pve.tokens == set()


def test_nobody_there_is_told(serve: Serve, tmp_path: Path) -> None:
    assert wake(serve(), tmp_path, port=1) == ["Proxmox at 127.0.0.1: connection refused"]


def http(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


STRANGE = [
    *(http(b""), http(b"<html>"), http(b"[]"), http(b"{}"), http(b'"data"'), http(b"[" * 100_000)),
    *(http(b'{"data":null}'), http(b'{"data":{}}'), http(b'{"data":[1]}'), http(b'{"data":5}')),
    *(http(b'{"data":{"status":"off"}}'), http(b'{"data":{"status":["running"]}}')),
    *(http(b"\xff\xfe\x00"), b"", b"\0\0\0", b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 abc\r\n\r\n"),
    *(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{", b"HTTP/1.1 302 Found\r\n\r\n"),
]


@pytest.mark.parametrize("end", ["/current", "/suspend", "%3A/status"])
def test_garbage_is_a_failure_in_words(end: str, serve: Serve, tmp_path: Path) -> None:
    pve = serve()
    for raw in STRANGE:
        pve.raw = {end: raw}
        result = sleep(pve, tmp_path)
        assert (result.answer, result.reason.code) == (Answer.FAILED, "proxmox.said"), raw
        assert str(result.reason).startswith("Proxmox at 127.0.0.1: ")
        assert str(result.reason).isprintable()


def test_a_huge_body_is_not_read_to_its_end(serve: Serve, tmp_path: Path) -> None:
    huge = b"HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\n" + b" " * (1 << 21)
    too_long = said(code="driver.long_answer", high=1 << 20)
    assert sleep(serve(raw={"/current": huge}), tmp_path).reason == too_long


def test_words_that_would_move_a_terminals_cursor_are_not_shown(
    serve: Serve, tmp_path: Path
) -> None:
    pve = serve(exitstatus="\x1b[2J\nall is well\0" + "x" * 5000)
    words = str(sleep(pve, tmp_path).reason)
    assert words.isprintable()
    assert len(words) < 500


def test_a_status_that_is_no_word_of_proxmox_wakes_and_sleeps_nothing(
    serve: Serve, tmp_path: Path
) -> None:
    said_so = http(b'{"data":{"status":"running","qmpstatus":{"a":1},"lock":["b"]}}')
    pve = serve(raw={"/current": said_so})
    assert wake(pve, tmp_path) == []
    assert sleep(pve, tmp_path).answer is Answer.REFUSED
    assert pve.orders == []


# The token


def test_what_is_no_token_or_cannot_be_read_is_not_sent(serve: Serve, tmp_path: Path) -> None:
    pve = serve()
    for token in ("secret", "naproxy@pve=x", "naproxy@pve!box", "a@b!c=d e", "ü@pve!box=x"):
        file = secret_file(tmp_path, token)
        no_token = said(code="proxmox.no_token", file=file)
        assert sleep(pve, tmp_path, password_file=file) == SleepResult(Answer.FAILED, no_token)
    reason = sleep(pve, tmp_path, password_file=str(tmp_path / "none")).reason
    assert reason.codes() == ("proxmox.said", "driver.secret", "proxmox.token", "driver.unreadable")
    assert pve.tokens == set()


# The doctor


def looked_at(pve: Pve, directory: Path) -> findings.Finding:
    """What the doctor says of it."""
    settings = sleep_proxmox.Settings(**login(pve, directory))
    way = asyncio.run(sleep_proxmox.see(settings, TARGET))
    server = SimpleNamespace(sleep=settings, id="web")
    seen = readings.Seen(server=server, interface="lo", way=way)  # type: ignore[arg-type]
    [found] = findings.look("box", checks("proxmox", "box"), seen)
    return found


def test_the_doctor_asks_proxmox_and_orders_nothing(serve: Serve, tmp_path: Path) -> None:
    pve = serve()
    assert looked_at(pve, tmp_path).verdict == "ok"
    pve.rights.clear()
    found = looked_at(pve, tmp_path)
    assert found.verdict == "problem"
    assert found.what == status(403, "Permission check failed (/vms/100, VM.Audit)")
    assert pve.orders == []


# The configuration

MACHINE = (
    f'driver = "proxmox"\nhost = "pve"\nmachine = "pve/qemu/100"\nfingerprint = "{"ab" * 32}"\n'
    'password_file = "/etc/naproxy/proxmox.token"\n'
)


def configured(sleeps: str = "", wakes: str = "", kind: str = "qemu") -> set[str]:
    """The paths of what is wrong."""
    text = (
        '[[server]]\nid = "web"\naddress = "192.0.2.7"\nmac = "02:00:00:00:00:01"\n'
        f"[server.sleep]\n{MACHINE.replace('qemu', kind)}{sleeps}\n"
        f"[[server.wake]]\n{wakes or MACHINE}\n"
    )
    try:
        config.parse(text)
    except ConfigError as error:
        return {problem.where for problem in error.problems}
    return set()


def test_what_does_not_fit_together_is_said() -> None:
    for sleeps, wakes, wrong in (
        ("", "", set()),
        ("", 'driver = "etherwake"', {"server.web.wake.1.driver"}),
        ("", 'driver = "command"\nprogram = "wake"', set()),
        ("", MACHINE.replace("pve/", "../evil/"), {"server.web.wake.1.machine"}),
        ("", MACHINE.replace("100", "99"), {"server.web.wake.1.machine"}),
        ("", MACHINE.replace("ab", "x"), {"server.web.wake.1.fingerprint"}),
    ):
        assert configured(sleeps, wakes) == wrong, (sleeps, wakes)
    assert configured('state = "off"', kind="lxc") == set()
    for state in ("disk", "ram"):
        assert configured(f'state = "{state}"', kind="lxc") == {"server.web.sleep.state"}, state
