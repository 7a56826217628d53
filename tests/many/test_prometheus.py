"""A real Prometheus asks a real box by TLS; the alert rules, the dashboard (docs/monitoring)."""

import json
import re
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from naproxy.api import measures
from naproxy.api.measures import Measure
from naproxy_webui.auth import passwords, tokens, users
from naproxy_webui.auth.database import Database

from tests.patience import wait_for
from tests.simulator.office.namespace import ROOT
from tests.webui.people import PASSWORD, VIEWER
from tests.webui.stage import Stage

# isort: split
from free_port import free_port

MONITORING = ROOT / "docs/monitoring"
NAMES = {measures.PREFIX + each.name for each in vars(measures).values() if type(each) is Measure}
"""All that a box's /metrics may have."""

pytestmark = pytest.mark.skipif(not shutil.which("promtool"), reason="wants prometheus")


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((MONITORING / "dashboard.json").read_text())["panels"]
    return found


def queries() -> list[str]:
    """What the dashboard asks, with what Grafana puts in the place of its variables."""
    return [
        each["expr"].replace("$instance", ".*").replace("$__rate_interval", "1m")
        for panel in panels()
        for each in panel["targets"]
    ]


def rules() -> list[str]:
    """What the alert rules ask."""
    said = subprocess.run(
        ["promtool", "check", "rules", "--lint=none", MONITORING / "alerts.yml"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert said.returncode == 0, said.stdout + said.stderr
    text = (MONITORING / "alerts.yml").read_text()
    found = re.findall(r"^ +expr: (?:\|\n((?: {10,}.*\n)+)|(.*)\n)", text, re.MULTILINE)
    return [block or line for block, line in found]


def test_each_rule_fires_when_it_should_and_not_else() -> None:
    done = subprocess.run(
        ["promtool", "test", "rules", ROOT / "tests/many/alerts_test.yml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_rule_has_a_test() -> None:
    names = r"alert: (Naproxy\w+)", r"alertname: (Naproxy\w+)"
    files = MONITORING / "alerts.yml", ROOT / "tests/many/alerts_test.yml"
    alerts, tested = (
        set(re.findall(name, file.read_text())) for name, file in zip(names, files, strict=True)
    )
    assert alerts
    assert alerts == tested


def test_rules_and_dashboard_ask_for_what_a_box_has() -> None:
    asked = [*rules(), *queries()]
    assert len(asked) > 20
    names = {name for each in asked for name in re.findall(r"\bnaproxy_\w+", each)}
    assert names
    assert names - NAMES == set()


class Prometheus:
    """It runs with the page's own configuration, of which the targets are another."""

    def __init__(self, folder: Path, stage: Stage, token: str) -> None:
        self.port, tls = free_port(), free_port()
        certificate = ROOT / "overlay/usr/sbin/naproxy-certificate"
        subprocess.run([certificate, folder / "tls"], check=True, capture_output=True)
        pem = (folder / "tls/naproxy.pem").read_text()
        (folder / "naproxy-boxes.pem").write_text(pem[pem.index("-----BEGIN CERT") :])
        (folder / "tokens").mkdir()
        (folder / "tokens/naproxy-0a1b2c").write_text(token)
        shutil.copy(MONITORING / "alerts.yml", folder)
        conf = (MONITORING / "prometheus.yml").read_text()
        conf = conf.replace(
            "scrape_interval: 30s", "scrape_interval: 1s\n  evaluation_interval: 1s"
        )
        name = f"{socket.gethostname().split('.')[0]}.local"
        for there, here in (
            (conf[conf.index("  - job_name: naproxy-3d4e5f") :], ""),  # one box is enough
            ("naproxy-boxes.pem }", f"naproxy-boxes.pem, server_name: {name} }}"),
            ("naproxy-0a1b2c.local:8443", f"127.0.0.1:{tls}"),
        ):
            assert there in conf
            conf = conf.replace(there, here)
        (folder / "prometheus.yml").write_text(conf)
        # In the place of the box's lighttpd.
        (folder / "tls.cfg").write_text(
            "defaults\n  mode http\n  timeout connect 5s\n  timeout client 60s\n"
            f"  timeout server 60s\nlisten tls\n  bind 127.0.0.1:{tls} ssl crt"
            f" {folder}/tls/naproxy.pem\n  server box 127.0.0.1:{stage.port}\n"
        )
        self._processes = ExitStack()
        for argv in (
            ("haproxy", "-f", folder / "tls.cfg"),
            (
                "prometheus",
                f"--config.file={folder}/prometheus.yml",
                f"--storage.tsdb.path={folder}/data",
                f"--web.listen-address=127.0.0.1:{self.port}",
            ),
        ):
            log = self._processes.enter_context((folder / f"{argv[0]}.log").open("wb"))
            process = subprocess.Popen(argv, stdout=log, stderr=log)
            self._processes.callback(process.wait)
            self._processes.callback(process.terminate)

    def api(self, path: str, **query: str) -> Any:
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            return error.read().decode()

    def ask(self, query: str) -> Any:
        said = self.api("query", query=query)
        assert isinstance(said, dict), f"{query}: {said}"
        return said["result"]

    def close(self) -> None:
        self._processes.close()


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage(days=0.1, visitors=False) as made:
        yield made


@pytest.fixture(scope="module")
def prometheus(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    db = Database(stage.state_dir / "webui.db", users.SCHEMA + tokens.SCHEMA)
    viewer = users.Users(db, lambda: passwords.Cost(p=1)).check(VIEWER, PASSWORD)
    assert viewer
    _, secret = tokens.Tokens(db).make(viewer, "Prometheus", "metrics")
    db.close()
    made = Prometheus(tmp_path_factory.mktemp("prometheus"), stage, secret)

    def scraped() -> bool:
        with suppress(OSError, AssertionError):  # while it starts
            return bool(made.ask('up{job="naproxy"} == 1'))
        return False

    try:
        wait_for(scraped, "a box that is up", 60)
        time.sleep(3)
        yield made
    finally:
        made.close()


def test_a_box_says_its_power_and_the_state_of_its_server(prometheus: Prometheus) -> None:
    [power] = prometheus.ask("naproxy_power_watts")
    assert 1 < float(power["value"][1]) < 200
    assert len(prometheus.ask('naproxy_server_state{server="web"}')) == 6
    assert len(prometheus.ask("naproxy_server_state == 1")) == 1


def test_all_that_the_dashboard_asks_is_answered(prometheus: Prometheus) -> None:
    empty = [query for query in queries() if not prometheus.ask(query)]
    # A box in good order has no warnings, and this one no HTTPS.
    assert all("== " in each or "certificate" in each or "rate(" in each for each in empty), empty


def test_a_box_in_good_order_raises_no_alarm(prometheus: Prometheus) -> None:
    [group] = prometheus.api("rules")["groups"]
    assert [each["name"] for each in group["rules"] if each["health"] == "err"] == []
    wait_for(
        lambda: prometheus.api("rules")["groups"][0]["rules"][0]["health"] == "ok", "the rules"
    )
    assert prometheus.api("alerts")["alerts"] == []


def test_a_box_that_is_gone_is_missed(prometheus: Prometheus, stage: Stage) -> None:
    """The last: it takes the web interface away."""
    stage.stop_webui()
    alerts = wait_for(lambda: prometheus.api("alerts")["alerts"], "the alert", 30)
    assert alerts[0]["labels"]["alertname"] == "NaproxyBoxUnreachable"
    assert alerts[0]["state"] == "pending"
