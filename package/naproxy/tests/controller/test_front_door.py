"""The box's own ports, against real sockets on loopback: ours, closed, silent, another's."""

import asyncio
import json
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from naproxy.api import measures
from naproxy.cli import __main__ as cli
from naproxy.config import document as config
from naproxy.controller import front_door
from naproxy.controller.front_door import Doors, look
from naproxy.core.reason import Reason
from naproxy.notify.events import Watch, conditions

Printed = pytest.CaptureFixture[str]

ONE = '[[server]]\nid = "web"\naddress = "127.0.0.1"\nmac = "02:00:00:00:00:01"\n'
OVER_HTTPS = ONE + 'hosts = ["shop.example"]\n[server.https]\nmode = "box"\n'
PASSED_ON = ONE + 'hosts = ["shop.example"]\n[server.https]\nmode = "through"\n'
OURS = b"HTTP/1.1 400 Bad Request\r\nX-Naproxy: other\r\nContent-Length: 0\r\n\r\n"
NGINX = b"HTTP/1.1 200 OK\r\nServer: nginx\r\nContent-Length: 0\r\n\r\n"
CLOSED = "front_door.refused"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front_door, "outside_address", lambda: "127.0.0.1")
    monkeypatch.setattr(front_door, "_AGAIN_S", 0.0)
    monkeypatch.setattr(front_door, "_ANSWER_S", 0.5)

    async def holder(_: int) -> str:
        return ""

    monkeypatch.setattr(front_door, "holder", holder)


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt"),
            *("ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=shop.example"),
            *("-keyout", folder / "key", "-out", folder / "cert"),
        ],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert", folder / "key")
    return context


@asynccontextmanager
async def serving(answer: bytes | None, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Listen and give this answer; None: take connections and stay silent."""
    left = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if answer is None:
            await left.wait()
        else:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0, ssl=tls)
    async with server:
        yield server.sockets[0].getsockname()[1]
        left.set()


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def codes(found: Doors) -> tuple[str, str]:
    http, https = (each.code if each else "" for each in (found.http, found.https))
    return http, https


def test_each_port_is_tested_and_its_problem_is_named(tls: ssl.SSLContext) -> None:
    async def found(text: str, http: bytes | None, https: bytes | None) -> Doors:
        async with serving(http) as one, serving(https, tls) as two:
            return await look(config.parse(text), one, two)

    for text, http, https, expected in (
        (ONE, OURS, NGINX, ("", "")),
        (ONE, NGINX, OURS, ("front_door.other", "")),
        (ONE, None, OURS, ("front_door.silent", "")),
        (ONE, b"SSH-2.0-OpenSSH\r\n", OURS, ("front_door.other", "")),
        ("", OURS, OURS, ("", "")),
        (OVER_HTTPS, OURS, OURS, ("", "")),
        (OVER_HTTPS, OURS, NGINX, ("", "front_door.other")),
        (OVER_HTTPS, OURS, None, ("", "front_door.silent")),
        (PASSED_ON, OURS, None, ("", "")),
    ):
        assert codes(asyncio.run(found(text, http, https))) == expected, (text, http, https)
    for text, expected in (
        (ONE, (CLOSED, "")),
        (OVER_HTTPS, (CLOSED, CLOSED)),
        (PASSED_ON, (CLOSED, CLOSED)),
    ):
        doors = asyncio.run(look(config.parse(text), free_port(), free_port()))
        assert codes(doors) == expected, text


def test_a_program_on_the_port_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        own = Path("/proc/self/comm").read_text().strip()
        assert asyncio.run(front_door.holder(port)) == own
    assert asyncio.run(front_door.holder(free_port())) == ""


def test_a_stopped_varnish_shows_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Printed
) -> None:
    closed = Reason("front_door.refused", address="192.0.2.2", port=80)
    doors = Doors("192.0.2.2", http=closed, over_https=True)

    async def closed_look(_: Any) -> Doors:
        return doors

    monkeypatch.setattr("naproxy.cli.doctor.look", closed_look)
    file = tmp_path / "naproxy.toml"
    file.write_text("[box]\n")
    assert cli.main(["doctor", "--config", str(file)]) == 1
    said = capsys.readouterr().out
    assert "PROBLEM  front door http: nothing listens" in said
    assert "systemctl restart varnish" in said
    assert cli.main(["doctor", "--config", str(file), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["problems"] == 1

    box = {"front_door": {**doors.plain(), "looked_s": 5.0}, "edge": {"certificates": []}}
    status = {"box": box, "servers": [], "meters": []}
    watch, told = Watch(), []
    for now_s in (0.0, 10.0, 20.0, 30.0):
        told += watch.look(now_s, conditions(status, now_s, 1 << 40, {}))
    assert [(each.reason.code, each.more) for each in told] == [("notify.front_door", closed)]
    box["front_door"] = Doors("192.0.2.2", over_https=True).plain()
    [back] = watch.look(40.0, conditions(status, 40.0, 1 << 40, {}))
    assert back.reason.code == "notify.front_door_back"

    more = {"version": "1", "started_s": 1, "settings_refused": None, "events_lost": 0}
    more |= {"history_error": None, "energy_j": {}}
    edge = {"wanted": False, "certificates": []}
    told_box = {**more, "edge": edge, "front_door": {**doors.plain(), "looked_s": 5.0}}
    figures = measures.prometheus({"box": told_box, "servers": [], "meters": []})
    assert 'naproxy_front_door_up{port="80"} 0.0' in figures
    assert 'naproxy_front_door_up{port="443"} 1.0' in figures
